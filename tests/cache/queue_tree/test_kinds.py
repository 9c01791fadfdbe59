"""Kinds of nodes: whose nodes are whose, what Pods count for on them, and what shares they give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.properties import length
from tests.queues import demand, node_kind, pod, queue, queue_cluster, share, used

from bayplan.api.kinds import NODE_KIND
from bayplan.api.queues import NodeKind
from bayplan.testing import Builder, NodeBuilder, make_node, make_object

ON_FAST = "cpu@fast"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, cpu: str = "8", **labels: str) -> NodeBuilder:
    """A node with these labels."""
    return make_node(name).capacity(cpu=cpu, memory="64Gi", pods=110).labels(labels)


def kinds(*amounts: tuple[str, dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """The fields of a Queue about kinds of nodes."""
    return {"nodeKinds": [{"name": name, **its} for name, its in amounts], **spec}


FAST_FIRST = kinds(("fast", {"guaranteed": {"cpu": 2}}), ("slow", {"limit": {"cpu": 5}}))


def fast_and_slow(*queues: object) -> Cluster:
    """A fast node of 4 CPUs, a slow one of 8, and one of no kind."""
    cluster = queue_cluster()
    cluster.add(node_kind("fast", tier="fast"), node_kind("slow", tier="slow"))
    cluster.add(node("f", "4", tier="fast"), node("s", tier="slow"), node("o"))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def only(name: str) -> dict[str, Any]:
    """A node selector for one node."""
    named = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [named]}]}


def told(cluster: Cluster) -> set[tuple[str, str, str]]:
    """Object, reason and message of each fault."""
    return {(f.regarding.name, f.reason, f.message) for f in cluster.world.queues.known_faults}


def test_where_a_kind_is_divided_by_itself_a_pod_is_demand_wherever_it_may_go() -> None:
    """So nobody's share of the kind moves when the Pod is placed elsewhere."""
    cluster = fast_and_slow(
        queue("a", "x", **kinds(("slow", {}), ("fast", {"weight": 3}))), queue("b", "y")
    )
    cluster.add(pod("small", "x", "3"), pod("big", "x", "5"), pod("other", "y", "4"))
    for _ in range(2):
        assert [demand(cluster, name, ON_FAST) for name in "ab"] == [3000, 4000]
        assert [share(cluster, name, ON_FAST) for name in "ab"] == [3000, 1000]
        assert demand(cluster, "a") == 8000
        cluster.run()
    assert used(cluster, "a", ON_FAST) == used(cluster, "b", ON_FAST) == 0
    resources = cluster.world.queues.structure.resources
    assert resources == ("cpu", "memory", "cpu@fast", "memory@fast")


def test_a_weight_of_a_kind_that_cannot_be_counts_as_one() -> None:
    cluster = fast_and_slow(queue("a", "x", weight=7, **kinds(("fast", {"weight": -1}))))
    text = "spec.nodeKinds[fast].weight: -1 is not from 0 to 1000000; it counts as 1"
    assert ("a", "InvalidAmount", text) in told(cluster)
    assert cluster.world.queues.structure.weights.tolist() == [[7, 7, 1, 1]]


def test_a_pod_counts_for_the_kind_of_its_node_and_before_that_for_the_first_it_may_have() -> None:
    cluster = fast_and_slow(queue("a", "x", **FAST_FIRST))
    cluster.add(pod("small", "x", "3"), pod("big", "x", "5"))
    amounts = [demand(cluster, "a", name) for name in ("cpu", ON_FAST, "cpu@slow")]
    assert amounts == [8000, 3000, 5000]  # no fast node is large enough for the big one
    assert share(cluster, "a", ON_FAST) == 3000
    cluster.run()
    assert [used(cluster, "a", name) for name in ("cpu", ON_FAST, "cpu@slow")] == amounts


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {"tier": "slow"}}, id="node selector"),
        pytest.param({"affinity": {"nodeAffinity": {REQUIRED: only("s")}}}, id="affinity"),
    ],
)
def test_what_a_pod_cannot_have_it_does_not_ask_for(spec: dict[str, Any]) -> None:
    cluster = fast_and_slow(queue("a", "x", **FAST_FIRST))
    cluster.add(pod("p", "x", "3").spec(**spec))
    assert (demand(cluster, "a", ON_FAST), demand(cluster, "a", "cpu@slow")) == (0, 3000)


def test_a_taint_sends_the_demand_elsewhere_until_it_is_gone() -> None:
    cluster = fast_and_slow(queue("a", "x", **FAST_FIRST))
    cluster.add(node("f", "4", tier="fast").taint("k", "v", "NoSchedule"))
    cluster.add(pod("p", "x", "3"))
    assert (demand(cluster, "a", ON_FAST), demand(cluster, "a", "cpu@slow")) == (0, 3000)
    cluster.add(node("f", "4", tier="fast"))
    assert (demand(cluster, "a", ON_FAST), demand(cluster, "a", "cpu@slow")) == (3000, 0)
    assert cluster.world.queues.recount() == {}


def test_nodes_that_become_another_kind_take_their_pods_with_them() -> None:
    cluster = fast_and_slow(queue("a", "x", **FAST_FIRST))
    cluster.add(pod("p", "x", "3"))
    cluster.run()
    assert used(cluster, "a", ON_FAST) == 3000
    cluster.add(node("f", "4", tier="slow"))
    assert (used(cluster, "a", ON_FAST), used(cluster, "a", "cpu@slow")) == (0, 3000)
    cluster.remove(node("f", "4", tier="slow"))
    assert (used(cluster, "a"), used(cluster, "a", "cpu@slow")) == (3000, 0)
    cluster.add(node("f", "4", tier="fast"))
    assert used(cluster, "a", ON_FAST) == 3000
    cluster.remove(node_kind("fast", tier="fast"))
    assert used(cluster, "a") == 3000
    assert ON_FAST not in cluster.world.queues.structure.resources


def test_each_kind_is_divided_by_itself() -> None:
    half = kinds(("fast", {"limit": {"cpu": 100}}))
    cluster = fast_and_slow(queue("a", "x", **half), queue("b", "y", **half, weight=3))
    for namespace in "xy":
        cluster.add(*(pod(f"{namespace}{i}", namespace) for i in range(4)))
    assert [share(cluster, name, ON_FAST) for name in "ab"] == [1000, 3000]
    assert [share(cluster, name) for name in "ab"] == [4000, 4000]


def test_a_share_is_at_least_what_is_guaranteed_on_kinds() -> None:
    cluster = fast_and_slow(queue("a", "x", **FAST_FIRST, weight=0), queue("b", "y"))
    cluster.add(*(pod(f"a{i}", "x") for i in range(3)), *(pod(f"b{i}", "y") for i in range(30)))
    assert [share(cluster, name) for name in "ab"] == [2000, 18000]


# Whose nodes


def test_the_more_precise_kind_has_the_node_and_of_equals_the_older() -> None:
    named = kinds(("fast", {"limit": {"cpu": 1}}), ("new", {}), ("b", {}))
    cluster = queue_cluster()
    cluster.add(
        node_kind("fast", tier="fast", created=1),
        node_kind("new", tier="fast", age="new", created=2),
        node_kind("b", tier="fast", created=3),
        queue("a", "x", **named),
    )
    cluster.add(node("n1", tier="fast"), node("n2", tier="fast", age="new"))
    tree = cluster.world.queues
    assert [tree.kinds.names[tree.kinds.of(name)] for name in ("n1", "n2")] == ["fast", "new"]
    text = "spec.nodeSelector: nodes that it selects are of the kind fast"
    assert told(cluster) == {("b", "NodesTaken", text)}


@pytest.mark.parametrize(
    ("kind", "reason", "message"),
    [
        pytest.param(node_kind("k", tier="none"), "NoNodes", "no node is of this kind", id="none"),
        pytest.param(make_object(NODE_KIND, "k").uid("k"), "NoNodes", "no node", id="empty"),
        pytest.param(
            make_object(NODE_KIND, "k")
            .uid("k")
            .spec(nodeSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
            "InvalidSelector",
            '"Like" is not a valid label selector operator',
            id="operator",
        ),
    ],
)
def test_a_kind_that_is_wrong_is_told(kind: Builder[NodeKind], reason: str, message: str) -> None:
    cluster = queue_cluster()
    cluster.add(node("n"), queue("a", "x"), kind)
    ((name, its_reason, text),) = told(cluster)
    assert (name, its_reason) == ("k", reason)
    assert text.startswith("spec.nodeSelector: ")
    assert message in text


def test_a_kind_is_wrong_no_more_when_it_has_a_node() -> None:
    cluster = queue_cluster()
    cluster.add(node("n"), queue("a", "x"), node_kind("k", tier="fast"))
    assert len(told(cluster)) == 1
    cluster.add(node("m", tier="fast"))
    assert told(cluster) == set()


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param(
            kinds(("no", {})), "UnknownNodeKind", "spec.nodeKinds: no is no NodeKind", id="unknown"
        ),
        pytest.param(
            kinds(("fast", {}), ("fast", {})),
            "UnknownNodeKind",
            "spec.nodeKinds: fast is named twice",
            id="twice",
        ),
        pytest.param(
            kinds(("fast", {"guaranteed": {"cpu": 3}, "limit": {"cpu": 2}})),
            "GuaranteedAboveLimit",
            "spec.nodeKinds[fast].guaranteed.cpu: 3 is more than the limit: 2",
            id="above limit",
        ),
        pytest.param(
            kinds(("fast", {"guaranteed": {"cpu": 3}}), guaranteed={"cpu": 2}),
            "GuaranteedToKinds",
            "spec.guaranteed.cpu: 2 is less than what is guaranteed on nodes of all kinds: 3",
            id="more on kinds",
        ),
        pytest.param(
            kinds(("fast", {"limit": {"cpu": "x"}})),
            "InvalidAmount",
            "spec.nodeKinds[fast].limit.cpu: 'x' is not a quantity (examples: 500m, 2, 1.5Gi, 1e3)",
            id="amount",
        ),
    ],
)
def test_a_queue_that_is_wrong_about_kinds_is_told(
    spec: dict[str, Any], reason: str, message: str
) -> None:
    cluster = fast_and_slow(queue("a", "x", **spec))
    assert told(cluster) == {("a", reason, message)}


# From scratch

LABELS = st.sampled_from([{}, {"tier": "fast"}, {"tier": "slow"}, {"tier": "fast", "age": "new"}])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(["n0", "n1"]), LABELS),
        st.tuples(st.just("cordon"), st.sampled_from(["n0", "n1"]), st.booleans()),
        st.tuples(st.just("gone"), st.sampled_from(["n0", "n1"]), st.just(0)),
        st.tuples(st.just("pod"), st.sampled_from("xy"), st.sampled_from(["", "fast", "slow"])),
        st.tuples(st.just("end"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("run"), st.just(0), st.just(0)),
        st.tuples(st.just("kind"), st.sampled_from(["fast", "new"]), st.booleans()),
    ),
    max_size=14,
)


@length(60)
@given(STEPS)
def test_the_sums_equal_a_count_from_scratch_whatever_nodes_and_kinds_do(steps: Any) -> None:
    cluster = queue_cluster()
    cluster.writer.on_bound = cluster._show_bound
    objects = {"fast": node_kind("fast", tier="fast")}
    objects["new"] = node_kind("new", tier="fast", age="new")
    cluster.add(*objects.values())
    spec = kinds(("fast", {"limit": {"cpu": 3}}), ("new", {"guaranteed": {"cpu": 1}}))
    cluster.add(queue("a", "x", **spec), queue("b", "y"))
    nodes: dict[str, NodeBuilder] = {}
    made: list[Any] = []
    for step, what, how in steps:
        if step == "node":
            nodes[what] = node(what, "4", **how)
            cluster.add(nodes[what])
        elif step == "cordon" and what in nodes:
            cluster.add(nodes[what].spec(unschedulable=how))
        elif step == "gone" and what in nodes:
            cluster.remove(nodes.pop(what))
        elif step == "pod":
            one = pod(f"p{len(made)}", what)
            made.append(one.spec(nodeSelector={"tier": how}) if how else one)
            cluster.add(made[-1])
        elif step == "end" and what < len(made) and made[what] is not None:
            cluster.remove(made[what])
            made[what] = None
        elif step == "kind":
            (cluster.add if how else cluster.remove)(objects[what])
        elif step == "run":
            cluster.wait(11)
            cluster.run()
        assert cluster.world.queues.recount() == {}
