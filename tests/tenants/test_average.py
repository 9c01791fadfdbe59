"""Equal tenants have equal parts over time, give or take a largest Pod.

A virtual clock is turned on; each tenant always has more Pods waiting than there is room for, Pods
run for some time and end, and whoever is evicted comes again.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.properties import length
from tests.queues import queue, queue_cluster

from bayplan.testing import PodBuilder, make_node, make_pod

GPU = "example.com/gpu"
ROUNDS = 40
STEP = 10.0
"""Seconds of a round."""
WARM = 10
"""Rounds that do not count: the first Pods all begin at once."""


class Tenants:
    """Equal tenants with Pods of their own sizes; ``used`` is by tenant, summed over rounds."""

    def __init__(self, nodes: list[int], sizes: list[list[int]], seed: int) -> None:
        self.cluster = queue_cluster()
        self.cluster.writer.on_bound = self.cluster._show_bound
        self.random, self.numbers = Random(seed), count()
        self.sizes = {f"t{i}": some for i, some in enumerate(sizes)}
        self.room = sum(nodes)
        self.used: Counter[str] = Counter()
        self._pods: dict[str, tuple[str, int, PodBuilder]] = {}
        self._ends: dict[str, int] = {}
        for number, gpus in enumerate(nodes):
            self.cluster.add(make_node(f"n{number}").capacity({GPU: gpus}, cpu=64, pods=110))
        self.cluster.add(*(queue(name, name) for name in self.sizes))

    def play(self) -> None:
        """All rounds."""
        for now in range(ROUNDS):
            for name in self.cluster.writer.deleted:
                self._forget(name)
            self.cluster.writer.deleted.clear()
            for name in [name for name, end in self._ends.items() if end <= now]:
                self.cluster.remove(self._forget(name)[2])
            for tenant in self.sizes:
                self._ask(tenant)
            self.cluster.run()
            self.cluster.wait(STEP)
            self.cluster.run()
            for name, (tenant, size, builder) in self._pods.items():
                if self.cluster.node_of(builder):
                    self._ends.setdefault(name, now + self.random.randint(2, 12))
                    self.used[tenant] += size if now >= WARM else 0

    def _ask(self, tenant: str) -> None:
        asked = sum(size for of, size, _ in self._pods.values() if of == tenant)
        while asked < self.room:
            size = self.random.choice(self.sizes[tenant])
            name = f"{tenant}-{next(self.numbers)}"
            builder = make_pod(name).namespace(tenant).req({GPU: str(size)})
            self._pods[name] = tenant, size, builder
            self.cluster.add(builder)
            asked += size

    def _forget(self, name: str) -> tuple[str, int, PodBuilder]:
        self._ends.pop(name, None)
        return self._pods.pop(name)


@length(4)
@given(
    st.lists(st.just(8), min_size=2, max_size=3),
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=2), min_size=2, max_size=3),
    st.integers(0, 2**16),
)
def test_what_equal_tenants_have_over_time_differs_by_less_than_a_pod(
    nodes: list[int], sizes: list[list[int]], seed: int
) -> None:
    tenants = Tenants(nodes, sizes, seed)
    tenants.play()
    entitled = tenants.room / len(sizes)
    largest = max(map(max, sizes))
    for tenant in tenants.sizes:
        average = tenants.used[tenant] / (ROUNDS - WARM)
        assert abs(average - entitled) <= largest, f"{tenant} has {average} of {entitled}"
