"""The documentation site: these pages, and the API from the docstrings. `make docs` builds it."""

from bayplan import __version__

project = "bayplan"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinxcontrib.mermaid",
]
html_theme = "furo"
html_title = f"bayplan {__version__}"
default_role = "py:obj"
exclude_patterns = ["cluster.yaml"]
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints = "description"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
# Links to files of the repository outside of this folder are no pages of the site;
# tests/docs/test_documents.py checks that they lead somewhere.
suppress_warnings = ["myst.xref_missing"]
