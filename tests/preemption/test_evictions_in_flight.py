"""Nobody is evicted beyond need, however long deletions, ends, events and bindings take.

Every world is uniform: all Pods are of one size, so that counting says how many have to go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.groups import GATE, gang, gang_members, groups_profile, members, pod_group
from tests.live_cluster import ApiServer, LiveCluster
from tests.plugins.capacity_scheduling.world import PROFILE as QUOTA_PROFILE
from tests.plugins.capacity_scheduling.world import quota
from tests.properties import length
from tests.queues import queue, queues_profile

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.testing import Json, PodBuilder, make_node, make_object, make_pod

HIGH = 10
SOME = -1
ORDERS = st.lists(st.integers(0, 5039), max_size=60)
"""What happens next, as indices of all that may, modulo their number."""


class World(LiveCluster):
    """Full nodes, and Pods that take the room of those on them.

    Attributes:
        need: how many Pods have to go.
        takers: how many of the Pods called ``high`` run in the end; `SOME`: as many as others
            went, which may be fewer than ``need``.
        others: has others come in place of the Pods that wait, in the middle; None for nobody.
    """

    def __init__(
        self, draw: Callable[[st.SearchStrategy[Any]], Any], profile: Json, gates: str
    ) -> None:
        self.draw = draw
        self.nodes: int = draw(st.integers(1, 3))
        self.cpus: int = draw(st.integers(2, 6))
        api = ApiServer(self.cpus, grace=draw(st.booleans()), starts=draw(st.booleans()))
        super().__init__(api, gates, profiles=[profile])
        self.faults = draw(st.integers(0, 2))
        for number in range(self.nodes):
            node = make_node(f"n{number}").capacity(cpu=str(self.cpus), memory="64Gi", pods=110)
            self.cluster.add(node.label("kubernetes.io/hostname", f"n{number}"))
        self.need = self.takers = 0
        self.others: Callable[[], None] | None = None

    @property
    def size(self) -> int:
        """How many Pods there is room for."""
        return self.nodes * self.cpus

    def fill(self, prefix: str, number: int, namespace: str = "default") -> None:
        """So many Pods of low priority run, on one node after the other."""
        started = self.draw(st.booleans())
        for i in range(number):
            low = self.pod(f"{prefix}-{i}", namespace).label("app", "low")
            low.node(f"n{i // self.cpus}")
            self.create(low.start_time(f"2026-01-01T00:{i:02}:00Z") if started else low)
        self.show(number)

    def pod(self, name: str, namespace: str = "default", priority: int = 0) -> PodBuilder:
        """A Pod of 1 CPU."""
        return make_pod(name).namespace(namespace).req(cpu="1").priority(priority)

    def high(self, number: int, namespace: str = "default", priority: int = HIGH) -> None:
        """So many Pods come that take room."""
        for i in range(number):
            self.create(self.pod(f"high-{i}", namespace, priority))
        self.takers += number

    def running(self, prefix: str) -> int:
        """How many Pods whose names begin so have nodes and stay."""
        pods = [pod for pod in self.api.running() if pod.name.startswith(prefix)]
        return sum(pod.deleted is None for pod in pods)

    def run(self) -> None:
        """Things happen in some order, and then until nothing happens any more."""
        orders = [ORDERS] if self.others is None else [ORDERS, ORDERS]
        for number, order in enumerate(orders):
            if number and self.others is not None:
                self.others()
            for choice in self.draw(order):
                actions = self.actions()
                actions[choice % len(actions)]()
        self.settle()


def single(world: World) -> None:
    """Pods evict Pods of lower priority."""
    number = world.draw(st.integers(1, world.size))
    free = world.draw(st.integers(0, 1))
    world.fill("low", world.size - free)
    world.high(number)
    world.need = max(number - free, 0)


def replaced(world: World) -> None:
    """Pods that wait are deleted, and others come in their place."""
    number = world.draw(st.integers(1, world.size))
    world.fill("low", world.size)
    world.high(number)
    world.need = number

    def others() -> None:
        for name, pod in list(world.api.pods.items()):
            if not pod.obj().node_name:
                world.api.end(name)
                world.create(world.pod(f"high-other-{name}", priority=HIGH + 1))

    world.others = others


def replaced_gangs(world: World) -> None:
    """The same of a PodGroup of Kubernetes."""
    world.fill("low", world.size)
    size = world.draw(st.integers(1, world.size))
    world.cluster.add(gang("high-g", size, priority=HIGH))
    world.create(*(p.priority(HIGH) for p in gang_members("high-g", size)))
    world.need = world.takers = size

    def others() -> None:
        waiting = [name for name, pod in world.api.pods.items() if not pod.obj().node_name]
        if len(waiting) == size:
            for name in waiting:
                world.api.end(name)
            world.cluster.add(gang("high-h", size, priority=HIGH))
            world.create(*(p.priority(HIGH) for p in gang_members("high-h", size)))

    world.others = others


def budgets(world: World) -> None:
    """The same under a PodDisruptionBudget."""
    budget = make_object(POD_DISRUPTION_BUDGET, "b")
    budget.spec(selector={"matchLabels": {"app": "low"}})
    world.cluster.add(budget.status(disruptionsAllowed=world.draw(st.integers(0, world.size))))
    single(world)


def mixed(world: World) -> None:
    """Pods of several priorities: those of the middle yield, too."""
    world.fill("low", world.size)
    high = world.draw(st.integers(1, world.size))
    middle = world.draw(st.integers(0, world.size - high))
    for i in range(middle):
        world.create(world.pod(f"high-middle-{i}", priority=HIGH // 2))
    world.high(high)
    world.takers += middle
    world.need = high + middle


def groups_of(world: World, most: int) -> None:
    """Groups of the label come, in the namespace default, that have so many Pods at most."""
    size = world.draw(st.integers(1, most))
    number = world.draw(st.integers(1, most // size))
    for group in range(number):
        world.cluster.add(pod_group(f"high{group}", minMember=size))
        world.create(*(p.priority(HIGH) for p in members(f"high{group}", size)))
    world.need = world.takers = number * size


def label_groups(world: World) -> None:
    """PodGroups of the label API, all of the same size."""
    world.fill("low", world.size)
    groups_of(world, world.size)


def gangs(world: World) -> None:
    """PodGroups of Kubernetes, all of the same size."""
    world.fill("low", world.size)
    size = world.draw(st.integers(1, world.size))
    number = world.draw(st.integers(1, world.size // size))
    for group in range(number):
        world.cluster.add(gang(f"high{group}", size, priority=HIGH))
        world.create(*(p.priority(HIGH) for p in gang_members(f"high{group}", size)))
    world.need = world.takers = number * size


def groups_and_pods(world: World) -> None:
    """A group and single Pods."""
    world.fill("low", world.size)
    size = world.draw(st.integers(1, world.size - 1))
    number = world.draw(st.integers(1, world.size - size))
    world.cluster.add(pod_group("high-g", minMember=size))
    world.create(*(p.priority(HIGH) for p in members("high-g", size)))
    world.high(number)
    world.takers += size
    world.need = number + size


def quotas(world: World) -> None:
    """A namespace takes back what another one has borrowed."""
    own = world.draw(st.integers(1, world.size))
    lent = world.size - own
    most = {"cpu": world.size}
    world.cluster.add(quota("a", {"cpu": lent}, most), quota("b", {"cpu": own}, most))
    world.fill("low", world.size, "a")
    world.high(own, "b", priority=world.draw(st.sampled_from([-HIGH, HIGH])))
    wanting = world.draw(st.integers(0, 3))
    for i in range(wanting):
        world.create(world.pod(f"more-{i}", "b", -HIGH))
    world.need = own


def reclaim(world: World) -> None:
    """A queue takes back what is guaranteed to it."""
    own = world.draw(st.integers(1, world.size))
    a = queue("a", "a", guaranteed={"cpu": world.size - own})
    world.cluster.add(a, queue("b", "b", guaranteed={"cpu": own}))
    world.fill("low", world.size, "a")
    world.high(own, "b", priority=world.draw(st.sampled_from([0, HIGH])))
    world.need = own


def quota_groups(world: World) -> int:
    """Groups take back what another namespace has borrowed from theirs, and from a third one.

    Returns:
        How many Pods their namespace is guaranteed.
    """
    own: int = world.draw(st.integers(1, world.size - 1))
    unused = world.draw(st.integers(0, world.size - own))
    most = {"cpu": world.size}
    world.cluster.add(
        quota("a", {"cpu": world.size - own - unused}, most),
        quota("default", {"cpu": own}, most),
        quota("unused", {"cpu": unused}, most),
    )
    world.fill("low", world.size, "a")
    groups_of(world, own)
    return own


def groups_above_a_quota(world: World) -> None:
    """The same, and one more group, with which they may be above their minimum: then some wait."""
    most = quota_groups(world)
    world.cluster.add(pod_group("high-more", minMember=world.need))
    world.create(*(p.priority(HIGH - 1) for p in members("high-more", world.need)))
    world.need, world.takers = most, SOME


def queue_groups(world: World) -> None:
    """Groups of a queue take back what is guaranteed to it."""
    own = world.draw(st.integers(1, world.size))
    a = queue("a", "a", guaranteed={"cpu": world.size - own})
    world.cluster.add(a, queue("b", "default", guaranteed={"cpu": own}))
    world.fill("low", world.size, "a")
    groups_of(world, own)


def limits(world: World) -> None:
    """Pods take the place of others that count for the same limit; nodes have room."""
    used = world.draw(st.integers(1, world.size))
    world.cluster.add(queue("a", "a", limit={"cpu": used}))
    world.fill("low", used, "a")
    number = world.draw(st.integers(1, used))
    world.high(number, "a")
    world.need = number


PLAIN: Json = {"schedulerName": "bayplan"}
QUOTA_GROUPS: Json = {
    "schedulerName": "bayplan",
    "plugins": {
        "multiPoint": {
            "enabled": [{"name": "CapacityScheduling"}, {"name": "Coscheduling"}],
            "disabled": [{"name": "PrioritySort"}, {"name": "DefaultPreemption"}],
        },
    },
}
WAYS = [
    pytest.param(PLAIN, "", single, id="pods"),
    pytest.param(PLAIN, "", replaced, id="pods-in-place-of-others"),
    pytest.param(PLAIN, "", budgets, id="pods-under-a-budget"),
    pytest.param(PLAIN, "", mixed, id="pods-of-three-priorities"),
    pytest.param(groups_profile(), "", label_groups, id="groups"),
    pytest.param(PLAIN, GATE, gangs, id="groups-of-kubernetes"),
    pytest.param(PLAIN, GATE, replaced_gangs, id="groups-of-kubernetes-in-place-of-others"),
    pytest.param(groups_profile(), "", groups_and_pods, id="groups-and-pods"),
    pytest.param(QUOTA_PROFILE, "", quotas, id="quotas"),
    pytest.param(QUOTA_GROUPS, "", quota_groups, id="groups-under-quotas"),
    pytest.param(QUOTA_GROUPS, "", groups_above_a_quota, id="groups-above-a-quota"),
    pytest.param(queues_profile(), "", reclaim, id="queues"),
    pytest.param(queues_profile("Coscheduling"), "", queue_groups, id="groups-of-queues"),
    pytest.param(queues_profile(), "", limits, id="limits-of-queues"),
]


@pytest.mark.parametrize(("profile", "gates", "way"), WAYS)
@length(20)
@given(data=st.data())
def test_nobody_is_evicted_beyond_need(
    profile: Json, gates: str, way: Callable[[World], object], data: st.DataObject
) -> None:
    world = World(data.draw, profile, gates)
    way(world)
    world.run()
    evicted, running = len(world.api.evicted), world.running("high")
    assert len(set(world.api.evicted)) == evicted
    if world.takers == SOME:
        assert evicted == running <= world.need
    else:
        assert (evicted, running) == (world.need, world.takers)
