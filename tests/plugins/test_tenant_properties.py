"""Properties of tenants: evictions help whom they are for, restarts and absence change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, profile
from tests.properties import length
from tests.queues import pod, queue, queues_profile

from bayplan.api.kinds import POD_GROUP
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.inbox.messages import Changed
from bayplan.plugins.fair_share import reclaim
from bayplan.plugins.fair_share.reclaim import ReclaimRule
from bayplan.testing import Json, PodBuilder, make_node, make_object

IN_VAIN = "bayplan_preemptions_in_vain_total"
REPEATED = "bayplan_preemptions_repeated_total"
TENANTS = {"a": "x", "b": "y", "c": "z"}
"""Queues and their namespaces."""
NODES = ("n0", "n1", "n2")

SEVERAL = length(15)
SPECS = st.fixed_dictionaries(
    {
        "weight": st.integers(0, 3),
        "guaranteed": st.builds(lambda cpu: {"cpu": cpu}, st.integers(0, 4)),
        "reclaimable": st.booleans(),
    }
)
LIMITS = st.dictionaries(st.just("cpu"), st.integers(2, 9), max_size=1)
TREES = st.builds(
    lambda specs, limits, children, above: {
        "all": {"limit": above},
        **{
            name: {**specs[name], "limit": limits[name], "parent": "all" * (name in children)}
            for name in TENANTS
        },
    },
    st.fixed_dictionaries(dict.fromkeys(TENANTS, SPECS)),
    st.fixed_dictionaries(dict.fromkeys(TENANTS, LIMITS)),
    st.sets(st.sampled_from("abc")),
    LIMITS,
)
"""Queues with limits, of which some are parts of another one."""
ASKED = st.tuples(st.sampled_from("xyz"), st.integers(1, 3), st.integers(0, 1))
"""Namespace, CPUs and priority of a Pod."""


def world(tenancy: Json, specs: dict[str, Json]) -> Cluster:
    """Three nodes of four CPUs, and Queues. What is bound is confirmed, victims go at once."""
    cluster = Cluster(profiles=[tenancy])
    cluster.writer.on_bound = cluster._show_bound
    for i in range(3):
        cluster.add(make_node(f"n{i}").capacity(cpu="4", memory="64Gi", pods=110))
    cluster.add(*(queue(name, TENANTS.get(name, ""), **spec) for name, spec in specs.items()))
    return cluster


def waiting(name: str, namespace: str, cpu: int, priority: int) -> PodBuilder:
    """A Pod that is the same in every cluster."""
    return pod(name, namespace, str(cpu), priority).uid(name)


def running(asked: list[Any]) -> list[PodBuilder]:
    """These Pods, one node after the other as long as there is room; each started at its time."""
    free, pods = [4, 4, 4], []
    for number, (namespace, cpu, priority) in enumerate(asked):
        row = next((row for row, cpus in enumerate(free) if cpus >= cpu), None)
        if row is not None:
            free[row] -= cpu
            one = waiting(f"run-{number}", namespace, cpu, priority).node(f"n{row}")
            pods.append(one.start_time(f"2026-01-01T00:00:{number:02}Z"))
    return pods


def known(cluster: Cluster) -> dict[str, str]:
    """Node by name of every Pod that has one."""
    return {one.name: one.node_name for one in cluster.cache.pods()}


@length(60)
@given(
    TREES,
    st.lists(
        st.tuples(st.sampled_from("xxyz"), st.integers(1, 3), st.integers(0, 1)),
        min_size=2,
        max_size=12,
    ),
    st.tuples(st.just("x"), st.integers(1, 4), st.sampled_from([0, 1, 2, 2])),
)
def test_whoever_is_evicted_makes_room_that_the_preemptor_gets(
    tree: dict[str, Json], asked: list[Any], last: Any
) -> None:
    """On its node, or under a limit; without any one of them the preemptor would have to wait."""
    cluster = world(queues_profile(), tree)
    cluster.add(*running(asked))
    where = known(cluster)
    namespace, cpu, priority = last
    cluster.add(waiting("taker", namespace, cpu, priority))
    cluster.cycle()
    limited = "limit of" in cluster.verdict[1] if cluster.recorder.conditions else False
    cluster.settle(4)
    victims = cluster.writer.deleted
    if victims and not limited:
        assert {where[name] for name in victims} == {known(cluster)["taker"]}
    for spared in victims:
        assert not has_room(tree, asked, {*victims} - {spared}, last)
    assert not victims or has_room(tree, asked, {*victims}, last)
    assert cluster.metric(IN_VAIN) == cluster.metric(REPEATED) == 0


def has_room(tree: dict[str, Json], asked: list[Any], gone: set[str], last: Any) -> bool:
    """Whether the preemptor gets a node beside these Pods, but for those who are gone."""
    cluster = world(queues_profile(), tree)
    cluster.add(*(one for one in running(asked) if one.json["metadata"]["name"] not in gone))
    cluster.add(waiting("taker", *last).spec(preemptionPolicy="Never"))
    cluster.run()
    return "taker" in known(cluster)


@SEVERAL
@given(st.fixed_dictionaries(dict.fromkeys(TENANTS, SPECS)), st.lists(ASKED, max_size=12), ASKED)
def test_the_quick_look_for_victims_changes_no_answer(
    specs: dict[str, Json], asked: list[Any], last: Any
) -> None:
    quick, thorough = world(queues_profile(), specs), world(queues_profile(), specs)
    namespace, cpu, priority = last
    for cluster in (quick, thorough):
        with pytest.MonkeyPatch.context() as patch:
            if cluster is thorough:
                patch.setattr(ReclaimRule, "has_victims", lambda *_: True)
            cluster.add(*running(asked))
            cluster.add(waiting("taker", namespace, cpu, priority))
            cluster.settle(4)
    assert quick.writer.deleted == thorough.writer.deleted
    assert quick.notes == thorough.notes
    assert quick.recorder.conditions == thorough.recorder.conditions


@length(60)
@given(
    st.fixed_dictionaries(dict.fromkeys(TENANTS, SPECS)),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 8)),
    st.booleans(),
    st.lists(st.tuples(ASKED, st.integers(0, 2), st.integers(0, 9)), min_size=4, max_size=14),
    ASKED,
    st.integers(1, 3),
)
def test_the_bound_rules_out_nothing_that_a_search_finds(
    specs: dict[str, Json],
    limits: dict[str, int],
    nested: bool,
    asked: list[Any],
    last: Any,
    size: int,
) -> None:
    """Pods anywhere, some of them leaving; the preemptor is a Pod or a group."""
    namespace, cpu, priority = last
    for name, limit in limits.items():
        specs[name]["limit"] = {"cpu": limit}
    if nested:
        for name in "bc":
            specs[name]["parent"] = "all"
    pods, free = [], [4, 4, 4]
    for number, ((tenant, cpus, of_pod), row, fate) in enumerate(asked):
        if free[row] >= cpus:
            free[row] -= cpus
            one = waiting(f"run-{number}", tenant, cpus, of_pod).node(f"n{row}")
            one = one.start_time(f"2026-01-01T00:00:{number:02}Z")
            pods.append(one.terminating() if fate == 0 else one)
    outcomes = []
    for bounded in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not bounded:
                patch.setattr(reclaim, "rules_out", lambda *_: None)
            cluster = world(queues_profile("Coscheduling"), specs)
            if nested:
                cluster.add(queue("all"))
            cluster.add(*pods)
            taking = [waiting(f"taker-{i}", namespace, cpu, priority) for i in range(size)]
            if size > 1:
                group = make_object(POD_GROUP, "gang").namespace(namespace).spec(minMember=size)
                cluster.tell(Changed(POD_GROUP, group.new_version().obj()))
                taking = [one.label(POD_GROUP_LABEL, "gang") for one in taking]
            cluster.add(*taking)
            cluster.cycle()
            nominator = cluster.world.nominator
            nominated = {n: [one.name for one in nominator.nominated_pods(n)] for n in NODES}
            outcomes.append((cluster.writer.deleted, cluster.writer.bound, nominated))
    assert outcomes[0] == outcomes[1]


@SEVERAL
@given(
    st.fixed_dictionaries(dict.fromkeys(TENANTS, SPECS)),
    st.lists(ASKED, max_size=10),
    ASKED,
)
def test_a_restart_changes_no_decision(specs: dict[str, Json], asked: list[Any], last: Any) -> None:
    """One scheduler has seen Pods come, fail and go; the other begins with what is there.

    Of several Pods that wait, another one may be tried first: attempts are not remembered.
    """
    namespace, cpu, priority = last
    first = world(queues_profile(), specs)
    first.add(*running(asked))
    gone = waiting("gone", "x", 2, 0)
    first.add(gone)
    first.settle(4)
    first.remove(gone)
    second = world(queues_profile(), specs)
    for name, node in sorted(known(first).items()):
        second.add(_copy(first, name).node(node))
    for cluster in (first, second):
        cluster.writer.deleted.clear()
        cluster.writer.bound.clear()
        cluster.add(waiting("late", namespace, cpu, priority))
        cluster.settle(4)
    assert first.writer.bound == second.writer.bound
    assert first.writer.deleted == second.writer.deleted
    assert known(first) == known(second)


def _copy(cluster: Cluster, name: str) -> PodBuilder:
    (one,) = (one for one in cluster.cache.pods() if one.name == name)
    cpu = one.spec.containers[0].resources.requests["cpu"]
    copy = waiting(name, one.namespace, int(cpu), one.priority)
    started = one.status.start_time
    return copy if started is None else copy.start_time(started.strftime("%Y-%m-%dT%H:%M:%SZ"))


@SEVERAL
@given(st.lists(ASKED, max_size=12), st.lists(ASKED, min_size=1, max_size=6))
def test_without_queues_and_quotas_all_is_as_without_the_plugins(
    asked: list[Any], late: list[Any]
) -> None:
    plain, fair, elastic = (
        world(tenancy, {}) for tenancy in (profile(), queues_profile(), capacity_profile())
    )
    for cluster in (plain, fair, elastic):
        cluster.add(*running(asked))
        for number, (namespace, cpu, priority) in enumerate(late):
            cluster.add(waiting(f"late-{number}", namespace, cpu, priority))
        cluster.settle(4)
    for other in (fair, elastic):
        assert other.writer.bound == plain.writer.bound
        assert other.writer.deleted == plain.writer.deleted
        assert other.notes == plain.notes
        assert other.recorder.conditions == plain.recorder.conditions


def capacity_profile() -> Json:
    """A profile with CapacityScheduling in place of DefaultPreemption."""
    enabled, disabled = [{"name": "CapacityScheduling"}], [{"name": "DefaultPreemption"}]
    plugins = {"multiPoint": {"enabled": enabled, "disabled": disabled}}
    return {"schedulerName": "bayplan", "plugins": plugins}
