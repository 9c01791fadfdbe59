"""``simulate --lose``: what comes back without the nodes of a failure domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from typer.testing import CliRunner

from bayplan.api.kinds import NODE, POD, RESOURCE_CLAIM
from bayplan.cli.app import app
from bayplan.simulation.admission import by_kind
from bayplan.simulation.files import Entry
from bayplan.simulation.loss import lose

ZONE = "topology.kubernetes.io/zone"
KINDS = {"web": "ReplicaSet", "agent": "DaemonSet", "static": "Node", "bare": ""}


def node(name: str, zone: str) -> dict[str, Any]:
    """A node of 4 CPUs."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str, on: str, cpu: str = "2", priority: int = 0) -> dict[str, Any]:
    """A Pod whose controller is of the kind that the first part of its name stands for."""
    owner = name.split("-", maxsplit=1)[0]
    kind = KINDS[owner]
    made = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    meta = {"name": name, "namespace": "default", "ownerReferences": [made] if kind else []}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], "priority": priority}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**spec, **({"nodeName": on} if on else {})},
        "status": {"phase": "Running"} if on else {},
    }


def simulate(folder: Path, objects: list[dict[str, Any]], *options: str) -> Any:
    """What the command answers."""
    file = folder / "cluster.json"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
    try:
        return CliRunner().invoke(app, ["simulate", "-f", str(file), *options])
    finally:
        structlog.reset_defaults()  # the command's stderr is closed


def lost(folder: Path, objects: list[dict[str, Any]], zone: str = "a") -> dict[str, Any]:
    """The answer as JSON."""
    result = simulate(folder, objects, "--lose", f"{ZONE}={zone}", "-o", "json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = msgspec.json.decode(result.stdout)
    return answer


CLUSTER = [
    node("a1", "a"),
    node("a2", "a"),
    node("b1", "b"),
    pod("web-1", "a1", priority=10),
    pod("web-2", "a2", priority=10),
    pod("web-3", "a2", priority=10),
    pod("agent-1", "a1", "0"),
    pod("static-1", "a1", "0"),
    pod("bare-1", "a1", "1"),
    pod("web-9", "b1", "3"),
]


def test_what_controllers_make_again_comes_back_and_evicts_what_is_less_important(
    tmp_path: Path,
) -> None:
    answer = lost(tmp_path, CLUSTER)
    assert answer["lost"]["nodes"] == ["a1", "a2"]
    assert answer["lost"]["pods"] == {
        "default/web-1": "a1",
        "default/web-2": "a2",
        "default/web-3": "a2",
    }
    assert set(answer["lost"]["gone"]) == {"default/agent-1", "default/static-1", "default/bare-1"}
    nodes = {each["pod"]: each["node"] for each in answer["placements"]}
    *back, evicted = answer["placements"]
    assert nodes == {
        "default/web-1": "b1",
        "default/web-2": "b1",
        "default/web-3": None,
        "default/web-9": None,
    }
    assert back[0]["victims"] == ["default/web-9"]
    assert [each["lost"] for each in back] == ["a1", "a2", "a2"]
    assert evicted["evicted"] == "b1"


def test_the_answer_is_that_of_a_file_where_the_nodes_were_deleted_by_hand(tmp_path: Path) -> None:
    answer = lost(tmp_path, CLUSTER)
    rest = [
        node("b1", "b"),
        pod("web-9", "b1", "3"),
        *(pod(f"web-{index}", "", priority=10) for index in (1, 2, 3)),
    ]
    result = simulate(tmp_path, rest, "--evict", "-o", "json")
    *back, _ = answer["placements"]
    for each in back:
        del each["lost"]
    assert msgspec.json.decode(result.stdout) == back


def test_a_pod_that_was_being_deleted_is_gone(tmp_path: Path) -> None:
    leaving = pod("web-1", "a1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = lost(tmp_path, [node("a1", "a"), node("b1", "b"), leaving])
    assert answer["lost"]["gone"] == {"default/web-1": "it was being deleted"}
    assert answer["placements"] == []


def test_a_pod_with_a_volume_of_the_lost_zone_stays_down(tmp_path: Path) -> None:
    here = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
    amount = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": amount,
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/disk"},
            "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "default",
            "uid": "data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "volumeName": "disk",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": amount},
        },
        "status": {"phase": "Bound"},
    }
    bound = pod("web-1", "a1")
    bound["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    answer = lost(tmp_path, [node("a1", "a"), node("b1", "b"), volume, claim, bound])
    (placement,) = answer["placements"]
    assert placement["node"] is None
    assert "didn't match PersistentVolume's node affinity" in placement["message"]


def test_devices_of_lost_nodes_are_given_back() -> None:
    def claim(name: str, users: list[str], **meta: Any) -> Entry:
        reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
        status = {"allocation": {}, "reservedFor": reserved}
        return Entry(RESOURCE_CLAIM, {"metadata": {"name": name, **meta}, "status": status})

    objects = by_kind([])
    objects[NODE] = [Entry(NODE, node("a1", "a"))]
    objects[POD] = [Entry(POD, pod("web-1", "a1"))]
    objects[POD][0].meta["uid"] = "web-1"
    owner = [{"kind": "Pod", "uid": "web-1", "controller": True}]
    own = claim("own", ["web-1"], ownerReferences=owner)
    objects[RESOURCE_CLAIM] = [own, claim("left", ["web-1"]), claim("shared", ["web-1", "other"])]
    lose(objects, ZONE, "a")
    left, shared = objects[RESOURCE_CLAIM]
    assert left.status == {"reservedFor": []}
    assert [user["uid"] for user in shared.status["reservedFor"]] == ["other"]
    assert "allocation" in shared.status


def test_the_text_counts_what_comes_back(tmp_path: Path) -> None:
    result = simulate(tmp_path, CLUSTER, "--lose", f"{ZONE}=a")
    assert "2 nodes lost, 6 Pods with them: back on a node: 2, down: 1, gone: 3" in result.stdout


@pytest.mark.parametrize(
    ("option", "text"),
    [
        pytest.param(f"{ZONE}=x", "no Node has this label; the values of", id="value"),
        pytest.param("rack=x", "no Node has it", id="label"),
        pytest.param("zone", "must be LABEL=VALUE", id="form"),
    ],
)
def test_what_cannot_be_lost_is_named(tmp_path: Path, option: str, text: str) -> None:
    result = simulate(tmp_path, CLUSTER, "--lose", option)
    assert result.exit_code == 2
    assert text in result.stderr


def test_who_is_evicted_is_tried_on_other_nodes_once(tmp_path: Path) -> None:
    objects = [
        node("a1", "a"),
        node("b1", "b"),
        node("b2", "b"),
        pod("web-1", "a1", "4", priority=10),
        pod("web-2", "b1", "3"),
        pod("web-3", "b2", "1", priority=10),
        pod("bare-1", "b1", "0"),
    ]
    answer = lost(tmp_path, objects)
    first, again = answer["placements"]
    assert (first["pod"], first["node"], first["victims"]) == (
        "default/web-1",
        "b1",
        ["default/web-2"],
    )
    assert (again["pod"], again["node"], again["evicted"]) == ("default/web-2", "b2", "b1")
    text = simulate(tmp_path, objects, "--lose", f"{ZONE}=a").stdout
    assert "1 node lost, 1 Pod with it: back on a node: 1, down: 0, gone: 0" in text
    assert "evicted from b1" in text


def test_pods_that_are_made_again_come_after_those_that_wait(tmp_path: Path) -> None:
    def created(made: dict[str, Any], minute: int) -> dict[str, Any]:
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:{minute:02}:00Z"
        return made

    objects = [
        node("a1", "a"),
        node("b1", "b"),
        created(pod("web-1", "a1", "4"), 1),
        created(pod("web-2", "", "4"), 2),
    ]
    nodes = {each["pod"]: each["node"] for each in lost(tmp_path, objects)["placements"]}
    assert nodes == {"default/web-2": "b1", "default/web-1": None}
