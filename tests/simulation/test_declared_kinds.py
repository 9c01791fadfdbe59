"""Kinds that plugins declare, in files."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.support import node, write

from bayplan.api.kinds import NAMESPACE, Kind
from bayplan.simulation import load_cluster

WIDGET = Kind.generic("example.com/v1", "Widget", "widgets", namespaced=True)
SERVICE_OF_OTHERS = Kind.generic("serving.example.com/v1", "Service", "services", namespaced=True)


def widget(
    name: str, api_version: str = "example.com/v1", kind: str = "Widget"
) -> dict[str, object]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"size": 3, "selector": "not a map"},
    }


def test_objects_of_a_declared_kind_are_read_as_they_are(tmp_path: Path) -> None:
    cluster = load_cluster([write(tmp_path, node("n"), widget("w"))], kinds=[WIDGET])
    [read] = cluster.objects[WIDGET]
    assert (read.key, read["spec"]["size"]) == ("default/w", 3)
    assert [space.name for space in cluster.objects[NAMESPACE]] == ["default"]
    assert cluster.notes.lines() == []


def test_a_kind_that_nobody_declares_is_noted(tmp_path: Path) -> None:
    cluster = load_cluster([write(tmp_path, node("n"), widget("w"))])
    [line] = cluster.notes.lines()
    assert "Widget" in line


def test_kinds_of_one_name_are_told_apart_by_their_group(tmp_path: Path) -> None:
    theirs = widget("s", "serving.example.com/v1", "Service")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    path = write(tmp_path, node("n"), theirs, service)
    cluster = load_cluster([path], kinds=[SERVICE_OF_OTHERS])
    assert [o["spec"]["size"] for o in cluster.objects[SERVICE_OF_OTHERS]] == [3]
    assert cluster.notes.lines() == []
