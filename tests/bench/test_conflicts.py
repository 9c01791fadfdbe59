"""The kubelets of the benchmark of conflicts admit what fits, in the order in which it comes."""

from __future__ import annotations

import json

from bench.conflicts import SLOTS, Counts, Kubelets


def event(kind: str, name: str, node: str = "n1") -> bytes:
    """A line of a watch."""
    spec = {"nodeName": node, "schedulerName": "bayplan"}
    return json.dumps({"type": kind, "object": {"metadata": {"name": name}, "spec": spec}}).encode()


def full() -> Kubelets:
    """One node without a free place."""
    return Kubelets({f"p{i}": "n1" for i in range(SLOTS)})


def test_a_pod_that_comes_to_a_full_node_is_rejected() -> None:
    kubelets = full()
    kubelets.note(event("ADDED", "late"))
    assert [pod.metadata.name for pod in kubelets.rejected] == ["late"]
    assert "late" not in kubelets.running


def test_the_place_of_a_pod_that_is_gone_goes_to_the_next() -> None:
    kubelets = full()
    kubelets.note(event("DELETED", "p0"))
    for name in ("first", "second"):
        kubelets.note(event("ADDED", name))
    assert kubelets.running["first"] == "n1"
    assert [pod.metadata.name for pod in kubelets.rejected] == ["second"]


def test_a_rejected_pod_takes_no_place_and_gives_none_back() -> None:
    kubelets = full()
    for name in ("one", "two"):
        kubelets.note(event("ADDED", name))
        kubelets.note(event("MODIFIED", name))
        kubelets.note(event("DELETED", name))
    assert [pod.metadata.name for pod in kubelets.rejected] == ["one", "two"]
    assert len(kubelets.running) == SLOTS


def test_conflicts_are_counted_for_1000_created_pods() -> None:
    assert Counts({"a": 1500, "b": 500}, {"a": 3, "b": 1}).per_thousand() == 2
