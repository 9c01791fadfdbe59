"""The order in which Pods yield, and who yields together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from tests.core_harness import Cluster
from tests.groups import basic, gang, gang_members, members, nodes, pod_group

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.eviction_units import EvictionUnits, make_units
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.running_pods import RunningPods
from bayplan.testing import Builder, Json, PodBuilder, make_object, make_pod


def pod(name: str, priority: int = 0, started: int = 1) -> PodBuilder:
    return make_pod(name).priority(priority).start_time(f"2026-01-{started:02}T00:00:00Z")


def units_of(
    pods: Iterable[PodBuilder],
    minimum: Mapping[str, int] | None = None,
    *groups: Builder[KubernetesPodGroup],
    classes: Mapping[str, int] | None = None,
    useless: Iterable[str] = (),
    allowed: int = 0,
) -> EvictionUnits:
    """The units of Pods on one node.

    Args:
        pods: they run.
        minimum: of each group of the label, which means nothing otherwise.
        groups: PodGroups of Kubernetes.
        classes: by name of the Pod; 0 unless given.
        useless: names of Pods on nodes that are of no use.
        allowed: how many Pods with the label ``shielded`` may be disrupted.
    """
    cluster = Cluster()
    budget = make_object(POD_DISRUPTION_BUDGET, "b")
    budget.spec(selector={"matchLabels": {"shielded": ""}}).status(disruptionsAllowed=allowed)
    cluster.add(*nodes(1), budget, *(one.node("n0") for one in pods))
    running = RunningPods(cluster.nodes)
    given = classes or {}
    cluster.add(*(pod_group(name, minMember=n) for name, n in (minimum or {}).items()))
    cluster.add(*groups)
    cache = cluster.cache
    gangs = Gangs(cluster.nodes, cache.objects, cache.groups, cache.kubernetes_groups)
    return make_units(
        running,
        np.array([given.get(one.name, 0) for one in running.pods], np.int64),
        np.array([one.name not in useless for one in running.pods], np.bool_),
        gangs,
        Budgets(cluster.cache.objects),
    )


def order(units: EvictionUnits) -> list[list[str]]:
    """The names of the Pods, unit by unit."""
    return [[one.name for one in units.pods[units.slice(unit)]] for unit in range(len(units))]


def shielded(one: PodBuilder) -> PodBuilder:
    return one.label("shielded")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("a", 9).terminating(), pod("b", 0)),
        (pod("a", 1, started=1), pod("b", 2, started=9)),
        (pod("a", 0, started=9), pod("b", 0, started=1)),
        (make_pod("a"), pod("b", 0, started=9)),
        (pod("a", 5), shielded(pod("b", 0))),
    ],
    ids=["leaving", "lower priority", "younger", "not started", "no budget against it"],
)
def test_who_yields_first(first: PodBuilder, second: PodBuilder) -> None:
    assert order(units_of([second, first])) == [["a"], ["b"]]


def test_a_lower_class_yields_first_and_a_negative_one_does_not() -> None:
    pods = [pod("a", 0), pod("b", 9), pod("c", 0)]
    assert order(units_of(pods, classes={"a": 1, "b": 0, "c": -1})) == [["b"], ["a"]]


def test_as_many_as_a_budget_allows_yield_like_others() -> None:
    pods = [shielded(pod(name, started=day)) for name, day in (("old", 1), ("young", 9))]
    units = units_of([*pods, pod("bare", 5)], allowed=1)
    assert order(units) == [["young"], ["bare"], ["old"]]


def test_who_runs_where_the_preemptor_cannot_go_yields_last() -> None:
    assert order(units_of([pod("a", 0), pod("b", 5)], useless=["a"])) == [["b"], ["a"]]


def test_of_one_priority_surplus_yields_first_and_a_whole_group_last() -> None:
    units = units_of([*members("g", 3), make_pod("alone")], {"g": 2})
    assert [len(names) for names in order(units)] == [1, 1, 2]
    assert order(units)[1] == ["alone"]


def test_surplus_of_high_priority_does_not_pay_for_a_pod_of_low_priority() -> None:
    units = units_of([*(one.priority(5) for one in members("g", 3)), pod("low", 1)], {"g": 2})
    assert order(units)[0] == ["low"]


def test_the_least_deserving_members_are_the_surplus() -> None:
    pods = [one.priority(i) for i, one in enumerate(members("g", 3))]
    assert [sorted(names) for names in order(units_of(pods, {"g": 2}))] == [["g-0"], ["g-1", "g-2"]]


def test_a_group_has_no_minimum_to_give_where_one_of_it_stays() -> None:
    units = units_of(members("g", 3), {"g": 2}, classes={"g-1": -1})
    assert len(units) == 1
    assert order(units)[0][0] in ("g-0", "g-2")


def test_members_that_leave_do_not_count() -> None:
    pods = members("g", 3)
    pods[0].terminating()
    assert [len(names) for names in order(units_of(pods, {"g": 2}))] == [1, 2]
    assert order(units_of(pods, {"g": 2}))[0] == ["g-0"]


def test_with_its_minimum_goes_all_that_a_group_has() -> None:
    units = units_of(members("g", 4), {"g": 2})
    (rest,) = units.rest
    assert units.closed({rest}) == {0, 1, 2}
    assert units.closed({0}) == {0}


def test_without_its_object_a_label_means_nothing() -> None:
    assert [len(names) for names in order(units_of(members("g", 3)))] == [1, 1, 1]


ALL: Json = {"disruptionMode": {"all": {}}}


@pytest.mark.parametrize(
    ("group", "sizes"),
    [
        pytest.param(gang("g", 2), [1, 2], id="gang"),
        pytest.param(gang("g", 2, **ALL), [3], id="mode all"),
        pytest.param(basic("g"), [1, 1, 1], id="basic"),
        pytest.param(basic("g", **ALL), [3], id="basic of mode all"),
    ],
)
def test_what_goes_together_of_a_group_of_kubernetes(
    group: Builder[KubernetesPodGroup], sizes: list[int]
) -> None:
    units = units_of(gang_members("g", 3), None, group)
    assert [len(names) for names in order(units)] == sizes


def test_groups_of_both_apis_may_have_one_name() -> None:
    pods = [*members("g", 2), *(one.label("other") for one in gang_members("x", 2))]
    for one in pods[2:]:
        one.spec(schedulingGroup={"podGroupName": "g"})
    units = units_of(pods, {"g": 1}, gang("g", 2))
    assert sorted(sorted(names) for names in order(units)) == [["g-0"], ["g-1"], ["x-0", "x-1"]]
