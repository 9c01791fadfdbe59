"""A scheduler in a small world: what it does is told to the rules, and judged by them.

Every eviction is judged when it happens. Whoever is evicted, or was on a node that is lost, comes
again as a new Pod of another name, as a controller would have it. A Pod starts as soon as it is
bound, each a second after the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import pod_group
from tests.queues import queue, queues_profile
from tests.tenants.rules import CPU, Asked, Tenant, World

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.queue_tree import PREEMPTIBLE
from bayplan.framework.turns import keeps_room
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.testing import (
    PodBuilder,
    fields,
    make_node,
    make_object,
    make_pod,
    requirement,
)

GPU = "example.com/gpu"
MILLI = 1000
BACKOFF = 11
"""Seconds after which everybody is tried again."""
QUIET = 5
"""After so many backoffs in a row in which nobody moved, nobody will."""


def tenants(names: str, parents: tuple[str, ...]) -> st.SearchStrategy[list[Tenant]]:
    """Queues, some of which are parts of others."""
    amounts = st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(1, 4), max_size=2)
    limits: st.SearchStrategy[dict[str, int]] = st.one_of(
        st.just({}), st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(3, 8))
    )
    one = {
        name: st.builds(
            Tenant,
            st.just(name),
            st.sampled_from(("", *parents)),
            amounts,
            limits,
            st.sampled_from([1, 1, 2, 3, 0]),
            st.sampled_from([0, 0, 1]),
            st.sampled_from([True, True, True, False]),
            user_limit=st.sampled_from([{}, {}, {}, {CPU: 2}, {CPU: 3, GPU: 4}]),
        )
        for name in names
    }
    return st.fixed_dictionaries(one).map(lambda some: list(some.values()))


@st.composite
def trees(draw: st.DrawFn) -> list[Tenant]:
    """Two to four queues that have Pods, and the parents of some of these."""
    some = draw(tenants("abcd"[: draw(st.integers(2, 4))], ("left", "right")))
    used = {tenant.parent for tenant in some} - {""}
    some += [Tenant(name, weight=draw(st.integers(1, 2))) for name in sorted(used)]
    return [tenant if tenant.reclaimable else _closed(tenant) for tenant in some]


def _closed(tenant: Tenant) -> Tenant:
    """What is not reclaimable borrows nothing of what it is guaranteed."""
    limits = {r: min(a, tenant.limit.get(r, a)) for r, a in tenant.guaranteed.items()}
    return replace(tenant, limit={**tenant.limit, **limits})


class Played:
    """A scheduler in a world; amounts of CPU are given in cores, and judged as it counts them.

    Attributes:
        evictions: how many there were.
        decisions: how many attempts there were.
        in_vain: who was evicted for a Pod that was waiting already when they were placed, while
            nothing else changed; each with that Pod.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, int]], tree: Collection[Tenant]) -> None:
        self.world = World({}, [], [])
        self.world.resources = [CPU, GPU]
        self.cluster = Cluster(profiles=[queues_profile("Coscheduling")])
        self.cluster.writer.on_bound = self.start
        self.builders: dict[str, PodBuilder] = {}
        self.evictions = self.decisions = self.made = 0
        self.in_vain: list[tuple[str, str]] = []
        self._came: dict[str, int] = {}
        """By name of a Pod, how many attempts there had been."""
        self._placed: dict[str, int] = {}
        self._changed = 0
        """How many attempts there had been when something changed that is not its own doing."""
        for name, amounts in nodes.items():
            self.set_node(name, amounts)
        for tenant in tree:
            namespace = f"of-{tenant.name}"
            self.set_tenant(tenant)
            budget = make_object(POD_DISRUPTION_BUDGET, "protected").namespace(namespace)
            budget.spec(selector={"matchLabels": {"protected": "yes"}})
            self.cluster.add(budget.status(disruptionsAllowed=0))

    # What happens to the world

    def set_node(self, name: str, amounts: Mapping[str, int], *, closed: bool = False) -> None:
        """The node is there; where it is ``closed``, it takes no new Pods."""
        self._changed = self.decisions
        self.world.nodes[name] = _counted(amounts)
        (self.world.closed.add if closed else self.world.closed.discard)(name)
        node = make_node(name).capacity(amounts, memory="64Gi", pods=110)
        self.cluster.add(node.unschedulable() if closed else node)

    def lose_node(self, name: str) -> None:
        """The node is gone, and so are its Pods."""
        self._changed = self.decisions
        del self.world.nodes[name]
        self.world.closed.discard(name)
        self.cluster.remove(make_node(name))
        for pod in [pod for pod, node in self.world.running.items() if node == name]:
            asked = self.world.pods[pod]
            self.end(pod)
            self.come(asked)

    def set_tenant(self, tenant: Tenant) -> None:
        """The queue is like this now; one that is a parent has no Pods."""
        self._changed = self.decisions
        self.world.tenants[tenant.name] = replace(
            tenant,
            guaranteed=_counted(tenant.guaranteed),
            limit=_counted(tenant.limit),
            user_limit=_counted(tenant.user_limit),
        )
        names = self.world.tenants.values()
        parents = {tenant.parent for tenant in names} | {"left", "right"}
        self.cluster.add(
            queue(
                tenant.name,
                "" if tenant.name in parents else f"of-{tenant.name}",
                parent=tenant.parent,
                guaranteed=dict(tenant.guaranteed),
                limit=dict(tenant.limit),
                userLimit=dict(tenant.user_limit),
                weight=tenant.weight,
                priority=tenant.priority,
                reclaimable=tenant.reclaimable,
                preemptible=tenant.preemptible,
                reclaimFrom="LowerPriority" if tenant.from_lower else "Any",
                state="Open" if tenant.open else "Closed",
                minRuntimeSeconds=tenant.min_runtime,
            )
        )

    def set_group(self, name: str, tenant: str, minimum: int) -> None:
        """There is a group whose Pods are placed together."""
        self.world.minimums[name] = minimum
        self.cluster.add(pod_group(name, minMember=minimum).namespace(f"of-{tenant}"))

    def come(self, pod: Asked) -> str:
        """Such a Pod is there, with a name of its own; amounts as the scheduler counts them."""
        self._changed = self.decisions
        return self._come(pod)

    def _come(self, pod: Asked) -> str:
        self.made += 1
        name = f"{pod.tenant}{self.made}"
        self.world.pods[name] = replace(pod, name=name)
        amounts = {r: f"{a}m" if r == CPU else str(a) for r, a in pod.requests.items()}
        builder = make_pod(name).namespace(f"of-{pod.tenant}").req(amounts)
        if pod.priority:
            builder.spec(priority=pod.priority)
        if pod.user:
            builder.label("bayplan.dev/user", pod.user)
        if pod.is_protected:
            builder.label("protected", "yes")
        if pod.never:
            builder.label(PREEMPTIBLE, "false")
        if pod.nodes is not None:
            names = requirement("metadata.name", "In", *sorted(pod.nodes))
            builder.node_affinity(fields(names))
        if pod.group:
            builder.label(POD_GROUP_LABEL, pod.group)
        self.builders[name] = builder
        self._came[name] = self.decisions
        self.cluster.add(builder)
        return name

    def end(self, name: str) -> None:
        """The Pod is gone, whether it runs or waits."""
        self._changed = self.decisions
        self.world.running.pop(name, None)
        del self.world.pods[name]
        self.cluster.remove(self.builders.pop(name))

    def start(self, pod: Pod, node: str) -> None:
        """The Pod is bound, and starts."""
        self.cluster.clock.time += 1
        self.world.now = self.cluster.clock.time
        self.world.started[pod.name] = self.world.now
        time = datetime.fromtimestamp(self.world.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.cluster.add(self.builders[pod.name].node(node).start_time(time))

    def wait(self, seconds: float) -> None:
        """So much time passes."""
        self.cluster.wait(seconds)
        self.world.now = self.cluster.clock.time

    # What the scheduler does

    def attempt(self) -> bool | None:
        """Let the next Pod be tried: whether somebody moved; None if nobody is ready."""
        queued = self.cluster.queue.pop()
        if queued is None:
            return None
        self.decisions += 1
        before = set(self.world.running)
        for asked in self.judged(queued):
            self._come(asked)
        return before != set(self.world.running)

    def settle(self, most: int = 60) -> int:
        """Until nobody moves any more; by how many attempts the last one moved."""
        begin = last = self.decisions
        quiet = 0
        for _ in range(most):
            moved = False
            while (one := self.attempt()) is not None:
                moved |= one
                last = self.decisions if one else last
            quiet = 0 if moved else quiet + 1
            if quiet == QUIET:
                return last - begin
            self.wait(BACKOFF)
        raise AssertionError("it does not settle")

    def judged(self, queued: QueuedPod) -> list[Asked]:
        """Let the Pod be tried, and return who is evicted for it."""
        world, cluster = self.world, self.cluster
        of, before = world.divided(), len(cluster.writer.deleted)
        said = len(cluster.recorder.conditions)
        held = self.nominated(but=queued)
        pod = world.pods[queued.pod.name]
        asked = world.together(pod.group) if isinstance(queued, QueuedGroup) else pod
        cluster.scheduler.schedule_one(queued)
        for of_pod, condition in cluster.recorder.conditions[said:]:
            assert condition.reason != "SchedulerError", f"{of_pod}: {condition.message}"
        gone = cluster.writer.deleted[before:]
        again = [world.pods[name] for name in gone]
        if gone:
            if currently_in_test_context():
                note(f"{asked.name} evicts {gone}; {world.running}")
            self.evictions += len(gone)
            came = self._came[queued.pod.name]
            self.in_vain += [
                (name, asked.name) for name in gone if self._placed[name] > max(came, self._changed)
            ]
            world.running |= held
            self.judge(asked, gone)
            assert world.may_evict(asked, gone, of), f"{gone} may not go for {asked}"
            for name in held:
                del world.running[name]
        cluster.take_in()
        now = {pod.name: pod.node_name for pod in cluster.cache.pods()}
        for name in world.running.keys() - now.keys():
            del world.running[name]
            del world.pods[name], self.builders[name]
        for name in sorted(now.keys() - world.running.keys(), key=lambda n: world.started[n]):
            world.running[name] = now[name]
            self._placed[name] = self.decisions
        return again

    def judge(self, asked: Asked, gone: Collection[str]) -> None:
        """There was no room, there is now, and nobody could have stayed."""
        world = self.world
        assert not world.fits(asked), f"there was room for {asked}"
        assert world.fits(asked, gone), f"{gone} do not help {asked}"
        units = world.units()
        for unit in {units[name] for name in gone}:
            left = {name for name in gone if units[name] != unit}
            if world.leaves_groups_whole(left):
                assert not world.fits(asked, left), f"{unit} goes for nothing"

    # What the scheduler says

    def shares(self) -> dict[str, dict[str, int]]:
        """By queue and resource, as the scheduler divides."""
        sums = self.cluster.world.queues.refresh_shares()
        resources = sums.structure.resources
        return {
            one.name: {
                r: int(sums.share[row, resources.index(r)]) if r in resources else 0
                for r in self.world.resources
            }
            for row, one in enumerate(sums.structure.queues)
        }

    def nominated(self, but: QueuedPod | None = None) -> dict[str, str]:
        """The nodes of Pods for which room is made, and kept from this one."""
        nominator = self.cluster.world.nominator
        turns = self.cluster.framework.services.turns
        own: set[str] = set()
        is_for: Callable[[Pod], bool] = lambda _pod: True  # noqa: E731
        if but is not None:
            first = but.pod
            own = set(but.members) if isinstance(but, QueuedGroup) else {but.uid}
            is_for = lambda pod: keeps_room(pod, first, turns)  # noqa: E731
        return {
            pod.name: node
            for node in nominator.nominated_nodes()
            for pod in nominator.nominated_pods(node)
            if pod.uid not in own and is_for(pod)
        }


def _counted(amounts: Mapping[str, int]) -> dict[str, int]:
    return {r: a * MILLI if r == CPU else a for r, a in amounts.items()}


def counted(pod: Asked) -> Asked:
    """A Pod that is given in cores."""
    return replace(pod, requests=_counted(pod.requests))
