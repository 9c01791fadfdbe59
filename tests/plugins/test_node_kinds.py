"""Kinds of nodes: their order, their limits, and queues that are bound to some of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.properties import length
from tests.queues import demand, node_kind, pod, pods, queue, queue_cluster, share, used

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.inbox.messages import Changed
from bayplan.queue.states import QueueState
from bayplan.testing import NodeBuilder, make_node

TIERS = {"f": "fast", "s": "slow", "o": ""}
LIMITED = "limit of cpu on fast nodes of queue a is 2: 2 used, 1 requested"


def node(name: str, cpu: str = "4") -> NodeBuilder:
    """The node: its first letter says of which kind."""
    builder = make_node(name).capacity(cpu=cpu, memory="64Gi", pods=110)
    tier = TIERS[name[0]]
    return builder.labels({"tier": tier}) if tier else builder


def named(*kinds: str, policy: str = "Preferred", **limits: int) -> dict[str, Any]:
    """The fields of a Queue that names these kinds, with limits for CPUs."""
    its = [
        {"name": kind, "limit": {"cpu": limits[kind]}} if kind in limits else {"name": kind}
        for kind in kinds
    ]
    return {"nodeKinds": its, "nodeKindPolicy": policy}


def cluster_of(*nodes: str, plugins: tuple[str, ...] = (), **spec: Any) -> Cluster:
    """These nodes, and a queue of that spec."""
    cluster = queue_cluster(*plugins)
    cluster.writer.on_bound = cluster._show_bound
    cluster.add(node_kind("fast", tier="fast"), node_kind("slow", tier="slow"))
    cluster.add(*map(node, nodes), queue("a", "x", **spec))
    return cluster


def placed(cluster: Cluster) -> dict[str, str]:
    """Node by name of each Pod."""
    return {one.name: one.node_name for one in cluster.cache.pods()}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param(("fast", "slow"), "fffff sss", id="fast first"),
        pytest.param(("slow", "fast"), "sssss fff", id="slow first"),
        pytest.param(("slow",), "sssss", id="slow alone"),
    ],
)
def test_pods_go_to_the_kinds_in_the_order_of_their_queue(
    order: tuple[str, ...], expected: str
) -> None:
    """Whatever other plugins would like, and however full the nodes are."""
    cluster = cluster_of("f", "s", "o", **named(*order))
    for name in ("f", "s", "o"):
        cluster.add(node(name, "5"))
    cluster.add(*pods("p", 8, "x"))
    cluster.run()
    nodes = "".join(name for _, name in cluster.bound)
    assert nodes.startswith(expected.replace(" ", ""))


def test_above_the_limit_of_a_kind_pods_go_to_the_next_one() -> None:
    cluster = cluster_of("f", "s", "o", **named("fast", "slow", fast=2, slow=1))
    cluster.add(*pods("p", 5, "x"))
    cluster.run()
    assert [name for _, name in cluster.bound] == ["f", "f", "s", "o", "o"]


def test_where_nothing_else_is_left_the_limit_is_said_of_the_nodes() -> None:
    cluster = cluster_of("f", "s", **named("fast", fast=2))
    cluster.add(pod("full", "y", "4").node("s"))
    cluster.add(*pods("p", 3, "x"))
    cluster.run()
    reason, text = cluster.verdict
    assert reason == "Unschedulable"
    assert f"1 node(s) beyond the {LIMITED}" in text
    assert "1 Insufficient cpu" in text


@pytest.mark.parametrize("how", ["policy", "selector"])
def test_a_pod_that_may_go_to_kinds_at_their_limits_only_is_held_by_these(how: str) -> None:
    policy = "Required" if how == "policy" else "Preferred"
    cluster = cluster_of("f", "s", **named("fast", policy=policy, fast=2))
    first, *others = pods("p", 4, "x")
    for one in (first, *others):
        if how == "selector":
            one.spec(nodeSelector={"tier": "fast"})
    cluster.add(first, *others)
    cluster.run()
    assert cluster.verdict == ("QueueLimit", LIMITED)
    assert used(cluster, "a") == 2000

    # As many are woken as fit.
    written = len(cluster.recorder.conditions)
    cluster.remove(first)
    cluster.wait(11)
    cluster.run()
    assert used(cluster, "a") == 2000
    assert len(cluster.bound) == 3
    assert len(cluster.recorder.conditions) == written


def test_a_pod_elsewhere_wakes_nobody_that_the_limit_of_a_kind_holds() -> None:
    cluster = cluster_of("f", "s", **named("fast", policy="Required", fast=1))
    other = pod("other", "y").node("f")
    cluster.add(other, *(made := pods("p", 2, "x")))
    cluster.run()
    assert cluster.state(made[1]) is QueueState.UNSCHEDULABLE
    cluster.remove(other)
    assert cluster.state(made[1]) is QueueState.UNSCHEDULABLE
    cluster.remove(made[0])
    cluster.wait(11)
    cluster.run()
    assert placed(cluster) == {"p-1": "f"}


def test_a_bound_queue_waits_for_its_kind() -> None:
    cluster = cluster_of("o", "s", **named("fast", policy="Required"))
    cluster.add(waiting := pod("p", "x"))
    cluster.run()
    text = "0/2 nodes are available: 2 node(s) were of no kind that queue a uses."
    assert cluster.verdict[1].startswith(text)
    cluster.add(node("s2"))
    assert cluster.state(waiting) is QueueState.UNSCHEDULABLE
    cluster.add(node("f"))
    cluster.wait(11)
    cluster.run()
    assert placed(cluster) == {"p": "f"}


def test_what_waits_for_kinds_without_large_enough_nodes_is_no_demand() -> None:
    """Or beyond the limit of a kind; shares never depend on demand that can never run."""
    cluster = cluster_of("o", "s", **named("fast", policy="Required", fast=2))
    cluster.add(pod("p", "x", "2"), pod("large", "x", "3"))
    assert demand(cluster, "a") == 0
    cluster.add(node("f"))
    assert demand(cluster, "a") == 2000
    cluster.add(node("f", "1"))
    assert demand(cluster, "a") == 0


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        pytest.param(named("slow"), {}, "s", id="the order of the parent"),
        pytest.param(named("slow"), named("fast"), "f", id="its own order first"),
        pytest.param(named("slow", policy="Required"), named("fast"), "s", id="bound by parent"),
        pytest.param(
            named("slow", policy="Required"), named("fast", policy="Required"), "", id="by both"
        ),
        pytest.param({}, named("no", policy="Required"), "", id="to a kind that there is not"),
    ],
)
def test_a_queue_without_kinds_goes_by_its_parent_and_is_bound_by_all(
    above: dict[str, Any], below: dict[str, Any], expected: str
) -> None:
    cluster = queue_cluster()
    cluster.add(node_kind("fast", tier="fast"), node_kind("slow", tier="slow"))
    cluster.add(*map(node, "fso"), queue("all", **above), queue("a", "x", parent="all", **below))
    cluster.add(pod("p", "x"))
    cluster.run()
    assert "".join(name for _, name in cluster.bound) == expected


def test_the_limit_of_a_parent_counts_all_below() -> None:
    cluster = queue_cluster()
    cluster.add(node_kind("fast", tier="fast"), node("f"), node("o"))
    cluster.add(queue("all", **named("fast", fast=2)))
    cluster.add(queue("a", "x", parent="all"), queue("b", "y", parent="all"))
    for name, namespace in (("p", "x"), ("q", "y"), ("r", "x")):
        cluster.add(pod(name, namespace))
        cluster.run()
    assert [name for _, name in cluster.bound] == ["f", "f", "o"]


def test_nominated_pods_count_for_the_kind_of_their_node() -> None:
    cluster = cluster_of("f", "s", **named("fast", fast=2))
    cluster.add(pod("low", "x", "4").node("f"), pod("rest", "y", "4").node("s"))
    spec = {"nominatedNodeName": "f"}
    cluster.add(pod("kept", "x", "2", priority=5).status(**spec).gate("g"))
    cluster.add(pod("p", "x"))
    cluster.run()
    assert "p" not in placed(cluster)


@pytest.mark.parametrize("bound", [True, False])
def test_a_group_fits_within_the_limit_of_the_only_kind_that_it_may_have(bound: bool) -> None:
    policy = "Required" if bound else "Preferred"
    cluster = cluster_of(
        "f", "s", plugins=("Coscheduling",), **named("fast", policy=policy, fast=2)
    )
    cluster.add(pod_group("g", minMember=3).namespace("x"))
    cluster.add(*(one.namespace("x") for one in members("g", 3)))
    cluster.run()
    if bound:
        assert placed(cluster) == {}
        assert cluster.verdict[0] == "QueueLimit"
        assert "limit of cpu on fast nodes of queue a is 2: 0 used, 3 requested" in str(
            cluster.notes
        )
    else:
        assert sorted(placed(cluster).values()) == ["f", "f", "s"]


# Reclaim


def guaranteed(kind: str, cpu: int, **limit: int) -> dict[str, Any]:
    """The fields of a Queue that is guaranteed CPUs on nodes of a kind."""
    its = {"name": kind, "guaranteed": {"cpu": cpu}, "limit": limit}
    return {"nodeKinds": [its]}


def lent(*queues: object, plugins: tuple[str, ...] = ()) -> Cluster:
    """A fast node and a slow one of 4 CPUs, full of Pods of y: the older ones are on the fast."""
    cluster = cluster_of("f", "s", plugins=plugins, weight=0, **guaranteed("fast", 2))
    cluster.add(*queues)  # type: ignore[arg-type]
    for i, name in enumerate("ffffssss"):
        running = pod(f"b{i}", "y").node(name).start_time(f"2026-01-01T00:00:{i:02}Z")
        cluster.add(running.phase("Running"))
    return cluster


def evicted(cluster: Cluster) -> list[str]:
    """Those that were evicted so far."""
    return cluster.writer.deleted


def test_what_is_guaranteed_on_a_kind_is_claimed_there_and_no_further() -> None:
    cluster = lent(queue("b", "y"))
    cluster.add(*pods("p", 3, "x"))
    for _ in range(4):
        cluster.wait(11)
        cluster.run()
    assert evicted(cluster) == ["b3", "b2"]
    assert placed(cluster)["p-0"] == placed(cluster)["p-1"] == "f"
    assert "p-2" not in placed(cluster)


def test_what_is_guaranteed_on_a_kind_is_claimed_nowhere_else() -> None:
    cluster = lent(queue("b", "y"))
    cluster.add(pod("p", "x").spec(nodeSelector={"tier": "slow"}))
    cluster.settle(4)
    assert evicted(cluster) == []
    assert "p" not in placed(cluster)


def test_what_is_guaranteed_on_a_kind_is_kept_there_and_nowhere_else() -> None:
    """The youngest of x are on the fast node, where what is guaranteed covers them."""
    cluster = cluster_of("f", "s", **guaranteed("fast", 2))
    cluster.add(queue("b", "y", guaranteed={"cpu": 8}))
    for i, name in enumerate("ssssff"):
        running = pod(f"a{i}", "x").node(name).start_time(f"2026-01-01T00:00:{i:02}Z")
        cluster.add(running.phase("Running"))
    cluster.add(pod("rest", "y", "2").node("f"))
    cluster.add(*pods("p", 6, "y"))
    for _ in range(6):
        cluster.wait(11)
        cluster.run()
    assert sorted(evicted(cluster)) == ["a0", "a1", "a2", "a3"]


def test_the_limit_of_a_kind_is_made_room_under_on_its_nodes() -> None:
    cluster = cluster_of("f", "s", **named("fast", fast=2))
    for i, name in enumerate("fsf"):
        running = pod(f"low{i}", "x").node(name).start_time(f"2026-01-01T00:00:{i:02}Z")
        cluster.add(running.phase("Running"))
    urgent = pod("urgent", "x", priority=5).spec(nodeSelector={"tier": "fast"})
    cluster.add(urgent)
    cluster.settle(4)
    assert evicted(cluster) == ["low2"]
    assert placed(cluster)["urgent"] == "f"


def test_a_group_claims_on_a_kind_with_all_its_pods() -> None:
    cluster = lent(queue("b", "y"), plugins=("Coscheduling",))
    cluster.add(pod_group("g", minMember=2).namespace("x"))
    cluster.add(*(one.namespace("x") for one in members("g", 2)))
    cluster.settle(4)
    assert evicted(cluster) == ["b3", "b2"]
    assert [placed(cluster)[f"g-{i}"] for i in range(2)] == ["f", "f"]


def divided(kind: str, weight: int) -> dict[str, Any]:
    """The fields of a Queue that has a weight of its own on nodes of a kind."""
    return {"nodeKinds": [{"name": kind, "weight": weight}]}


WITHOUT_SHARE = {"weight": 0}
"""Of all nodes together."""


@pytest.mark.parametrize(
    ("mine", "others", "taken"),
    [
        pytest.param(WITHOUT_SHARE | divided("fast", 1), {}, 2, id="half of the kind"),
        pytest.param(WITHOUT_SHARE | divided("fast", 3), {}, 3, id="three of four"),
        pytest.param(divided("fast", 3), divided("fast", 3), 2, id="both have a weight there"),
        pytest.param({}, divided("fast", 0), 3, id="the other one takes what is left"),
        pytest.param(divided("fast", 0), {}, 0, id="it takes what is left"),
    ],
)
def test_a_kind_is_divided_by_its_own_weights_and_what_is_above_a_share_goes(
    mine: dict[str, Any], others: dict[str, Any], taken: int
) -> None:
    cluster = lent(queue("a", "x", **mine), queue("b", "y", **others))
    cluster.add(*(one.spec(nodeSelector={"tier": "fast"}) for one in pods("p", 3, "x")))
    cluster.settle(6)
    assert evicted(cluster) == ["b3", "b2", "b1"][:taken]
    assert share(cluster, "a", "cpu@fast") == 1000 * taken
    assert cluster.world.queues.recount() == {}


def test_where_no_kind_is_divided_nothing_is_taken_by_what_queues_use_there() -> None:
    cluster = lent(queue("a", "x", weight=0, **named("fast", fast=4)), queue("b", "y"))
    cluster.add(*(one.spec(nodeSelector={"tier": "fast"}) for one in pods("p", 3, "x")))
    cluster.settle(6)
    assert evicted(cluster) == []


def test_a_share_of_all_nodes_takes_nothing_on_a_kind_that_is_divided() -> None:
    """Queue b has more than its share of all nodes, but no more than its share of fast ones."""
    cluster = lent(queue("a", "x", **divided("fast", 0)), queue("b", "y"))
    cluster.add(*pods("p", 8, "x"))
    cluster.settle(8)
    assert sorted(evicted(cluster)) == ["b4", "b5", "b6", "b7"]
    assert sorted(placed(cluster).values()) == ["f"] * 4 + ["s"] * 4


def test_a_group_for_nodes_of_two_kinds_takes_nothing_by_share() -> None:
    """One of them is divided by itself, so there is no one share to compare."""
    spec = {"guaranteed": {}, **divided("fast", 1)}
    cluster = lent(queue("a", "x", **spec), queue("b", "y"), plugins=("Coscheduling",))
    cluster.add(pod_group("g", minMember=2).namespace("x"))
    for one, tier in zip(members("g", 2), ("fast", "slow"), strict=True):
        cluster.add(one.namespace("x").spec(nodeSelector={"tier": tier}))
    cluster.settle(6)
    assert evicted(cluster) == []


NODES = st.lists(st.sampled_from(["f", "s", "o"]), min_size=1, max_size=4)
ASKED = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["", "fast", "slow"])), min_size=1, max_size=8
)


@length(40)
@given(
    NODES,
    ASKED,
    st.permutations(["fast", "slow"]).flatmap(lambda o: st.integers(1, 2).map(lambda n: o[:n])),
    st.sampled_from(["Preferred", "Required"]),
    st.dictionaries(st.sampled_from(["fast", "slow"]), st.integers(0, 5)),
)
def test_no_limit_of_a_kind_is_exceeded_and_nobody_waits_beside_room(
    letters: list[str], asked: list[Any], order: list[str], policy: str, limits: dict[str, int]
) -> None:
    cluster = cluster_of(**named(*order, policy=policy, **limits))
    nodes = {f"{letter}{i}": 4 for i, letter in enumerate(letters)}
    cluster.add(*map(node, nodes))
    for number, (cpu, tier) in enumerate(asked):
        one = pod(f"p{number}", "x", str(cpu))
        cluster.add(one.spec(nodeSelector={"tier": tier}) if tier else one)
    for _ in range(3):
        cluster.wait(11)
        cluster.run()
    where = placed(cluster)
    on_kind = dict.fromkeys(("fast", "slow", ""), 0)
    for number, (cpu, _) in enumerate(asked):
        if name := where.get(f"p{number}"):
            on_kind[TIERS[name[0]]] += cpu
            nodes[name] -= cpu
    most = {kind: limits.get(kind, 99) if kind in order else 99 for kind in on_kind}
    assert all(on_kind[kind] <= most[kind] for kind in on_kind)
    for number, (cpu, tier) in enumerate(asked):
        if f"p{number}" in where:
            kind = TIERS[where[f"p{number}"][0]]
            assert policy == "Preferred" or kind in order
            continue
        for name, free in nodes.items():
            kind = TIERS[name[0]]
            may = tier in ("", kind) and (policy == "Preferred" or kind in order)
            assert not (may and free >= cpu and on_kind[kind] + cpu <= most[kind]), number


# Reclaim, judged by counting: Pods of one CPU are covered as far as amounts go.

COUNTS = st.integers(0, 2)
PROMISES = st.fixed_dictionaries(
    {"fast": COUNTS, "slow": COUNTS, "all": st.integers(0, 3), "weight": st.integers(0, 2)}
)
ROOM = {"f": 4, "s": 3, "o": 2}


def tenant(name: str, promise: dict[str, int]) -> Any:
    """A queue with these guarantees; it has the Pods of the namespace of its name."""
    on_kinds = [{"name": k, "guaranteed": {"cpu": promise[k]}} for k in ("fast", "slow")]
    spec: dict[str, Any] = {"guaranteed": {"cpu": promise["all"]}, "weight": promise["weight"]}
    return queue(name, name, nodeKinds=on_kinds, **spec)


class Counted:
    """Three queues on a fast, a slow and another node, and a judge who counts.

    Attributes:
        selectors: by name of a Pod, the kind that it may go to alone; "" for any.
        evictions: how many there were.
    """

    def __init__(self, promises: dict[str, dict[str, int]]) -> None:
        self.cluster = queue_cluster()
        self.cluster.writer.on_bound = self.cluster._show_bound
        self.cluster.writer.on_deleted = self._evict
        self.cluster.add(node_kind("fast", tier="fast"), node_kind("slow", tier="slow"))
        self.cluster.add(*(node(name, str(cpu)) for name, cpu in ROOM.items()))
        self.cluster.add(*(tenant(name, promise) for name, promise in promises.items()))
        self.promises, self.selectors, self.evictions = promises, dict[str, str](), 0

    def used(self, owner: str, kind: str = "all") -> int:
        """How many Pods of a queue stay on nodes of a kind, with those that have room there."""
        nominator = self.cluster.world.nominator
        nodes = [p.node_name for p in self.cluster.cache.pods() if self._stays(p, owner)]
        for node in nominator.nominated_nodes():
            nodes += [node for p in nominator.nominated_pods(node) if self._stays(p, owner)]
        return sum(kind in ("all", TIERS[node[0]]) for node in nodes)

    def _stays(self, pod: Pod, owner: str) -> bool:
        return pod.namespace == owner and not pod.deleted

    def come(self, name: str, owner: str, tier: str) -> None:
        """A Pod waits."""
        self.selectors[name] = tier
        one = pod(name, owner)
        self.cluster.add(one.spec(nodeSelector={"tier": tier}) if tier else one)

    def _evict(self, victim: Pod) -> None:
        """All that are evicted together count as gone, and what is left is enough."""
        kind, owner = TIERS[victim.node_name[0]], victim.namespace
        promise = self.promises[owner]
        assert kind == "" or self.used(owner, kind) >= promise[kind], "it was covered there"
        assert self.used(owner) >= promise["all"], "it was covered"
        self.evictions += 1
        assert self.evictions < 60, "they do not end"
        self.cluster._show_deleted(victim)
        again = pod(victim.name, owner).spec(schedulerName=victim.spec.scheduler_name)
        if tier := self.selectors[victim.name]:
            again.spec(nodeSelector={"tier": tier})
        self.cluster.inbox.post(Changed(POD, again.new_version().obj()))


@length(20)
@given(
    st.fixed_dictionaries(dict.fromkeys("abc", PROMISES)),
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["", "", "fast", "slow"])),
        min_size=4,
        max_size=16,
    ),
    st.sampled_from([1, 4, 16]),
)
def test_guarantees_on_kinds_are_kept_and_had_and_evictions_end(
    promises: dict[str, dict[str, int]], arrivals: list[tuple[str, str]], at_once: int
) -> None:
    counted = Counted(promises)
    for first in range(0, len(arrivals), at_once):
        for number, (owner, tier) in enumerate(arrivals[first : first + at_once], first):
            counted.come(f"p{number}", owner, tier)
        for _ in range(4):
            counted.cluster.run()
            counted.cluster.wait(11)
    for _ in range(8):
        counted.cluster.run()
        counted.cluster.wait(11)
    there = {"fast": ROOM["f"], "slow": ROOM["s"]}
    where = placed(counted.cluster)
    for number, (owner, tier) in enumerate(arrivals):
        if f"p{number}" in where:
            continue
        for kind in ("fast", "slow") if not tier else (tier,):
            together = sum(promise[kind] for promise in promises.values())
            # What is guaranteed on all nodes may be held on those of the kind, by right.
            elsewhere = any(p["all"] for name, p in promises.items() if name != owner)
            if together <= there[kind] and not elsewhere:
                assert counted.used(owner, kind) >= promises[owner][kind], (owner, kind)
