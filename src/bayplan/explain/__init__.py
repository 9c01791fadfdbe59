"""Why a Pod goes where it goes, or nowhere: an attempt in a dry run, put into plain data."""
