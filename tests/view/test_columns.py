"""The cluster as columns: what stands where, and what a change tells a reader."""

from __future__ import annotations

import copy
import time
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.queues import name_space, queue, queue_cluster
from tests.queues import pod as tenant_pod
from tests.view.support import GPU, RACK, ZONE, cluster, patched, updated

from bayplan.api.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.inbox.messages import Changed
from bayplan.testing import PodBuilder, make_node, make_object, make_pod
from bayplan.view import columns
from bayplan.view.columns import Bays
from bayplan.view.table import NONE
from bayplan.view.taken import take


def document(made: Cluster, *args: Any) -> dict[str, Any]:
    bays = Bays(*args)
    updated(bays, made)
    return bays.document()


def tenants(node: str, *names: str) -> Cluster:
    """One node, and a Queue with two CPUs for each namespace."""
    made = queue_cluster()
    made.add(make_node(node).capacity(cpu="8", pods=10))
    for name in names:
        made.add(queue(name, name, guaranteed={"cpu": "2"}))
        name_space(made, name)
    return made


def test_nodes_stand_in_the_order_of_domains_and_then_of_names_as_people_count() -> None:
    made = cluster()
    made.add(make_node("n11").label(ZONE, "b"))
    made.add(make_node("lost"))
    bays = document(made)
    assert bays["nodes"]["name"] == ["n1", "n2", "n10", "n11", "lost"]
    texts = bays["texts"]
    zones = [texts[i] for i in bays["nodes"][f"domain/{ZONE}"]]
    assert zones == ["a", "a", "b", "b", ""]
    bays = document(made, (RACK,))
    assert bays["nodes"]["name"] == ["n1", "n10", "n2", "lost", "n11"]


def test_a_node_has_what_it_offers_what_its_pods_request_its_taints_and_its_price() -> None:
    made = Cluster()
    node = make_node("n1").capacity({GPU: "2"}, cpu="4", memory="8Gi", pods=10)
    node = node.taint("team", "red", "NoSchedule").annotation("bayplan.dev/hourly-price", "0.25")
    made.add(node.unschedulable())
    made.add(make_pod("p").req({GPU: "1"}, cpu="500m").node("n1"))
    bays = document(made)
    row = {name: column[0] for name, column in bays["nodes"].items()}
    assert row["allocatable/cpu"] == 4000
    assert row["requested/cpu"] == 500
    assert row["allocatable/memory"] == 8 * 2**30
    assert (row[f"allocatable/{GPU}"], row[f"requested/{GPU}"]) == (2, 1)
    assert (row["allocatable/pods"], row["requested/pods"]) == (10, 1)
    assert row["price"] == 0.25
    assert row["unschedulable"] == 1
    assert bays["texts"][row["taints"]] == "team=red:NoSchedule"
    [requests] = bays["requests"]
    assert requests == {"cpu": 500, GPU: 1}


def test_pods_that_wait_have_what_was_said_of_them() -> None:
    said = "0/3 nodes are available: 3 Insufficient cpu."
    made = cluster()
    made.add(make_pod("told").condition("PodScheduled", "False", message=said).priority(3))
    made.add(make_pod("grouped").pod_group("train"))
    bays = document(made)
    pending, texts = bays["pending"], bays["texts"]
    told, big, grouped = (
        pending["name"].index(f"{n}") for n in ("default/told", "shop/big", "default/grouped")
    )
    assert texts[pending["message"][told]] == said
    assert pending["priority"][told] == 3
    assert texts[pending["message"][big]] == ""
    assert bays["requests"][pending["requests"][big]]["cpu"] == 5000
    assert texts[pending["group"][grouped]] == "default/train"


def test_what_is_free_is_stranded_where_another_resource_is_used_up() -> None:
    made = Cluster()
    for name in ("full", "half", "crowded"):
        made.add(make_node(name).capacity({GPU: "2"}, cpu="4", memory="8Gi", pods=10))
    made.add(make_pod("p").req({GPU: "2"}, cpu="3900m", memory="2Gi").node("full"))
    made.add(make_pod("q").req({GPU: "2"}, cpu="2").node("half"))
    made.add(*(make_pod(f"r{index}").node("crowded") for index in range(10)))
    nodes = document(made)["nodes"]
    stranded = {
        name: {resource: nodes[f"stranded/{resource}"][row] for resource in ("cpu", "memory", GPU)}
        for row, name in enumerate(nodes["name"])
    }
    assert stranded == {
        "full": {"cpu": 0, "memory": 6 * 2**30, GPU: 0},
        "half": {"cpu": 0, "memory": 0, GPU: 0},
        "crowded": {"cpu": 4000, "memory": 8 * 2**30, GPU: 2},
    }


def test_pods_on_nodes_name_their_group() -> None:
    made = cluster()
    made.add(make_pod("worker").pod_group("train").node("n1"))
    bays = document(made)
    groups = sorted(bays["texts"][index] for index in bays["pods"]["group"])
    assert groups == ["", "", "", "default/train"]


def test_queues_have_their_amounts_and_pods_name_theirs() -> None:
    made = tenants("n1", "red")
    made.add(tenant_pod("a", "red", cpu="1").node("n1"))
    bays = document(made)
    [red] = [one for one in bays["queues"] if one["queue"] == "red"]
    assert red["resources"]["cpu"]["guaranteed"] == 2000
    assert red["resources"]["cpu"]["used"] == 1000
    assert bays["texts"][bays["pods"]["queue"][0]] == "red"


def test_the_same_cluster_gives_the_same_bytes_however_it_was_told() -> None:
    made, other = cluster(), Cluster()
    world = made.core.world
    nodes = [Changed(NODE, info.node) for info in world.cache.nodes]
    pods = [Changed(POD, pod) for pod in world.handlers.pods.values()]
    other.tell(*reversed(pods), *reversed(nodes))
    assert msgspec.json.encode(document(made)) == msgspec.json.encode(document(other))


def test_a_row_keeps_its_place_and_an_empty_one_is_used_again() -> None:
    made, bays = cluster(), Bays()
    updated(bays, made)
    made.remove(make_node("n2"))
    delta = updated(bays, made)
    assert delta["nodes"]["name"] == [[1], [""]]
    made.add(make_node("n0").capacity(cpu="4", memory="8Gi", pods=10))
    delta = updated(bays, made)
    assert delta["nodes"]["name"] == [[1], ["n0"]]
    assert bays.document()["nodes"]["name"] == ["n1", "n0", "n10"]


def test_a_pod_that_is_bound_costs_a_few_hundred_bytes_and_nothing_costs_none() -> None:
    made, bays = cluster(), Bays()
    updated(bays, made)
    made.add(make_pod("web-3").namespace("shop").req(cpu="1", memory="1Gi").node("n1"))
    delta = updated(bays, made)
    assert len(msgspec.json.encode(delta)) < 300
    assert updated(bays, made) == {}


STEPS = st.lists(
    st.tuples(st.sampled_from(["pod", "pending", "gone", "node", "lost"]), st.integers(0, 5)),
    max_size=12,
)


@given(STEPS)
def test_a_reader_of_all_changes_has_what_a_new_reader_gets(steps: list[tuple[str, int]]) -> None:
    made, bays = cluster(), Bays()
    updated(bays, made)
    reader = copy.deepcopy(bays.document())
    pods: dict[int, PodBuilder] = {}
    for what, number in steps:
        if what == "node":
            made.add(make_node(f"x{number}").capacity(cpu="4", pods=10).label(ZONE, "c"))
        elif what == "lost":
            if made.core.world.cache.node(f"x{number}") is not None:
                made.remove(make_node(f"x{number}"))
        elif what == "gone":
            if number in pods:
                made.remove(pods.pop(number))
        elif number not in pods:
            pod = pods[number] = make_pod(f"p{number}").req(cpu="1")
            made.add(pod.node("n1") if what == "pod" else pod)
        patched(reader, copy.deepcopy(updated(bays, made)))
    assert reader == bays.document()
    assert _content(reader) == _content(document(made))


def _content(bays: dict[str, Any]) -> set[tuple[Any, ...]]:
    """What the columns say, whatever the rows are."""
    nodes, pods, pending = bays["nodes"], bays["pods"], bays["pending"]
    there = [row for row, name in enumerate(nodes["name"]) if name]
    said: set[tuple[Any, ...]] = set()
    for row in there:
        said.add((nodes["name"][row], nodes["requested/cpu"][row], nodes["requested/pods"][row]))
        on_it = [i for i, node in enumerate(pods["node"]) if node == row]
        amounts = [bays["requests"][pods["requests"][i]].get("cpu", 0) for i in on_it]
        said.add((nodes["name"][row], "pods", tuple(sorted(amounts))))
    return said | {(name,) for name in pending["name"] if name}


def test_whoever_sees_one_namespace_gets_shares_and_no_other_name() -> None:
    made = tenants("node-x", "red", "blue")
    made.add(tenant_pod("mine", "red", cpu="1").node("node-x"))
    made.add(tenant_pod("theirs", "blue", cpu="2").node("node-x"))
    made.add(tenant_pod("secret", "blue", cpu="20"))
    said = "0/1 nodes are available: node-x has no room beside blue/theirs."
    waits = make_pod("waits").namespace("red").condition("PodScheduled", "False", message=said)
    made.add(waits.nominated("node-x"))
    bays = Bays(named=False)
    bays.update(take(made.core.world, made.core.profiles, only="red"))
    data = msgspec.json.encode(bays.document()).decode()
    for name in ("node-x", "blue", "theirs", "secret"):
        assert name not in data
    assert '"red"' in data
    seen = bays.document()
    assert "0/1 nodes are available: NODE has no room beside POD." in seen["texts"]
    assert seen["nodes"]["requested/cpu"] == [3000]
    assert seen["pods"]["node"] == [0]
    assert seen["pending"]["name"] == ["red/waits"]
    assert [queue["queue"] for queue in seen["queues"]] == ["red"]


NAMES = st.sampled_from(["red", "blue", "green"])
"""Of namespaces, whose Pods and owners are called after them."""
FOREIGN = st.lists(st.tuples(NAMES, st.booleans(), st.booleans()), max_size=8)


@given(FOREIGN)
def test_no_name_of_another_namespace_gets_into_the_columns_of_one(
    pods: list[tuple[str, bool, bool]],
) -> None:
    made = tenants("node-x", "red", "blue", "green")
    for number, (namespace, placed, told) in enumerate(pods):
        pod = make_pod(f"{namespace}-{number}").namespace(namespace).req(cpu="1")
        pod = pod.owner("ReplicaSet", f"{namespace}-owner")
        if told:
            others = " ".join(f"{name}/{name}-{i}," for i, (name, *_) in enumerate(pods))
            pod = pod.condition("PodScheduled", "False", message=f"waits for {others} on node-x.")
        made.add(pod.node("node-x") if placed else pod.nominated("node-x"))
    bays = Bays(named=False)
    bays.update(take(made.core.world, made.core.profiles, only="red"))
    data = msgspec.json.encode(bays.document()).decode()
    for name in ("blue", "green", "node-x"):
        assert name not in data
    mine = [placed for namespace, placed, _ in pods if namespace == "red"]
    seen = bays.document()
    assert len(seen["pods"].get("node", ())) == sum(mine)
    assert len(seen["pending"].get("name", ())) == len(mine) - sum(mine)


def test_texts_that_nothing_refers_to_any_more_wear_the_columns_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(columns, "SPARE_TEXTS", 3)
    made, bays = cluster(), Bays()
    updated(bays, made)
    assert not bays.worn
    for number in range(9):
        made.add(make_node("n1").capacity(cpu="4", pods=10).taint(f"t{number}", "", "NoSchedule"))
        updated(bays, made)
    assert bays.worn


def test_devices_of_slices_are_counted_with_those_that_claims_have() -> None:
    made, driver = cluster(), "gpu.example.com"
    for node, pool, names in (("n1", "n1", "abc"), ("n2", "n2", "a"), ("n1", "old", "ab")):
        spec = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": name} for name in names],
        }
        made.add(make_object(RESOURCE_SLICE, f"{node}-{pool}").spec(**spec))
    newer = {"name": "old", "generation": 2, "resourceSliceCount": 1}
    empty = {"driver": driver, "nodeName": "n1", "pool": newer}
    made.add(make_object(RESOURCE_SLICE, "newer").spec(**empty))
    for name, pool, devices in (("c1", "n1", "ab"), ("c2", "n1", "b"), ("c3", "gone", "a")):
        results = [
            {"request": "r", "driver": driver, "pool": pool, "device": device} for device in devices
        ]
        claim = make_object(RESOURCE_CLAIM, name).namespace("shop")
        made.add(claim.status(allocation={"devices": {"results": results}}))
    nodes = document(made)["nodes"]
    assert nodes["name"] == ["n1", "n2", "n10"]
    assert nodes[f"devices/{driver}"] == [3, 1, 0]
    assert nodes[f"allocated/{driver}"] == [2, 0, 0]


def test_a_share_that_a_plugin_has_of_nodes_is_a_column_for_who_may_know_everything() -> None:
    made = cluster()
    profile = next(iter(made.core.profiles.values()))
    profile.services.node_shares["survivors"] = lambda: np.array([0.25, np.nan, 1.0])
    assert document(made)["nodes"]["lens/survivors"] == [1.0, -1, 0.25]
    of_one = take(made.core.world, made.core.profiles, only="shop")
    assert of_one.shares == {}


def test_bindings_evictions_and_how_many_wait_are_on_the_time_line() -> None:
    made, bays = cluster(), Bays()

    def pod(name: str) -> PodBuilder:
        return make_pod(name).uid(name).req(cpu="100m")

    made.add(pod("runs").node("n1"), pod("waits"))
    updated(bays, made)
    assert bays.document()["timeline"] == []
    assert "timeline" not in updated(bays, made)
    made.add(pod("waits").node("n1"), pod("new"))
    at, *counts = updated(bays, made)["timeline"]
    assert counts == [1, 3, 0]
    assert abs(time.time() - at) < 3600
    made.add(pod("late"))
    assert updated(bays, made)["timeline"][1:] == [0, 4, 0]
    evicted = pod("runs").node("n1")
    evicted.status(conditions=[{"type": "DisruptionTarget", "status": "True"}])
    made.add(evicted)
    assert updated(bays, made)["timeline"][1:] == [0, 4, 1]
    made.add(evicted.terminating())
    assert "timeline" not in updated(bays, made)
    made.remove(evicted)
    assert "timeline" not in updated(bays, made)
    moments = bays.document()["timeline"]
    assert [moment[1:] for moment in moments] == [[1, 3, 0], [0, 4, 0], [0, 4, 1]]
    assert bays.renewed().document()["timeline"] == moments


def test_a_column_that_says_nothing_yet_is_there_for_whoever_follows() -> None:
    made, bays = Cluster(), Bays()
    updated(bays, made)
    document = copy.deepcopy(bays.document())
    made.add(make_pod("young").req(cpu="1"))
    assert patched(document, updated(bays, made)) == bays.document()
    assert bays.document()["pending"]["created"] == [NONE]
