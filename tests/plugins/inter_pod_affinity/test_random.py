"""InterPodAffinity against the naive reference, on random clusters."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.clusters import (
    NAMESPACES,
    add_random_terms,
    answers,
    change_at_random,
    filtered,
    random_cluster,
    random_pod,
    scores,
)
from tests.plugins.harness import PluginWorld
from tests.plugins.inter_pod_affinity import reference

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.inter_pod_affinity import InterPodAffinity

seeds = st.integers(0, 2**32)


def world_of(cluster: PluginWorld) -> reference.World:
    return reference.World(
        [info.node for info in cluster.nodes],
        cluster.placed(),
        {name: cluster.counters.namespace_labels(name) for name in NAMESPACES},
    )


def incoming(random: Random, likely: float = 0.5) -> Pod:
    return add_random_terms(random, random_pod(random, "incoming"), likely).obj()


def expected_statuses(pod: Pod, world: reference.World) -> dict[str, tuple[str, str]]:
    return {n.name: reference.filter_node(pod, n, world) for n in world.nodes}


@given(seeds)
def test_filter_and_scores_are_the_references_while_the_cluster_changes(seed: int) -> None:
    random = Random(seed)
    cluster = random_cluster(random)
    hard, ignore = random.choice([0, 1, 5]), random.random() < 0.3
    plugin = cluster.make(
        InterPodAffinity, hardPodAffinityWeight=hard, ignorePreferredTermsOfExistingPods=ignore
    )
    pods = [incoming(random, random.choice([0.0, 0.5])) for _ in range(3)]
    for _ in range(4):
        world = world_of(cluster)
        for pod in pods:
            found = filtered(plugin, pod, cluster.nodes)
            if reference.skips_filter(pod, world):
                assert found is None
            else:
                assert found == expected_statuses(pod, world)
            raw = reference.raw_scores(pod, world.nodes, world, hard, ignore)
            wanted = None if raw is None else (raw, reference.normalize(raw))
            assert scores(plugin, pod, cluster.nodes) == wanted
        assert cluster.counters.recount() == {}
        change_at_random(random, cluster)


@given(seeds)
def test_every_row_of_a_what_if_table_is_a_world_of_its_own(seed: int) -> None:
    random = Random(seed)
    cluster = random_cluster(random, likely_terms=0.3)
    plugin = cluster.make(InterPodAffinity)
    pod = incoming(random)
    state = CycleState()
    if plugin.pre_filter(state, pod, cluster.nodes) is not None:
        return
    rows = np.flatnonzero(cluster.nodes.exists)
    table, changed = cluster.nodes.take(rows), state.what_if(rows)
    expected = {}
    for index, row in enumerate(rows.tolist()):
        name = cluster.nodes.names[row] or ""
        placed = cluster.placed()
        for victim in list(table.pods[index].values()):
            if random.random() < 0.5:
                table.remove_pods([index], [victim])
                plugin.remove_pod(changed, pod, victim, table, index)
                placed.remove((name, victim))
        if random.random() < 0.5:
            guest = add_random_terms(random, random_pod(random, "guest"), 0.4).obj()
            table.add_pods([index], [guest])
            plugin.add_pod(changed, pod, guest, table, index)
            placed.append((name, guest))
        world = world_of(cluster)
        world.placed = placed
        expected[name] = reference.filter_node(pod, world.on(name), world)
    assert answers(plugin, changed, pod, table) == expected
    part = np.flatnonzero(np.array([random.random() < 0.5 for _ in rows]))
    partial = answers(plugin, changed.what_if(part), pod, table.take(part))
    assert partial == {name: expected[name] for name in partial}
    # The cluster itself is as it was.
    assert filtered(plugin, pod, cluster.nodes) == expected_statuses(pod, world_of(cluster))
