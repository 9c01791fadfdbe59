"""What must hold whenever groups preempt, on random clusters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.groups import (
    gang,
    gang_members,
    group_cluster,
    groups_profile,
    members,
    names_of,
    nodes,
    pod_group,
    workload_cluster,
)
from tests.properties import length

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.groups.room import RoomRequest, of_group
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.capacity import FreedCapacity
from bayplan.preemption.eviction_units import make_units
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.member_fit import MemberFit, needs_of
from bayplan.preemption.running_pods import RunningPods
from bayplan.testing import PodBuilder, make_object, make_pod

CPUS = st.sampled_from(["500m", "1", "2", "3"])
SEVERAL = length(40)


class World:
    """Nodes, running Pods and groups of both APIs, and a group of either that wants in."""

    def __init__(self, data: st.DataObject, *, of_kubernetes: bool = False) -> None:
        self._draw = data.draw
        self.cluster = workload_cluster(profiles=[groups_profile()])
        self.cluster.writer.on_deleted = None
        self.running: dict[str, PodBuilder] = {}
        self.group_of: dict[str, str] = {}
        self.minimum: dict[str, int] = {}
        self.count = self._draw(st.integers(1, 4))
        self.cluster.add(*nodes(self.count, cpu="6"))
        shielded = make_object(POD_DISRUPTION_BUDGET, "b")
        shielded.spec(selector={"matchLabels": {"shielded": ""}}).status(disruptionsAllowed=0)
        self.cluster.add(shielded)
        for number in range(self._draw(st.integers(0, 8))):
            self._put(make_pod(f"single-{number}"))
        for number in range(self._draw(st.integers(0, 3))):
            size = self._draw(st.integers(1, 5))
            name = f"v{number}"
            self.minimum[name] = self._draw(st.integers(1, size))
            # A gang of Kubernetes is taken apart by others of its kind, as kube-scheduler does.
            if not of_kubernetes and self._draw(st.booleans()):
                pods = gang_members(name, size)
                self.cluster.add(gang(name, self.minimum[name]))
            else:
                pods = members(name, size)
                self.cluster.add(pod_group(name, minMember=self.minimum[name]))
            for pod in pods:
                self._put(pod, name)
        size = self._draw(st.integers(1, 5))
        self.wanted = self._draw(st.integers(1, size))
        cpu, priority = self._draw(CPUS), self._draw(st.integers(1, 4))
        self.priority = priority
        if of_kubernetes:
            self.cluster.add(gang("g", self.wanted, priority=priority))
            pods = gang_members("g", size, cpu)
        else:
            self.cluster.add(pod_group("g", minMember=self.wanted))
            pods = members("g", size, cpu)
        self.pods = [pod.priority(priority) for pod in pods]

    def _put(self, pod: PodBuilder, group: str = "") -> None:
        """Place a Pod where there is room; leave it out where there is none."""
        row = self._draw(st.integers(0, self.count - 1))
        name = pod.key.partition("/")[2]
        pod.req(cpu=self._draw(CPUS)).priority(self._draw(st.integers(0, 3))).node(f"n{row}")
        if self._draw(st.booleans()):
            pod.label("shielded")
        table = self.cluster.nodes
        if table.requested("cpu")[row] + _cpu(pod) <= table.allocatable("cpu")[row]:
            pod.start_time(f"2026-01-{self._draw(st.integers(1, 9)):02}T00:00:00Z")
            self.running[name] = pod
            self.group_of[name] = group
            self.cluster.add(pod)

    @property
    def victims(self) -> set[str]:
        return set(self.cluster.writer.deleted)

    def request(self) -> RoomRequest:
        """The group, and the means to try out who could go."""
        group = self.cluster.cache.groups.find("default/g")
        assert group is not None
        planner, pods = self.cluster.core.placers.planner, [pod.obj() for pod in self.pods]
        return of_group(planner, self.cluster.framework, group, pods)

    def fits_without(self, names: set[str]) -> bool:
        """Whether the group has an exact plan in a world without these Pods."""
        victims = [self.running[name].obj() for name in names]
        return self.request().plan_without(victims) is not None

    def of_lower_priority(self) -> set[str]:
        return {n for n, pod in self.running.items() if pod.obj().priority < self.priority}

    def units(self) -> set[str]:
        """The Pods that may be evicted, as the rules for groups have it."""
        lower = self.of_lower_priority()
        sizes = Counter(self.group_of.values())
        may = {name for name in lower if not self.group_of[name]}
        for group in self.minimum:
            mine = {name for name in lower if self.group_of[name] == group}
            above = max(sizes[group] - self.minimum[group], 0)
            may |= mine if len(mine) == sizes[group] else set(sorted(mine)[:above])
        return may


def _cpu(pod: PodBuilder) -> int:
    from bayplan.cache.requests import pod_requests  # noqa: PLC0415

    return pod_requests(pod.obj()).amounts["cpu"]


@SEVERAL
@given(st.data())
def test_whoever_is_evicted_for_a_group_makes_room_that_it_gets(data: Any) -> None:
    world = World(data)
    cluster = world.cluster
    cluster.add(*world.pods)
    cluster.cycle()
    victims = world.victims
    if not victims:  # of many worlds: Hypothesis would call it a fault to filter that much
        return
    assert names_of(cluster, "g") == set()
    assert victims <= world.of_lower_priority()
    nominated = {
        pod.key: cluster.world.nominator.nominated_node(pod.obj().uid) for pod in world.pods
    }
    cluster.remove(*(world.running[name] for name in victims))
    cluster.wait(11)
    queued = cluster.queue.pop()
    assert queued is not None
    cluster.scheduler.schedule_one(queued)
    cluster.take_in()
    assert len(names_of(cluster, "g")) >= world.wanted
    assert world.victims == victims
    for name, node in cluster.bound:
        assert nominated[f"default/{name}"] in ("", node)


@SEVERAL
@given(st.data())
def test_no_group_is_left_running_below_its_minimum(data: Any) -> None:
    world = World(data, of_kubernetes=data.draw(st.booleans()))
    before = Counter(world.group_of.values())
    world.cluster.add(*world.pods)
    world.cluster.cycle()
    after = Counter(g for name, g in world.group_of.items() if name not in world.victims)
    for group, minimum in world.minimum.items():
        if before[group] != after[group]:
            assert after[group] == 0 or after[group] >= minimum


@SEVERAL
@given(st.data())
def test_room_that_can_be_made_by_the_rules_is_made(data: Any) -> None:
    world = World(data)
    world.cluster.add(*world.pods)
    world.cluster.cycle()
    if not world.victims and not names_of(world.cluster, "g") and not world.minimum:
        assert not world.fits_without(world.of_lower_priority())
    if world.victims:
        assert world.fits_without(world.victims)
        unshielded = {
            name for name in world.units() if "shielded" not in world.running[name].obj().labels
        }
        if not world.minimum and not world.victims <= unshielded:
            assert not world.fits_without(unshielded)


@SEVERAL
@given(st.data())
def test_fewer_units_than_the_bound_says_are_never_enough(data: Any) -> None:
    world = World(data)
    cluster, request = world.cluster, world.request()
    running = RunningPods(cluster.nodes)
    classes = np.where(running.priorities < request.preemptor.priority, 0, -1)
    useful = np.ones(len(running), np.bool_)
    budgets = Budgets(cluster.cache.objects)
    cache = cluster.cache
    gangs = Gangs(cluster.nodes, cache.objects, cache.groups, cache.kubernetes_groups)
    units = make_units(running, classes, useful, gangs, budgets)
    domains = np.zeros(len(cluster.nodes), np.int64)
    fit = MemberFit(cluster.nodes, needs_of(request), world.wanted, domains, ())
    capacity = FreedCapacity(fit, units)
    shortest = capacity.shortest()
    too_few = len(units) if shortest is None else shortest - 1
    if too_few >= 0:
        assert request.plan_without(units.pods_of(range(too_few))) is None


@length(30)
@given(st.data())
def test_evictions_come_to_an_end_though_victims_are_made_anew(data: Any) -> None:
    """Several groups of several priorities; each victim comes back as a Pod without a node."""
    cluster = group_cluster()
    count = data.draw(st.integers(1, 3))
    cluster.add(*nodes(count))
    pods: dict[str, PodBuilder] = {}
    for number in range(data.draw(st.integers(1, 5))):
        name, size = f"g{number}", data.draw(st.integers(1, 4))
        cluster.add(pod_group(name, minMember=data.draw(st.integers(1, size))))
        priority = data.draw(st.integers(0, 3))
        mine = [pod.priority(priority) for pod in members(name, size, data.draw(CPUS))]
        pods |= {pod.key.partition("/")[2]: pod for pod in mine}
        cluster.add(*mine)
        cluster.run()
    replaced = 0
    for _ in range(40):
        evicted, fresh = len(cluster.writer.deleted), cluster.writer.deleted[replaced:]
        replaced = evicted
        for name, node in cluster.bound:  # what the API server has seen meanwhile
            if name in pods and cluster.counted_on(pods[name]) == node:
                cluster.add(pods[name].node(node))
        for name in fresh:
            old = pods.pop(name)
            group = old.obj().labels["scheduling.x-k8s.io/pod-group"]
            (new,) = members(group, 1, first=1000 + len(cluster.writer.deleted) + len(pods))
            new.spec(containers=old.json["spec"]["containers"]).priority(old.obj().priority)
            pods[new.key.partition("/")[2]] = new
            cluster.add(new)
        cluster.settle(1)
        if not fresh and len(cluster.writer.deleted) == evicted:
            break
    else:
        raise AssertionError("it does not end")
