"""``simulate --add``: what fits with more nodes like one that there is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.test_loss import ZONE, node, pod, simulate

from bayplan.api.kinds import CSI_NODE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from bayplan.simulation.admission import by_kind
from bayplan.simulation.checks import decode
from bayplan.simulation.files import Entry
from bayplan.simulation.growth import gain, grow

HOSTNAME = "kubernetes.io/hostname"


def grown(folder: Path, objects: list[dict[str, Any]], *options: str) -> dict[str, Any]:
    """The answer as JSON."""
    result = simulate(folder, objects, *options, "-o", "json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = msgspec.json.decode(result.stdout)
    return answer


def entry(kind: Kind[object], name: str, **parts: Any) -> Entry:
    """An object of a file, with a uid as all have after the checks."""
    return Entry(kind, {"metadata": {"name": name, "uid": f"u-{name}"}, **parts})


def full_node() -> Entry:
    """A node with all that only one node has."""
    made = node("a1", "a")
    made["metadata"] |= {"uid": "u-a1", "annotations": {"bayplan.dev/hourly-price": "2"}}
    made["metadata"]["labels"] |= {HOSTNAME: "host1", "disk": "host1", "drive": "a1", "size": "xl"}
    old = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    made["spec"] = {
        "unschedulable": True,
        "providerID": "aws://i-1",
        "taints": [old, {"key": "gpu", "effect": "NoSchedule"}],
    }
    made["status"] |= {"images": [{"names": ["i"]}], "conditions": [{"type": "Ready"}]}
    return Entry(NODE, made)


def test_pods_that_fit_only_with_the_new_nodes_are_named(tmp_path: Path) -> None:
    waiting = [pod(f"web-{index}", "", "3") for index in range(4)]
    options = "--add", "2", "--like", "a1"
    answer = grown(tmp_path, [node("a1", "a"), *waiting], *options)
    assert answer["added"] == {
        "like": "a1",
        "nodes": ["a1-added-1", "a1-added-2"],
        "pods": [],
        "fits": {"default/web-1": "a1-added-1", "default/web-2": "a1-added-2"},
        "noLonger": [],
    }
    assert [one["node"] for one in answer["placements"]] == ["a1", "a1-added-1", "a1-added-2", None]
    text = simulate(tmp_path, [node("a1", "a"), *waiting], *options).stdout
    assert text.startswith("2 nodes like a1 added: placed in addition: 2\n")


def test_daemons_take_their_room_on_new_nodes(tmp_path: Path) -> None:
    objects = [
        node("a1", "a"),
        pod("agent-1", "a1", "1"),
        pod("static-1", "a1", "1"),
        pod("web-1", "a1", "1"),
        pod("web-2", "", "3"),
        pod("web-3", "", "2"),
    ]
    answer = grown(tmp_path, objects, "--add", "1", "--like", "a1")
    assert answer["added"]["pods"] == ["default/agent-1-added-1", "default/static-1-added-1"]
    assert answer["added"]["fits"] == {"default/web-3": "a1-added-1"}


def test_the_answer_is_that_of_a_file_in_which_the_nodes_are_written(tmp_path: Path) -> None:
    waiting = [pod(f"web-{index}", "", "3") for index in range(3)]
    answer = grown(tmp_path, [node("a1", "a"), *waiting], "--add", "1", "--like", "a1")
    written = simulate(tmp_path, [node("a1", "a"), node("a1-added-1", "a"), *waiting], "-o", "json")
    assert msgspec.json.decode(written.stdout) == answer["placements"]


def test_with_a_lost_zone_it_says_what_comes_back_because_of_them(tmp_path: Path) -> None:
    objects = [node("a1", "a"), node("b1", "b"), pod("web-1", "a1", "3"), pod("web-2", "b1", "3")]
    options = "--lose", f"{ZONE}=a", "--add", "1", "--like", "b1"
    answer = grown(tmp_path, objects, *options)
    assert answer["lost"]["nodes"] == ["a1"]
    assert answer["added"]["fits"] == {"default/web-1": "b1-added-1"}
    assert answer["placements"][0]["lost"] == "a1"


def test_a_pod_that_a_new_domain_keeps_out_is_named(tmp_path: Path) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    first = node("a1", "a")
    first["metadata"]["labels"][HOSTNAME] = "a1"
    tainted = node("b1", "a")
    tainted["metadata"]["labels"][HOSTNAME] = "b1"
    tainted["spec"] = {"taints": [{"key": "full", "effect": "NoSchedule"}]}
    tainted["metadata"]["labels"]["pool"] = "x"
    running, waiting = pod("web-1", "a1", "1"), pod("web-2", "", "1")
    for one in (running, waiting):
        one["metadata"]["labels"] = {"app": "web"}
    spread["nodeTaintsPolicy"] = "Ignore"
    waiting["spec"]["topologySpreadConstraints"] = [spread]
    held = pod("web-3", "b1", "1")
    held["metadata"]["labels"] = {"app": "web"}
    objects = [first, tainted, running, held, waiting]
    answer = grown(tmp_path, objects, "--add", "1", "--like", "b1")
    assert answer["added"]["noLonger"] == ["default/web-2"]
    text = simulate(tmp_path, objects, "--add", "1", "--like", "b1").stdout
    assert "placed in addition: 0, no longer placed: 1\n" in text
    assert "no longer placed: default/web-2" in text


def test_a_new_node_has_nothing_that_only_the_old_one_has() -> None:
    objects = by_kind([full_node()])
    before = copy.deepcopy(objects[NODE][0].data)
    growth = grow(objects, 1, "a1")
    old, new = objects[NODE]
    assert old.data == before
    assert growth.uids == {new.meta["uid"]}
    assert new.meta["uid"] != "u-a1"
    name = "a1-added-1"
    assert new.meta["labels"] == {
        ZONE: "a",
        HOSTNAME: name,
        "disk": name,
        "drive": name,
        "size": "xl",
    }
    assert new.meta["annotations"] == {"bayplan.dev/hourly-price": "2"}
    assert new.spec == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert new.status == node("a1", "a")["status"]


def test_what_belongs_to_the_node_alone_comes_with_it() -> None:
    topologies: Kind[object] = Kind.generic(
        "topology.node.k8s.io/v1alpha2",
        "NodeResourceTopology",
        "noderesourcetopologies",
        namespaced=False,
    )
    resources = [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "1"}]
    pool = {"name": "a1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}]
    slices = [
        entry(RESOURCE_SLICE, "s", spec={"nodeName": "a1", "pool": pool, "devices": devices}),
        entry(RESOURCE_SLICE, "other", spec={"nodeName": "b1", "pool": {"name": "b1"}}),
        entry(RESOURCE_SLICE, "net", spec={"allNodes": True, "pool": {"name": "net"}}),
    ]
    claimant = Entry(POD, pod("agent-9", "a1"))
    claimant.meta["uid"] = "claimant"
    claim = entry(RESOURCE_CLAIM, "c")
    claim.meta["ownerReferences"] = [{"kind": "Pod", "uid": "claimant"}]
    done = Entry(POD, {**pod("agent-8", "a1"), "status": {"phase": "Succeeded"}})
    objects = by_kind(
        [
            full_node(),
            entry(NODE, "b1"),
            entry(CSI_NODE, "a1", spec={"drivers": [{"name": "d", "allocatable": {"count": 3}}]}),
            entry(CSI_NODE, "b1"),
            entry(topologies, "a1", zones=[{"name": "node-0", "resources": resources}]),
            *slices,
            claimant,
            claim,
            done,
        ]
    )
    growth = grow(objects, 2, "a1")
    assert growth.nodes == ("a1-added-1", "a1-added-2")
    assert growth.pods == ()
    made = objects[RESOURCE_SLICE][3:]
    names = [(one.name, one.spec["nodeName"], one.spec["pool"]["name"]) for one in made]
    assert names == [
        ("s-added-1", "a1-added-1", "a1-added-1"),
        ("s-added-2", "a1-added-2", "a1-added-2"),
    ]
    assert [one.spec["devices"] for one in made] == [devices, devices]
    csi = [one.name for one in objects[CSI_NODE]]
    assert csi == ["a1", "b1", "a1-added-1", "a1-added-2"]
    topology = objects[topologies][-1]
    assert topology.name == "a1-added-2"
    assert topology.data["zones"][0]["resources"][0]["available"] == "4"
    assert objects[topologies][0].data["zones"][0]["resources"][0]["available"] == "1"
    assert len(growth.uids) == 2 * 4
    assert growth.uids == {
        one.meta["uid"] for those in objects.values() for one in those if "-added-" in one.name
    }
    for those in objects.values():
        for one in those:
            decode(one)


def test_a_name_that_is_taken_is_left_out() -> None:
    objects = by_kind([entry(NODE, "a1"), entry(NODE, "a1-added-1")])
    assert grow(objects, 2, "a1").nodes == ("a1-added-2", "a1-added-3")


PLACED = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["n1", "n2", None]))


@given(PLACED, PLACED)
def test_the_gain_leads_from_the_pods_placed_before_to_those_placed_after(
    before: dict[str, str | None], after: dict[str, str | None]
) -> None:
    results = [[{"pod": p, "node": n} for p, n in one.items()] for one in (before, after)]
    found = gain(*results)
    old, new = ({pod for pod, on in one.items() if on} for one in (before, after))
    assert (old - set(found.no_longer)) | set(found.fits) == new
    assert all(after[pod] == on for pod, on in found.fits.items())
    assert not set(found.fits) & old


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(("--add", "1", "--like", "x"), "there is no such Node; there are a1", id="no"),
        pytest.param(("--add", "1"), "one is not given without the other", id="like"),
        pytest.param(("--like", "a1"), "one is not given without the other", id="add"),
        pytest.param(("--add", "0", "--like", "a1"), "greater than or equal to 1", id="none"),
        pytest.param(("--add", "1", "--like", "a1", "--replan"), "not with --replan", id="replan"),
    ],
)
def test_what_cannot_be_added_is_named(tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    result = simulate(tmp_path, [node("a1", "a")], *options)
    assert result.exit_code == 2
    assert text in result.stderr
