"""The scheduler keeps to the rules: every eviction is one of those that they allow, and they end.

The judge is a program of its own (`tests.tenants.rules`). Worlds are small; a scheduler places the
Pods one after the other, evicted ones come again, until nothing changes any more.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, note
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.properties import length
from tests.queues import queue, queues_profile
from tests.tenants.rules import CPU, Asked, Tenant, World

from bayplan.api.pod import Pod
from bayplan.framework.turns import keeps_room
from bayplan.queue.queued_pod import QueuedPod
from bayplan.testing import PodBuilder, make_node, make_pod

GPU = "example.com/gpu"
MILLI = 1000
AMOUNTS = st.fixed_dictionaries(
    {CPU: st.sampled_from([1, 1, 2, 3])}, optional={GPU: st.sampled_from([1, 2, 4])}
)


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
        )
        for name in names
    }
    return st.fixed_dictionaries(one).map(lambda some: list(some.values()))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to three nodes, up to four queues, up to ten Pods."""
    nodes = {
        f"n{i}": {CPU: draw(st.integers(3, 6)), GPU: draw(st.sampled_from([0, 4, 8]))}
        for i in range(draw(st.integers(1, 3)))
    }
    some = draw(tenants("abcd"[: draw(st.integers(2, 4))], ("left", "right")))
    used = {tenant.parent for tenant in some} - {""}
    some += [Tenant(name, weight=draw(st.integers(1, 2))) for name in sorted(used)]
    some = [tenant if tenant.reclaimable else _closed(tenant) for tenant in some]
    leaves = [tenant.name for tenant in some if tenant.name not in used]
    pods = [
        Asked(
            f"p{i}",
            draw(st.sampled_from(leaves)),
            draw(AMOUNTS),
            draw(st.sampled_from([0, 0, 0, 5])),
        )
        for i in range(draw(st.integers(2, 10)))
    ]
    return World(nodes, some, pods)


def _closed(tenant: Tenant) -> Tenant:
    """What is not reclaimable borrows nothing of what it is guaranteed."""
    limits = {r: min(a, tenant.limit.get(r, a)) for r, a in tenant.guaranteed.items()}
    return replace(tenant, limit={**tenant.limit, **limits})


class Played:
    """A scheduler in the world; what it does is told to the rules.

    Args:
        world: without Pods that run.
        at_once: as many Pods come together.
    """

    def __init__(self, world: World, at_once: int) -> None:
        self.world, self.at_once = world, at_once
        self.cluster = Cluster(profiles=[queues_profile()])
        self.cluster.writer.on_bound = self.start
        self.builders: dict[str, PodBuilder] = {}
        self.started = 0
        self.nodes = {
            name: make_node(name).capacity(amounts, memory="64Gi", pods=110)
            for name, amounts in world.nodes.items()
        }
        self.cluster.add(*self.nodes.values())
        for tenant in world.tenants.values():
            namespace = "" if world.children(tenant.name) else f"of-{tenant.name}"
            self.cluster.add(
                queue(
                    tenant.name,
                    namespace,
                    parent=tenant.parent,
                    guaranteed=tenant.guaranteed,
                    limit=tenant.limit,
                    weight=tenant.weight,
                    priority=tenant.priority,
                    reclaimable=tenant.reclaimable,
                )
            )
        self.evictions = 0
        self._milli()

    def _milli(self) -> None:
        """The judge counts as the scheduler does."""

        def milli(amounts: object) -> dict[str, int]:
            return {r: a * MILLI if r == CPU else a for r, a in dict(amounts).items()}  # type: ignore[call-overload]

        world = self.world
        world.nodes = {name: milli(amounts) for name, amounts in world.nodes.items()}
        world.tenants = {
            name: replace(t, guaranteed=milli(t.guaranteed), limit=milli(t.limit))
            for name, t in world.tenants.items()
        }
        world.pods = {n: replace(p, requests=milli(p.requests)) for n, p in world.pods.items()}

    def build(self, pod: Asked) -> PodBuilder:
        """The Pod as an object."""
        amounts = {r: f"{a}m" if r == CPU else str(a) for r, a in pod.requests.items()}
        made = make_pod(pod.name).namespace(f"of-{pod.tenant}").req(amounts)
        self.builders[pod.name] = made.spec(priority=pod.priority) if pod.priority else made
        return self.builders[pod.name]

    def start(self, pod: Pod, node: str) -> None:
        """The Pod starts as soon as it is bound, each a second after the one before."""
        self.started += 1
        minutes, seconds = divmod(self.started, 60)
        time = f"2026-01-01T00:{minutes:02}:{seconds:02}Z"
        self.cluster.add(self.builders[pod.name].node(node).start_time(time))

    def cordon(self, name: str) -> None:
        """The node takes no new Pods any more."""
        self.world.closed.add(name)
        self.cluster.add(self.nodes[name].unschedulable())

    def play(self, before_cordon: int | None = None) -> None:
        """Until nothing changes: each cycle is judged, and evicted Pods come again.

        Args:
            before_cordon: after so many rounds the first node takes no new Pods; None for never.
        """
        world, cluster = self.world, self.cluster
        late = list(world.pods.values())
        world.pods = {}
        made, quiet, rounds = len(late), 0, 0
        while late or quiet < 5:
            if rounds == before_cordon:
                self.cordon("n0")
            rounds += 1
            if quiet % 2 == 0:
                for pod in late[: self.at_once]:
                    world.pods[pod.name] = pod
                    cluster.add(self.build(pod))
                late = late[self.at_once :]
            while (queued := cluster.queue.pop()) is not None:
                for name in self.judged(queued):
                    quiet, made = 0, made + 1
                    again = replace(world.pods.pop(name), name=f"p{made}")
                    world.pods[again.name] = again
                    cluster.add(self.build(again))
            cluster.wait(11)
            quiet += 1

    def judged(self, queued: QueuedPod) -> list[str]:
        """Let the Pod be tried, and return who is evicted for it."""
        world, cluster = self.world, self.cluster
        of, before = world.divided(), len(cluster.writer.deleted)
        held = self.nominated(but=queued.pod)
        cluster.scheduler.schedule_one(queued)
        gone = cluster.writer.deleted[before:]
        if gone:
            note(f"{queued.pod.name} evicts {gone}; {world.running}")
            self.evictions += len(gone)
            assert self.evictions < 60, "they do not end"
            pod = world.pods[queued.pod.name]
            world.running |= held
            assert not world.fits(pod), "there was room"
            assert world.may_evict(pod, gone, of), "they may not go"
            assert world.fits(pod, gone), "it does not help"
            for one in gone:
                assert not world.fits(pod, set(gone) - {one}), f"{one} goes for nothing"
            for name in held:
                del world.running[name]
        cluster.take_in()
        now = {pod.name: pod.node_name for pod in cluster.cache.pods()}
        for name in world.running.keys() - now.keys():
            del world.running[name]
        for name in now.keys() - world.running.keys():
            world.running[name] = now[name]
        return gone

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

    def nominated(self, but: Pod | None = None) -> dict[str, str]:
        """The nodes of Pods for which room is made, and kept from this one."""
        nominator = self.cluster.world.nominator
        return {
            pod.name: node
            for node in nominator.nominated_nodes()
            for pod in nominator.nominated_pods(node)
            if but is None
            or (pod.uid != but.uid and keeps_room(pod, but, self.cluster.framework.services.turns))
        }


@length(40)
@given(worlds(), st.sampled_from([1, 3, 100]), st.sampled_from([None, None, 0, 2, 4]))
def test_every_eviction_is_allowed_and_helps_and_they_end(
    world: World, at_once: int, before_cordon: int | None
) -> None:
    played = Played(world, at_once)
    played.play(before_cordon)
    assert not played.nominated()
    of = world.divided()
    assert played.shares() == of.whole
    for pod in world.waiting():
        assert not world.fits(pod), f"{pod.name} has room"
        if any(world.claims(pod, link, of) for link in world.chain(pod.tenant)):
            assert not world.sets(pod), f"{pod.name} is guaranteed what it waits for"
