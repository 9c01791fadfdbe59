"""Which victims a PodDisruptionBudget protects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.workloads import PodDisruptionBudget
from bayplan.cache.objects import ObjectStore
from bayplan.preemption.budgets import Budgets
from bayplan.testing import PodBuilder, labels_are, make_pod, requirement


def budget(selector: Any, allowed: int = 0, **more: Any) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": more.get("name", "b"), "namespace": more.get("ns", "default")},
            "spec": {"selector": selector},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": more.get("disrupted", {}),
            },
        },
        PodDisruptionBudget,
    )


def web(name: str) -> PodBuilder:
    return make_pod(name).uid(name).label("app", "web")


WEB = labels_are({"app": "web"})


@pytest.mark.parametrize(
    ("budgets", "pods", "protected"),
    [
        pytest.param([budget(WEB)], [web("a")], {"a"}, id="no disruption allowed"),
        pytest.param([budget(WEB, 1)], [web("a"), web("b")], {"b"}, id="one is allowed"),
        pytest.param([budget(WEB)], [make_pod("a").uid("a")], set(), id="no labels, no budget"),
        pytest.param(
            [budget(labels_are({"app": "db"}))], [web("a")], set(), id="other labels, no budget"
        ),
        pytest.param([budget(WEB, ns="other")], [web("a")], set(), id="another namespace"),
        pytest.param([budget(None)], [web("a")], set(), id="no selector selects nothing"),
        pytest.param([budget({})], [web("a")], set(), id="an empty selector selects nothing"),
        pytest.param(
            [budget(labels_are(None, requirement("app", "Like", "w")))],
            [web("a")],
            set(),
            id="a selector that makes no sense selects nothing",
        ),
        pytest.param(
            [budget(WEB, 0, disrupted={"a": "2026-01-01T00:00:00Z"})],
            [web("a"), web("b")],
            {"b"},
            id="a Pod counted as disrupted already is free",
        ),
        pytest.param(
            [budget(WEB, 5, name="wide"), budget(WEB, 1, name="tight")],
            [web("a"), web("b")],
            {"b"},
            id="the tighter of two budgets counts",
        ),
        pytest.param(
            [budget(WEB, 1, name="b"), budget(WEB, name="a")],
            [web("a"), web("b"), web("c")],
            {"a", "b", "c"},
            id="one budget, the first by name, is violated at a time",
        ),
        pytest.param(
            [budget(WEB, name="a"), budget(labels_are({"tier": "x"}), 1, name="b")],
            [web("a").label("tier", "x"), make_pod("b").uid("b").label("tier", "x")],
            {"a"},
            id="a violation costs the other budgets nothing",
        ),
    ],
)
def test_a_budget_protects_the_pods_beyond_its_allowance(
    budgets: list[PodDisruptionBudget], pods: list[PodBuilder], protected: set[str]
) -> None:
    objects = ObjectStore()
    for one in budgets:
        objects.set(POD_DISRUPTION_BUDGET, one)
    assert Budgets(objects).violations(p.obj() for p in pods) == protected


def test_changes_of_budgets_are_followed() -> None:
    objects = ObjectStore()
    budgets = Budgets(objects)
    pod = web("a").obj()
    versions = [budgets.version]
    objects.set(POD_DISRUPTION_BUDGET, budget(WEB, 0))
    assert budgets.violations([pod]) == {"a"}
    versions.append(budgets.version)
    objects.set(POD_DISRUPTION_BUDGET, budget(WEB, 1))
    assert budgets.violations([pod]) == set()
    versions.append(budgets.version)
    objects.set(POD_DISRUPTION_BUDGET, budget(WEB, 0))
    objects.remove(POD_DISRUPTION_BUDGET, "default/b")
    assert budgets.violations([pod]) == set()
    versions.append(budgets.version)
    assert len(set(versions)) == 4
