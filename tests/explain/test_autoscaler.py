"""Why no node is added for a Pod: the first cause that holds."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.api.scheduling import CONSUMES_REQUEST
from bayplan.app.exposition import expose_blind_pods
from bayplan.explain.autoscaler import NodePools
from bayplan.explain.why import Why
from bayplan.framework import Status
from bayplan.telemetry.metrics import Metrics
from bayplan.testing import make_node, make_pod


def cause(cluster: Cluster, name: str, *, names: bool = True) -> dict[str, Any]:
    core = cluster.core
    who = Why(core.world, core.profiles, core.placers, core.records, names=names)
    answer = who.of_pod("default", name)
    assert answer is not None
    told: dict[str, Any] = answer.get("autoscaler", {})
    return told


def cluster_of(*plugins: Any) -> Cluster:
    cluster = Cluster(*plugins)
    for name in ("n1", "n2"):
        cluster.add(make_node(name).capacity(cpu="4", memory="8Gi", pods=10))
    return cluster


REFUSES = scripted("Refuses", filter=Status.unschedulable("node(s) were refused"))


def test_1_a_pod_that_is_held_back_does_not_ask_for_a_node() -> None:
    cluster = cluster_of()
    cluster.add(make_pod("gated").gate("example.com/later"))
    told = cause(cluster, "gated")
    assert told["cause"] == 1
    assert "none yet" in told["text"]
    cluster.add(
        make_pod("waits")
        .req(cpu="9")
        .condition("PodScheduled", "False", reason="WaitingForMembers")
    )
    assert "WaitingForMembers" in cause(cluster, "waits")["text"]


def test_2_a_nominated_pod_waits_for_others_to_leave() -> None:
    cluster = cluster_of()
    cluster.add(*(make_pod(f"low-{n}").req(cpu="4").node(n) for n in ("n1", "n2")))
    cluster.writer.on_deleted = None
    cluster.add(make_pod("high").req(cpu="4").priority(9))
    cluster.run()
    told = cause(cluster, "high")
    assert told["cause"] == 2
    assert told["text"].startswith("it is nominated to n")
    assert "nominated to a node" in cause(cluster, "high", names=False)["text"]


def test_3_nodes_are_not_added_for_expendable_pods() -> None:
    cluster = cluster_of()
    cluster.add(make_pod("low").req(cpu="9").priority(-11))
    cluster.run()
    assert cause(cluster, "low")["cause"] == 3


def test_4_autoscalers_do_not_know_the_filter_that_alone_rejects() -> None:
    cluster = cluster_of(REFUSES)
    cluster.add(make_pod("p").req(cpu="1"), make_pod("large").req(cpu="9"))
    cluster.run()
    told = cause(cluster, "p")
    assert (told["cause"], told["plugins"], told["nodes"]) == (4, ["Refuses"], 2)
    assert "believe that it fits on n1" in told["text"]
    assert "n1" not in cause(cluster, "p", names=False)["text"]
    assert cause(cluster, "large")["cause"] == 5
    metrics = Metrics()
    expose_blind_pods(metrics, cluster.core)
    lines = metrics.render().decode().splitlines()
    assert 'bayplan_autoscaler_blind_pods{plugin="Refuses"} 1.0' in lines


def test_5_no_node_that_is_there_could_ever_hold_it() -> None:
    cluster = cluster_of()
    cluster.add(make_pod("huge").req(cpu="9"))
    cluster.run()
    told = cause(cluster, "huge")
    assert told["cause"] == 5
    assert told["text"].endswith("it needs 9 cpu, the largest has 4")


def test_a_pod_for_which_only_room_is_missing_has_no_cause_and_nothing_is_changed() -> None:
    cluster = cluster_of()
    cluster.add(*(make_pod(f"full-{n}").req(cpu="4").node(n) for n in ("n1", "n2")))
    cluster.add(make_pod("p").req(cpu="2"))
    cluster.run()
    assert cause(cluster, "p") == {}
    assert cluster.nodes.requested("cpu").sum() == 8000


def test_pods_of_daemon_sets_are_on_a_new_node_too() -> None:
    cluster = cluster_of()
    for name in ("n1", "n2"):
        agent = make_pod(f"agent-{name}").req(cpu="2").node(name).owner("DaemonSet", "a")
        cluster.add(agent)
    cluster.add(make_pod("p").req(cpu="3"))
    cluster.run()
    assert cause(cluster, "p")["cause"] == 5


NODE_NAMES = st.sampled_from(["n1", "n2", "n3", "n4"])
NODE_STEPS = st.lists(
    st.tuples(NODE_NAMES, st.sampled_from(["a", "b", ""]), st.integers(1, 2), st.booleans()),
    max_size=15,
)


def test_9_a_pod_whose_group_asks_by_a_request_gets_no_node_alone() -> None:
    cluster = cluster_of()
    cluster.add(*(make_pod(f"full-{n}").req(cpu="4").node(n) for n in ("n1", "n2")))
    named = make_pod("p").req(cpu="4").annotation(CONSUMES_REQUEST, "train-1")
    cluster.add(named)
    cluster.run()
    told = cause(cluster, "p")
    assert (told["cause"], told["request"]) == (9, "train-1")


@given(NODE_STEPS)
def test_pools_are_those_of_a_look_at_all_nodes(
    steps: list[tuple[str, str, int, bool]],
) -> None:
    """Nodes come, change and go: who is alike stays known."""
    cluster = Cluster()
    kept = cluster.nodes.ensure_column(NodePools)
    for name, zone, cpu, is_there in steps:
        node = make_node(name).capacity(cpu=str(cpu), pods=10).label("kubernetes.io/hostname", name)
        if zone:
            node = node.label("zone", zone)
        if is_there:
            cluster.add(node)
        elif cluster.nodes.row(name) is not None:
            cluster.remove(node)
    fresh = NodePools()
    fresh.grow(len(cluster.nodes))
    for info in cluster.nodes:
        fresh.set_node(info.row, info.node, None)
    there = cluster.nodes.exists
    assert kept.values[there].tolist() == fresh.values[there].tolist()
    alike = {
        (info.node.labels.get("zone"), info.node.status.allocatable["cpu"])
        for info in cluster.nodes
    }
    assert len(set(kept.values[there].tolist())) == len(alike)
