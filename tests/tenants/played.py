"""A scheduler in a small world: what it does is told to the rules, and judged by them.

Every eviction is judged when it happens. Whoever is evicted, or was on a node that is lost, comes
again as a new Pod of another name, as a controller would have it. A Pod starts as soon as it is
bound, each a second after the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import pod_group
from tests.queues import node_kind, queue, queues_profile
from tests.tenants.rules import CPU, Amounts, Asked, OnKind, Tenant, World

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.queue_tree import PREEMPTIBLE
from bayplan.framework.turns import keeps_room
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState
from bayplan.testing import (
    PodBuilder,
    fields,
    make_node,
    make_object,
    make_pod,
    requirement,
)

GPU = "example.com/gpu"
KINDS = "fast", "slow"
EVICTS = "evictOverLimitAfterSeconds"
MILLI = 1000
BACKOFF = 11
"""Seconds after which everybody is tried again."""
QUIET = 5
"""After so many backoffs in a row in which nobody moved, nobody will."""


def tenants(
    names: str, parents: tuple[str, ...], kinds: bool = False
) -> st.SearchStrategy[list[Tenant]]:
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
            kinds=on_kinds() if kinds else st.just(()),
            is_bound=st.sampled_from([False, False, True]) if kinds else st.just(False),
        )
        for name in names
    }
    return st.fixed_dictionaries(one).map(lambda some: list(some.values()))


def on_kinds() -> st.SearchStrategy[tuple[OnKind, ...]]:
    """What a queue has on nodes of kinds, in any order; some of it often, nothing often."""
    weight = st.sampled_from([None, None, 0, 1, 3])
    guaranteed = st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(1, 3), max_size=1)
    limit: st.SearchStrategy[dict[str, int]] = st.one_of(
        st.just({}), st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(3, 5), max_size=1)
    )
    some = st.lists(st.sampled_from(KINDS), unique=True, max_size=2)
    return some.flatmap(
        lambda names: st.tuples(
            *(st.builds(OnKind, st.just(name), guaranteed, limit, weight) for name in names)
        )
    )


@st.composite
def trees(draw: st.DrawFn, kinds: bool = False) -> list[Tenant]:
    """Two to four queues that have Pods, and the parents of some of these."""
    some = draw(tenants("abcd"[: draw(st.integers(2, 4))], ("left", "right"), kinds))
    used = {tenant.parent for tenant in some} - {""}
    of_parents = on_kinds() if kinds else st.just(())
    some += [
        Tenant(name, weight=draw(st.integers(1, 2)), kinds=draw(of_parents))
        for name in sorted(used)
    ]
    return [tenant if tenant.reclaimable else _closed(tenant) for tenant in some]


def _closed(tenant: Tenant) -> Tenant:
    """What is not reclaimable borrows nothing of what it is guaranteed."""

    def least(guaranteed: Amounts, limit: Amounts) -> Amounts:
        return {**limit, **{r: min(a, limit.get(r, a)) for r, a in guaranteed.items()}}

    return replace(
        tenant,
        limit=least(tenant.guaranteed, tenant.limit),
        kinds=tuple(replace(on, limit=least(on.guaranteed, on.limit)) for on in tenant.kinds),
    )


class Played:
    """A scheduler in a world; amounts of CPU are given in cores, and judged as it counts them.

    Attributes:
        evictions: how many there were.
        decisions: how many attempts there were.
        in_vain: who was evicted for a Pod that was waiting already when they were placed, while
            nothing else changed; each with that Pod.
        regretted: who was placed in free room while Pods that were ready to be tried, or in
            backoff, were entitled to that room; each with these.
    """

    def __init__(
        self,
        nodes: Mapping[str, Mapping[str, int]],
        tree: Collection[Tenant],
        kinds: Mapping[str, str] | None = None,
        *,
        regrets: bool = False,
    ) -> None:
        self.world = World({}, [], [])
        self._regrets = regrets
        """Whether `regretted` is wanted: that takes long."""
        self.world.bases = [CPU, GPU]
        self.cluster = Cluster(profiles=[queues_profile("Coscheduling")])
        self.cluster.writer.on_bound = self.start
        self.cluster.writer.on_deleted = self._deleted
        self.builders: dict[str, PodBuilder] = {}
        self.evictions = self.decisions = self.made = 0
        self.in_vain: list[tuple[str, str]] = []
        self.regretted: list[tuple[str, list[str]]] = []
        self._came: dict[str, int] = {}
        """By name of a Pod, how many attempts there had been."""
        self._placed: dict[str, int] = {}
        self._changed = 0
        """How many attempts there had been when something changed that is not its own doing."""
        self._above: dict[str, float] = {}
        """By queue, since when it has been above its limit."""
        self._lowered: list[str] = []
        """Who goes as limits were lowered, and is not judged yet."""
        self._is_trying = False
        for kind in KINDS:
            self.cluster.add(node_kind(kind, tier=kind))
        for name, amounts in nodes.items():
            self.set_node(name, amounts, kind=(kinds or {}).get(name, ""))
        for tenant in tree:
            namespace = f"of-{tenant.name}"
            self.set_tenant(tenant)
            budget = make_object(POD_DISRUPTION_BUDGET, "protected").namespace(namespace)
            budget.spec(selector={"matchLabels": {"protected": "yes"}})
            self.cluster.add(budget.status(disruptionsAllowed=0))

    # What happens to the world

    def set_node(
        self, name: str, amounts: Mapping[str, int], *, closed: bool = False, kind: str = ""
    ) -> None:
        """The node is there; where it is ``closed``, it takes no new Pods."""
        self._changed = self.decisions
        self.world.nodes[name] = _counted(amounts)
        self.world.kinds[name] = kind
        (self.world.closed.add if closed else self.world.closed.discard)(name)
        node = make_node(name).capacity(amounts, memory="64Gi", pods=110).labels({"tier": kind})
        self.cluster.add(node.unschedulable() if closed else node)
        self._look()

    def lose_node(self, name: str) -> None:
        """The node is gone, and so are its Pods."""
        self._changed = self.decisions
        del self.world.nodes[name]
        self.world.closed.discard(name)
        self.cluster.remove(make_node(name))
        self._look()
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
            kinds=tuple(
                replace(on, guaranteed=_counted(on.guaranteed), limit=_counted(on.limit))
                for on in tenant.kinds
            ),
        )
        names = self.world.tenants.values()
        parents = {tenant.parent for tenant in names} | {"left", "right"}
        spec = {} if tenant.evict_after is None else {EVICTS: tenant.evict_after}
        self._see()
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
                state=tenant.state,
                minRuntimeSeconds=tenant.min_runtime,
                nodeKinds=[_as_json(on) for on in tenant.kinds],
                nodeKindPolicy="Required" if tenant.is_bound else "Preferred",
                **spec,
            )
        )
        self._look()

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
            names = [requirement("metadata.name", "In", node) for node in sorted(pod.nodes)]
            builder.node_affinity(*map(fields, names))
        if pod.group:
            builder.label(POD_GROUP_LABEL, pod.group)
        self.builders[name] = builder
        self._came[name] = self.decisions
        self.cluster.add(builder)
        self._look()
        return name

    def end(self, name: str) -> None:
        """The Pod is gone, whether it runs or waits."""
        self._changed = self.decisions
        self.world.running.pop(name, None)
        del self.world.pods[name]
        self.cluster.remove(self.builders.pop(name))
        self._look()

    def start(self, pod: Pod, node: str) -> None:
        """The Pod is bound, and starts."""
        self.cluster.clock.time += 1
        self.world.now = self.cluster.clock.time
        self.world.started[pod.name] = self.world.now
        time = datetime.fromtimestamp(self.world.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.cluster.add(self.builders[pod.name].node(node).start_time(time))

    def wait(self, seconds: float) -> bool:
        """So much time passes; returns whether Pods go as limits were lowered."""
        self.cluster.wait(seconds)
        self.world.now = self.cluster.clock.time
        return self._look()

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
            if self.wait(BACKOFF):
                begin, quiet = self.decisions, 0
        raise AssertionError("it does not settle")

    def judged(self, queued: QueuedPod) -> list[Asked]:
        """Let the Pod be tried, and return who is evicted for it."""
        world, cluster = self.world, self.cluster
        of, before = world.divided(), len(cluster.writer.deleted)
        said = len(cluster.recorder.conditions)
        held, nominated = self.nominated(but=queued), self.nominated()
        waiting = cluster.queue.pending_pods()
        ready = {
            other.pod.name
            for state in (QueueState.ACTIVE, QueueState.BACKOFF)
            for other in waiting[state]
        }
        pod = world.pods[queued.pod.name]
        asked = world.together(pod.group) if isinstance(queued, QueuedGroup) else pod
        self._is_trying = True
        cluster.scheduler.schedule_one(queued)
        self._is_trying = False
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
            if name not in nominated and world.resources is not world.bases:
                self._judge_kind(name, now[name], held)
            world.running[name] = now[name]
            self._placed[name] = self.decisions
            if self._regrets and name not in nominated:
                self._regret(name, ready - nominated.keys(), held)
        self._look()
        return again

    def _regret(self, name: str, ready: AbstractSet[str], held: Mapping[str, str]) -> None:
        """See `regretted`."""
        world, running = self.world, self.world.running
        world.running = {**running, **held}
        rivals = [
            world.pods[other]
            for other in sorted(ready & world.pods.keys())
            if world.pods[other].tenant != world.pods[name].tenant
        ]
        without_room = [pod for pod in rivals if not pod.group and not world.fits(pod)]
        takers = [pod.name for pod in without_room if any(name in some for some in world.sets(pod))]
        if takers:
            self.regretted.append((name, takers))
        world.running = running

    def _judge_kind(self, name: str, node: str, held: Mapping[str, str]) -> None:
        """It goes to nodes of the first kind that has room beside Pods for which room is made."""
        world, running, pod = self.world, self.world.running, self.world.pods[name]
        world.running = {**held, **running}
        nodes = world.fits(pod)
        world.running = running
        preferred = [*world.preferred(pod.tenant), world.kinds[node]]
        better = preferred[: preferred.index(world.kinds[node])]
        assert node in nodes, f"{name} has no room on {node}"
        assert world.kinds[nodes[0]] not in better, f"{name} goes to {node}: {nodes}"

    # Limits that were lowered

    def _deleted(self, pod: Pod) -> None:
        self.cluster._show_deleted(pod)
        if not self._is_trying:
            self._lowered.append(pod.name)

    def _see(self) -> None:
        """Who is above the limit from now on."""
        for name, tenant in self.world.tenants.items():
            if tenant.evict_after is not None and self.world.is_above_limit(name):
                self._above.setdefault(name, self.cluster.clock.time)
            else:
                self._above.pop(name, None)

    def _look(self) -> bool:
        """Judge who went as limits were lowered, and let them come again."""
        world, gone = self.world, self._lowered
        if gone:
            self._lowered = []
            after = {name: world.tenants[name].evict_after or 0 for name in self._above}
            due = [n for n, t in self._above.items() if self.cluster.clock.time - t >= after[n]]
            faults = list(world.faults_of_lowering(due, set(gone)))
            assert not faults, f"{gone} go for {due}: {faults}"
            again = [world.pods.pop(name) for name in gone]
            for name in gone:
                del world.running[name], self.builders[name]
            for asked in again:
                self.come(asked)
        self._see()
        return bool(gone)

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


def _as_json(on: OnKind) -> dict[str, object]:
    weight = {} if on.weight is None else {"weight": on.weight}
    limits = {"guaranteed": dict(on.guaranteed), "limit": dict(on.limit)}
    return {"name": on.kind, **limits, **weight}


def _counted(amounts: Mapping[str, int]) -> dict[str, int]:
    return {r: a * MILLI if r == CPU else a for r, a in amounts.items()}


def counted(pod: Asked) -> Asked:
    """A Pod that is given in cores."""
    return replace(pod, requests=_counted(pod.requests))
