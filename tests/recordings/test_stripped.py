"""What is left out of a recording, and that nothing which scheduling reads is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.api.kinds import KINDS, NODE, POD, Kind
from bayplan.api.pod import Pod, decode_pod
from bayplan.recordings.stripped import stripping
from bayplan.simulation.files import Notes, Readable, read_entries

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))

FULL: dict[str, Any] = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"app": "web"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "SECRET", "note": "x"},
        "managedFields": [{"manager": "kubectl"}],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "nodeName": "n1",
        "schedulerName": "default-scheduler",
        "containers": [
            {
                "name": "c",
                "image": "web:1",
                "command": ["sh", "-c", "SECRET"],
                "env": [{"name": "PASSWORD", "value": "SECRET"}],
                "envFrom": [{"secretRef": {"name": "SECRET"}}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "ports": [{"hostPort": 80}],
            }
        ],
        "volumes": [
            {"name": "a", "secret": {"secretName": "SECRET"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "PodScheduled", "status": "True"},
        ],
    },
}


def _stripped(kind: Kind[Any], obj: dict[str, Any]) -> dict[str, Any]:
    body = stripping(kind).decode(json.dumps(obj).encode()).body
    stripped: dict[str, Any] = json.loads(body)
    return stripped


def test_a_pod_loses_what_scheduling_does_not_read() -> None:
    stripped = _stripped(POD, FULL)
    assert "SECRET" not in json.dumps(stripped)
    assert stripped["metadata"].keys() == {
        "name",
        "namespace",
        "uid",
        "labels",
        "deletionTimestamp",
    }
    assert [volume["name"] for volume in stripped["spec"]["volumes"]] == ["b"]
    assert [condition["type"] for condition in stripped["status"]["conditions"]] == ["PodScheduled"]


def test_a_stripped_pod_is_the_same_to_the_scheduler() -> None:
    pod = decode_pod(json.dumps(FULL).encode())
    again = decode_pod(stripping(POD).decode(json.dumps(FULL).encode()).body)
    assert again.shape is pod.shape
    assert (again.node_name, again.claim_names) == (pod.node_name, pod.claim_names)
    assert (again.uid, again.deleted) == (pod.uid, pod.deleted)


def test_a_heartbeat_changes_nothing() -> None:
    def node(beat: str) -> dict[str, Any]:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
        return {"metadata": {"name": "n"}, "status": {"conditions": [condition]}}

    first, second = (_stripped(NODE, node(f"2026-01-01T00:00:0{i}Z")) for i in (1, 2))
    assert first == second


def test_annotations_are_kept_that_plugins_read_or_that_are_asked_for() -> None:
    node = {
        "metadata": {"name": "n", "annotations": {"bayplan.dev/hourly-price": "1", "rack": "r"}}
    }
    data = json.dumps(node).encode()
    few = json.loads(stripping(NODE).decode(data).body)
    more = json.loads(stripping(NODE, ("rack",)).decode(data).body)
    assert few["metadata"]["annotations"] == {"bayplan.dev/hourly-price": "1"}
    assert more["metadata"]["annotations"] == node["metadata"]["annotations"]


def test_a_kind_without_a_type_keeps_its_fields() -> None:
    kind = Kind.generic("example.com/v1", "Widget", "widgets", namespaced=True)
    meta = {
        "name": "w",
        "namespace": "a",
        "resourceVersion": "3",
        "managedFields": [{"manager": "x"}],
    }
    stripped = _stripped(kind, {"metadata": meta, "spec": {"size": 3}})
    assert stripped == {"metadata": {"name": "w", "namespace": "a"}, "spec": {"size": 3}}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_objects_of_examples_are_the_same_after_stripping(path: Path) -> None:
    notes = Notes(str(path))
    for entry in read_entries(path.read_text(), Readable(KINDS.values()), notes):
        data = json.dumps(entry.data, default=str).encode()
        whole, again = (
            entry.kind.decode(d) for d in (data, stripping(entry.kind).decode(data).body)
        )
        if isinstance(whole, Pod) and isinstance(again, Pod):
            assert again.shape is whole.shape
            assert again.claim_names == whole.claim_names
        else:
            assert _but_metadata(again) == _but_metadata(whole)


def _but_metadata(obj: Any) -> dict[str, Any]:
    return {
        name: value for name, value in msgspec.structs.asdict(obj).items() if name != "metadata"
    }
