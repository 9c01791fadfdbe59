"""Selectors as manifests write them, for the builders."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.testing.builder import Json


def requirement(key: str, operator: str, *values: str) -> Json:
    """One expression of a selector."""
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def labels_are(labels: Mapping[str, str] | None = None, *requirements: Json) -> Json:
    """A LabelSelector; empty without arguments (which matches everything)."""
    selector: Json = {"matchLabels": dict(labels)} if labels else {}
    return selector | ({"matchExpressions": list(requirements)} if requirements else {})


def expressions(*requirements: Json) -> Json:
    """A NodeSelectorTerm on labels."""
    return {"matchExpressions": list(requirements)}


def fields(*requirements: Json) -> Json:
    """A NodeSelectorTerm on fields (metadata.name)."""
    return {"matchFields": list(requirements)}
