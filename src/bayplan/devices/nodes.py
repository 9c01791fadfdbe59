"""The nodes of a slice or a device: by name, by selector, or all nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from bayplan.api import selectors
from bayplan.api.node import Node
from bayplan.api.pod_spec import NodeSelector, NodeSelectorTerm
from bayplan.api.resource import Device, ResourceSliceSpec

Matcher = Callable[[Node], bool]
NAME_FIELD = "metadata.name"


def matches(place: ResourceSliceSpec | Device, node: Node) -> bool:
    """Whether the slice or device is for ``node``.

    Raises:
        SelectorError: its node selector is faulty.
    """
    if place.node_name:
        return place.node_name == node.name
    if place.all_nodes:
        return True
    return place.node_selector is not None and selects(place.node_selector, node)


def selects(selector: NodeSelector, node: Node) -> bool:
    """Whether a node selector holds for ``node``; raises SelectorError where it is faulty."""
    return _matcher(msgspec.json.encode(selector))(node)


def slice_matches(spec: ResourceSliceSpec, node: Node) -> bool:
    """Whether any device of a slice may be for ``node``; a slice that does not say is for none.

    Raises:
        SelectorError: a node selector is faulty.
    """
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return matches(spec, node)
    return spec.per_device_node_selection and any(matches(d, node) for d in spec.devices)


@lru_cache(maxsize=4096)
def _matcher(encoded: bytes) -> Matcher:
    selector = msgspec.json.decode(encoded, type=NodeSelector)
    terms = [
        _term(term)
        for term in selector.node_selector_terms
        if term.match_expressions or term.match_fields
    ]
    return lambda node: any(term(node) for term in terms)


def _term(term: NodeSelectorTerm) -> Matcher:
    labels, fields = (
        selectors.all_of([selectors.requirement(r.key, r.operator, r.values) for r in requirements])
        for requirements in (term.match_expressions, term.match_fields)
    )
    return lambda node: labels(node.labels) and fields({NAME_FIELD: node.name})
