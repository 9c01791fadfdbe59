"""Victims of groups against an exhaustive search, in worlds so small that it is no effort.

Pods ask for CPU alone, and those of the preemptor are alike, so whether it fits without some others
is a count. What yields together, and who may yield, is said here anew, from docs/groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.groups import SOURCES, Source, cluster_of_all, every_source, nodes
from tests.properties import length

from bayplan.testing import PodBuilder, make_pod

CPUS = 3
PRIORITY = 2
"""Of the preemptor; that of others is below it, equal or above."""


class SmallWorld:
    """Up to three nodes, two single Pods and a group of five on them, and a preemptor.

    Attributes:
        cluster: a scheduler that has tried the preemptor once.
        may_go: the names of Pods of lower priority than the preemptor.
        members: of the group ``g``.
        needed: so many of them run, or none.
    """

    def __init__(self, data: st.DataObject, preemptor: Source, source: Source) -> None:
        draw = data.draw
        self.cluster = cluster_of_all()
        self.free = dict.fromkeys((f"n{i}" for i in range(draw(st.integers(1, 3)))), CPUS)
        self.running: dict[str, tuple[str, int]] = {}
        self.may_go: list[str] = []
        self.members: frozenset[str] = frozenset()
        self.needed = 0
        self.cluster.add(*nodes(len(self.free), cpu=str(CPUS)))
        for number in range(draw(st.integers(0, 2))):
            cpu, priority = draw(st.integers(1, CPUS)), draw(st.integers(0, PRIORITY + 1))
            pod = make_pod(f"s-{number}").req(cpu=str(cpu)).priority(priority)
            if (
                self._put(pod, cpu, draw(st.sampled_from(sorted(self.free))))
                and priority < PRIORITY
            ):
                self.may_go.append(f"s-{number}")
        self._put_group(data, source)
        cpu, self.minimum = draw(st.integers(1, CPUS)), draw(st.integers(1, 3))
        self.cpu = cpu
        self.cluster.add(preemptor.group(self.minimum, priority=PRIORITY, name="h"))
        pods = self.pods = preemptor.members(self.minimum, str(cpu), name="h")
        self.cluster.add(*(pod.priority(PRIORITY) for pod in pods))
        self.cluster.cycle()

    def _put(self, pod: PodBuilder, cpu: int, node: str) -> bool:
        if self.free[node] < cpu:
            return False
        self.free[node] -= cpu
        self.running[pod.obj().name] = node, cpu
        self.cluster.add(pod.node(node))
        return True

    def _put_group(self, data: st.DataObject, source: Source) -> None:
        priority = data.draw(st.integers(0, PRIORITY))
        names = []
        for pod in source.members(data.draw(st.integers(0, 5))):
            node = data.draw(st.sampled_from(sorted(self.free)))
            if self._put(pod.priority(priority), 1, node):
                names.append(pod.obj().name)
        if not names:
            return
        minimum = data.draw(st.integers(1, len(names)))
        self.cluster.add(source.group(minimum, priority=priority))
        self.members = frozenset(names)
        # Kubernetes' has the disruption mode All.
        self.needed = minimum if source.later_ones_go_singly else len(names)
        if priority < PRIORITY:
            self.may_go += names

    @property
    def victims(self) -> frozenset[str]:
        """Who was evicted."""
        return frozenset(self.cluster.writer.deleted)

    def fits_without(self, names: Iterable[str]) -> bool:
        """Whether the preemptor has room where these Pods are not."""
        slots = sum(room // self.cpu for room in self._free_without(names).values())
        return slots >= self.minimum

    def fits_as_planned(self, names: Iterable[str]) -> bool:
        """The same, with each of its Pods on the node to which it is nominated.

        kube-scheduler plans once, with all who may go away, and then puts back who leaves room.
        """
        free = self._free_without(names)
        for pod in self.pods:
            free[self.cluster.world.nominator.nominated_node(pod.obj().uid)] -= self.cpu
        return min(free.values()) >= 0

    def _free_without(self, names: Iterable[str]) -> dict[str, int]:
        free = dict(self.free)
        for name in names:
            node, cpu = self.running[name]
            free[node] += cpu
        return free

    def choices(self) -> list[frozenset[str]]:
        """Every set of Pods that may be evicted."""
        pods = sorted(self.may_go)
        sets = (frozenset(some) for n in range(len(pods) + 1) for some in combinations(pods, n))
        return [chosen for chosen in sets if not self._breaks(chosen)]

    def takes_the_wrong_members(self, chosen: frozenset[str]) -> bool:
        """Whether ``chosen`` spares some of a group that went as a whole.

        Which members are above the minimum is settled before anybody looks at nodes: where just
        the others are in the way, all go, though another choice of members would have done.
        """
        return self.members <= self.victims and bool(self.members - chosen)

    def _breaks(self, chosen: frozenset[str]) -> bool:
        """Whether the group would run on below its minimum."""
        return 0 < len(self.members - chosen) < self.needed


@every_source
@pytest.mark.parametrize("preemptor", SOURCES, ids=lambda source: f"for-{source}")
@length(15)
@given(st.data())
def test_who_is_evicted_for_a_group_is_needed(
    preemptor: Source, source: Source, data: st.DataObject
) -> None:
    world = SmallWorld(data, preemptor, source)
    choices, victims = world.choices(), world.victims
    assert victims in choices
    enough = [chosen for chosen in choices if world.fits_without(chosen)]
    if frozenset() in enough:
        assert not victims
        assert len(world.cluster.bound) == world.minimum
    elif not enough:
        assert not victims
        assert not world.cluster.bound
    else:
        assert victims in enough
        fits = world.fits_without if preemptor.later_ones_go_singly else world.fits_as_planned
        fewer = [chosen for chosen in choices if chosen < victims and fits(chosen)]
        assert not [chosen for chosen in fewer if not world.takes_the_wrong_members(chosen)]
