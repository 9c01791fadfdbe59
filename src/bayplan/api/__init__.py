"""What bayplan reads of Kubernetes objects: msgspec structs, quantities, label selectors.

The structs hold only the fields that scheduling reads; everything else on the wire is skipped while
decoding. Attribute names are the API's in snake case (``node_selector`` for ``nodeSelector``).
"""
