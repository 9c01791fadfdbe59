"""What is remembered of tries on placements changes nothing but how often groups are tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import conditions, gang, racks_of, workload_cluster
from tests.properties import length
from tests.test_kubernetes_topology import GATES, RACK, cluster_of

from bayplan.engine.placement_memory import PlacementMemory
from bayplan.groups.placement_search import PlacementSearch
from bayplan.testing import NodeBuilder, PodBuilder, labels_are, make_node, make_pod

A, B = labels_are({"app": "a"}), labels_are({"app": "b"})
KINDS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "plain": lambda pod: pod,
    "large": lambda pod: pod.req(cpu="2"),
    "avoided": lambda pod: pod.label("app", "a"),
    "apart": lambda pod: pod.pod_anti_affinity("zone", B),
    "near": lambda pod: pod.pod_affinity("zone", B),
    "rather-near": lambda pod: pod.preferred_pod_affinity(9, "kubernetes.io/hostname", B),
    "spread": lambda pod: pod.label("app", "b").spread("zone", B, 2),
    "selective": lambda pod: pod.node_selector({"disk": "ssd"}),
    "port": lambda pod: pod.host_port(80),
}
"""What the Pods of a group have in common."""


@pytest.fixture
def tries() -> Iterator[list[str]]:
    """The names of the placements that groups are tried on."""
    names: list[str] = []
    on = PlacementSearch._on

    def noted(self: Any, node: Any, state: Any, placement: Any) -> Any:
        names.append(placement.name)
        return on(self, node, state, placement)

    with patch.object(PlacementSearch, "_on", noted):
        yield names


def test_tries_keep_no_rows() -> None:
    """Fifty racks, a thousand Pods and 5,000 nodes are 250 MB of them."""
    kept: list[int] = []
    on = PlacementSearch._on

    def noted(self: Any, node: Any, state: Any, placement: Any) -> Any:
        done = on(self, node, state, placement)
        kept.extend(len(p.placement.fit.feasible) + p.placement.best.count for p in done.placed)
        return done

    cluster = cluster_of(*(a_node(rack, number) for rack in range(2) for number in range(2)))
    with patch.object(PlacementSearch, "_on", noted):
        group_of(cluster, "g", "plain", 3, 3)
        cluster.run()
    assert len(racks_of(cluster, "g")) == 1
    assert kept == [0] * 6


def a_node(rack: int, number: int, *, ssd: bool = False) -> NodeBuilder:
    name = f"r{rack}n{number}"
    node = make_node(name).capacity(cpu="4", memory="8Gi", pods=10)
    node = (
        node.label("kubernetes.io/hostname", name)
        .label("rack", f"r{rack}")
        .label("zone", f"z{rack % 2}")
    )
    return node.label("disk", "ssd") if ssd else node


def group_of(cluster: Cluster, name: str, kind: str, size: int, minimum: int) -> list[PodBuilder]:
    """Show a group that wants one rack, and its Pods."""
    cluster.add(gang(name, minimum, schedulingConstraints=RACK))
    pods = [
        KINDS[kind](make_pod(f"{name}-{i}").pod_group(name).req(cpu="500m")) for i in range(size)
    ]
    cluster.add(*pods)
    return pods


class Scenario:
    """Groups of two kinds come to racks in which all sorts of things change."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kinds = self.rng.sample(sorted(KINDS), 2)
        self.cluster = workload_cluster(gates=GATES)
        self.nodes = [a_node(r, n, ssd=self.rng.random() < 0.5) for r in range(4) for n in range(2)]
        self.cluster.add(*self.nodes)
        self.others: list[list[PodBuilder]] = []
        self.groups: list[list[PodBuilder]] = []

    def group(self, name: str) -> None:
        self.groups.append(group_of(self.cluster, name, self.rng.choice(self.kinds), 3, 2))

    def end_of_a_group(self, _: str) -> None:
        if self.groups:
            self.cluster.remove(*self.groups.pop(self.rng.randrange(len(self.groups))))

    def other(self, name: str) -> None:
        pod = make_pod(name).label("app", "b").req(cpu="1").node(self.rng.choice(self.nodes).key)
        self.others.append([pod])
        self.cluster.add(pod)

    def avoiding(self, name: str) -> None:
        pod = make_pod(name).pod_anti_affinity("zone", A).node(self.rng.choice(self.nodes).key)
        self.others.append([pod])
        self.cluster.add(pod)

    def end_of_another(self, _: str) -> None:
        if self.others:
            self.cluster.remove(*self.others.pop(self.rng.randrange(len(self.others))))

    def label(self, _: str) -> None:
        rack = self.rng.randrange(5)
        self.cluster.add(self.rng.choice(self.nodes).new_version().label("rack", f"r{rack}"))

    def taint(self, _: str) -> None:
        self.cluster.add(self.rng.choice(self.nodes).new_version().taint("k", "v"))

    def node(self, name: str) -> None:
        self.nodes.append(a_node(self.rng.randrange(5), int(name)))
        self.cluster.add(self.nodes[-1])

    def run(self) -> list[object]:
        """What came of it, step by step."""
        often = [self.group] * 4 + [self.other, self.avoiding, self.end_of_a_group]
        rarely = [self.label, self.taint, self.node]
        seen: list[object] = []
        for step in range(24):
            some = [*often, self.end_of_another, self.end_of_another]
            self.rng.choice(some + rarely if step % 4 == 0 else some)(str(step + 10))
            self.cluster.run()
            seen.append((sorted(self.cluster.bound), conditions(self.cluster)))
        return seen


@length(60)
@given(seed=st.integers(0, 2**32))
def test_groups_get_the_nodes_that_they_get_without_it(seed: int) -> None:
    with patch.object(random, "choice", lambda found: found[0]):
        with patch.object(PlacementMemory, "recall", lambda *_: {}):
            expected = Scenario(seed).run()
        # Nothing is remembered that turns out to be wrong.
        with patch.object(PlacementMemory, "forget", None):
            assert Scenario(seed).run() == expected


def test_only_racks_that_have_changed_are_tried_again(tries: list[str]) -> None:
    cluster = cluster_of(*(a_node(rack, n) for rack in range(4) for n in range(3)))
    group_of(cluster, "g0", "plain", 2, 2)
    cluster.run()
    assert sorted(tries) == ["r0", "r1", "r2", "r3"]
    (taken,) = racks_of(cluster, "g0")
    tries.clear()
    group_of(cluster, "g1", "plain", 2, 2)
    cluster.run()
    # The fullest is the best, so it is tried once and taken.
    assert tries == [taken]
    assert racks_of(cluster, "g1") == {taken}

    tries.clear()
    cluster.add(make_pod("other").req(cpu="1").node("r3n0" if taken != "r3" else "r2n0"))
    group_of(cluster, "g2", "plain", 2, 2)
    cluster.run()
    assert sorted(tries) == sorted({taken, "r3" if taken != "r3" else "r2"})


@pytest.mark.parametrize("kind", ["apart", "rather-near", "spread"])
def test_pods_that_depend_on_others_are_tried_everywhere(tries: list[str], kind: str) -> None:
    there = make_pod("there").label("app", "b").req(cpu="1").node("r0n0")
    cluster = cluster_of(*(a_node(rack, n) for rack in range(4) for n in range(3)))
    cluster.add(there)
    for name in ("g0", "g1"):
        tries.clear()
        group_of(cluster, name, kind, 2, 2)
        cluster.run()
        assert sorted(tries) == ["r0", "r1", "r2", "r3"]


def test_a_group_of_other_pods_is_tried_everywhere(tries: list[str]) -> None:
    cluster = cluster_of(*(a_node(rack, n) for rack in range(4) for n in range(3)))
    for name, kind, size in (("g0", "plain", 2), ("g1", "large", 2), ("g2", "plain", 3)):
        tries.clear()
        group_of(cluster, name, kind, size, 2)
        cluster.run()
        assert sorted(tries) == ["r0", "r1", "r2", "r3"]


def test_of_racks_that_are_too_small_only_the_first_is_tried_for_the_reason(
    tries: list[str],
) -> None:
    """The capacity of their nodes says so of the others."""
    cluster = cluster_of(*(a_node(rack, 0) for rack in range(3)))
    group_of(cluster, "g0", "large", 3, 3)
    cluster.run()
    assert tries == ["r0"]
    tries.clear()
    group_of(cluster, "g1", "large", 3, 3)
    cluster.run()
    assert tries == ["r0"]
    assert cluster.bound == []
    assert conditions(cluster)[-1] == ("g1", *conditions(cluster)[-2][1:])
