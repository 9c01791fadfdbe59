from __future__ import annotations

from typing import Any

from e2e.conformance.generator import Case
from e2e.conformance.shrink import Shrinker


def item(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def names(case: Case) -> set[str]:
    return {one["metadata"]["name"] for one in case.items}


def test_only_what_the_failure_needs_is_left() -> None:
    nodes = [item("Node", f"n{i}", unschedulable=True, podCIDR="x") for i in range(20)]
    pods = [item("Pod", f"p{i}", priority=i, hostNetwork=True) for i in range(10)]
    config = {"profiles": [{"schedulerName": "x"}]}

    def fails(case: Case) -> bool:
        pod = next((one for one in case.items if one["metadata"]["name"] == "p3"), None)
        return pod is not None and "priority" in pod["spec"] and "n7" in names(case)

    small = Shrinker(fails).shrink(Case("case", nodes + pods, config), "default/p3")
    assert names(small) == {"n7", "p3"}
    assert small.config is None
    pod = next(one for one in small.items if one["kind"] == "Pod")
    assert pod == item("Pod", "p3", priority=3)


def test_two_objects_that_only_fail_together_both_stay() -> None:
    items = [item("Node", f"n{i}") for i in range(16)]

    def fails(case: Case) -> bool:
        return {"n2", "n13"} <= names(case)

    assert names(Shrinker(fails).shrink(Case("case", items, None), "default/p")) == {"n2", "n13"}


def test_without_time_the_case_stays_as_it_is() -> None:
    case = Case("case", [item("Node", "n1"), item("Node", "n2")], None)
    assert Shrinker(lambda _: True, seconds=0).shrink(case, "default/p").items == case.items
