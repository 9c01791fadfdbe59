"""Node domains: the nodes with the same value of a label."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.node import Node


def comes_into_a_domain(labels: Iterable[str], old: Node | None, new: Node) -> bool:
    """Whether a change, or an addition, gives a node a value of one of the labels."""
    before, after = {} if old is None else old.metadata.labels, new.metadata.labels
    return any(label in after and after[label] != before.get(label) for label in labels)
