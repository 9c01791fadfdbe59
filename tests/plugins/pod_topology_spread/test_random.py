"""PodTopologySpread against the naive reference, on random clusters."""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.clusters import (
    HOSTNAME,
    NAMESPACES,
    ZONE,
    answers,
    change_at_random,
    filtered,
    random_cluster,
    random_pod,
    random_selector,
    scores,
)
from tests.plugins.harness import PluginWorld
from tests.plugins.inter_pod_affinity.reference import World
from tests.plugins.pod_topology_spread import reference

from bayplan.api.kinds import SERVICE
from bayplan.api.pod import Pod
from bayplan.api.pod_spec import TopologySpreadConstraint
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.pod_topology_spread import PodTopologySpread
from bayplan.testing import Json, labels_are, make_object

seeds = st.integers(0, 2**32)


def world_of(cluster: PluginWorld) -> World:
    return World([info.node for info in cluster.nodes], cluster.placed(), {})


def random_constraint(random: Random, counting: bool = False) -> Json:
    selector = labels_are({"app": random.choice("ab")}) if counting else random_selector(random)
    constraint: Json = {
        "topologyKey": random.choice([HOSTNAME, ZONE, ZONE, "rack"]),
        "maxSkew": random.choice([1, 1, 2, 5]),
        "whenUnsatisfiable": random.choice(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selector,
        "matchLabelKeys": random.choice([[], [], ["tier"], ["tier", "nope"]]),
        "nodeAffinityPolicy": random.choice([None, "Honor", "Ignore"]),
        "nodeTaintsPolicy": random.choice([None, "Honor", "Ignore"]),
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule":
        constraint["minDomains"] = random.choice([None, 1, 2, 4])
    return constraint


def incoming(random: Random, counting: bool = False) -> Pod:
    found = [random_constraint(random, counting) for _ in range(random.choice([1, 1, 2, 3]))]
    return random_pod(random, "incoming").spec(topologySpreadConstraints=found).obj()


def expected_statuses(pod: Pod, world: World) -> dict[str, tuple[str, str]] | None:
    rules = reference.rules_of(pod, "DoNotSchedule")
    if not rules:
        return None
    return {n.name: reference.filter_node(pod, n, rules, world) for n in world.nodes}


@given(seeds)
def test_filter_and_scores_are_the_references_while_the_cluster_changes(seed: int) -> None:
    random = Random(seed)
    cluster = random_cluster(random, likely_terms=0.0)
    plugin = cluster.make(PodTopologySpread)
    pods = [incoming(random) for _ in range(3)]
    for _ in range(4):
        world = world_of(cluster)
        feasible = cluster.nodes.exists & (np.random.default_rng(seed).random(64) < 0.8)
        nodes = [info.node for info in cluster.nodes if feasible[info.row]]
        for pod in pods:
            assert filtered(plugin, pod, cluster.nodes) == expected_statuses(pod, world)
            rules = reference.rules_of(pod, "ScheduleAnyway")
            wanted = reference.scores(nodes, rules, world, strict=True) if rules else None
            assert scores(plugin, pod, cluster.nodes, feasible) == wanted
        assert cluster.counters.recount() == {}
        change_at_random(random, cluster)


@given(seeds, st.booleans())
def test_default_constraints_follow_services(seed: int, system: bool) -> None:
    random = Random(seed)
    cluster = random_cluster(random, likely_terms=0.0)
    listed = [random_constraint(random) | {"labelSelector": None, "matchLabelKeys": []}]
    args = {} if system else {"defaultingType": "List", "defaultConstraints": listed}
    plugin = cluster.make(PodTopologySpread, **args)
    pod = random_pod(random, "incoming").obj()
    defaults = plugin._defaults
    for _ in range(3):
        service = {"app": random.choice("ab")}
        namespace = random.choice(NAMESPACES)
        cluster.add(make_object(SERVICE, "s").namespace(namespace).spec(selector=service))
        services = {s.namespace: s.spec.selector for s in cluster.objects.all(SERVICE)}
        selected = services.get(pod.namespace)
        if selected is not None and not selected.items() <= pod.labels.items():
            selected = None
        rules = [reference.Rule(c, pod, selected) for c in defaults] if selected else []
        hard = [r for r in rules if r.constraint.when_unsatisfiable == "DoNotSchedule"]
        soft = [r for r in rules if r not in hard]
        world = world_of(cluster)
        statuses = {n.name: reference.filter_node(pod, n, hard, world) for n in world.nodes}
        assert filtered(plugin, pod, cluster.nodes) == (statuses if hard else None)
        wanted = reference.scores(world.nodes, soft, world, strict=not system) if soft else None
        assert scores(plugin, pod, cluster.nodes) == wanted
        change_at_random(random, cluster)


@given(seeds)
def test_every_row_of_a_what_if_table_is_a_world_of_its_own(seed: int) -> None:
    random = Random(seed)
    cluster = random_cluster(random, likely_terms=0.0)
    plugin = cluster.make(PodTopologySpread)
    pod = incoming(random, counting=True)
    state = CycleState()
    if plugin.pre_filter(state, pod, cluster.nodes) is not None:
        return
    rules = reference.rules_of(pod, "DoNotSchedule")
    rows = np.flatnonzero(cluster.nodes.exists)
    table, changed = cluster.nodes.take(rows), state.what_if(rows)
    expected = {}
    for index, row in enumerate(rows.tolist()):
        name = cluster.nodes.names[row] or ""
        placed = cluster.placed()
        for victim in [p for p in table.pods[index].values() if p.deleted is None]:
            if random.random() < 0.5:
                table.remove_pods([index], [victim])
                plugin.remove_pod(changed, pod, victim, table, index)
                placed.remove((name, victim))
        for i in range(random.choice([0, 0, 1, 3])):
            guest = random_pod(random, f"guest{i}").obj()
            if guest.deleted is None:
                table.add_pods([index], [guest])
                plugin.add_pod(changed, pod, guest, table, index)
                placed.append((name, guest))
        world = world_of(cluster)
        world.placed = placed
        expected[name] = reference.filter_node(pod, world.on(name), rules, world)
    assert answers(plugin, changed, pod, table) == expected
    part = np.flatnonzero(np.array([random.random() < 0.5 for _ in rows]))
    partial = answers(plugin, changed.what_if(part), pod, table.take(part))
    assert partial == {name: expected[name] for name in partial}
    assert filtered(plugin, pod, cluster.nodes) == expected_statuses(pod, world_of(cluster))


def test_system_constraints_are_those_of_kube_scheduler() -> None:
    plugin = PluginWorld().make(PodTopologySpread)
    wanted = [
        {"topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 3},
        {"topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 5},
    ]
    assert list(plugin._defaults) == msgspec.convert(wanted, list[TopologySpreadConstraint])
