"""One scheduling attempt: from a Pod to a node, or to the reason why there is none."""
