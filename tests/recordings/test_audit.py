"""Recordings from audit logs of each level."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from bayplan.cli.app import app
from bayplan.recordings.file import RecordingReader

Json = dict[str, Any]
POD: Json = {"kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
NODE: Json = {"kind": "Node", "metadata": {"name": "n1", "uid": "n1"}}


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets up logging for its process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def _pod(name: str, **meta: Any) -> Json:
    return {**POD, "metadata": {"name": name, "namespace": "a", "uid": f"u-{name}", **meta}}


def _entry(second: int, verb: str, resource: str, name: str, **more: Any) -> Json:
    resource, _, sub = resource.partition("/")
    ref: Json = {"resource": resource, "name": name, "apiVersion": "v1", "subresource": sub}
    if resource == "pods":
        ref["namespace"] = "a"
    time = f"2026-01-01T00:00:{second:02}.250000Z"
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": ref,
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": time,
        "stageTimestamp": time,
        **more,
    }


def _binding(second: int, name: str, **more: Any) -> Json:
    user = {"user": {"username": "system:kube-scheduler"}}
    return _entry(second, "create", "pods/binding", name, **user, **more)


def _recorded(folder: Path, *entries: Json, code: int = 0) -> tuple[list[Json], str]:
    log = folder / "audit.log"
    log.write_text("\n".join(map(json.dumps, entries)) + "\n")
    ran = CliRunner().invoke(app, ["record", str(folder / "day.zst"), "--audit", str(log)])
    assert ran.exit_code == code, ran.output
    if code:
        return [], ran.stderr
    lines = RecordingReader(folder / "day.zst").lines()
    told = [
        {"at": line.at, "type": str(line.type), "by": line.by, "object": bytes(line.object)}
        for line in lines
    ]
    return told, ran.stderr


def _summary(lines: list[Json]) -> list[tuple[str, str, str]]:
    """Type, name and node of each line."""
    told = []
    for line in lines:
        obj = json.loads(line["object"] or "{}")
        node = obj.get("spec", {}).get("nodeName", "")
        told.append((line["type"], obj.get("metadata", {}).get("name", ""), node))
    return told


def test_request_response_has_the_life_of_a_pod(tmp_path: Path) -> None:
    deleted = _pod("p", deletionTimestamp="2026-01-01T00:00:05Z")
    deleted["spec"] = {**POD["spec"], "nodeName": "n1"}
    lines, _ = _recorded(
        tmp_path,
        _entry(1, "create", "nodes", "n1", responseObject=NODE),
        _entry(2, "create", "pods", "p", responseObject=_pod("p")),
        _binding(3, "p", requestObject={"target": {"kind": "Node", "name": "n1"}}),
        _entry(4, "delete", "pods", "p", responseObject=deleted),
        _entry(
            5,
            "delete",
            "pods",
            "p",
            requestObject={"kind": "DeleteOptions", "gracePeriodSeconds": 0},
            responseObject=deleted,
        ),
    )
    assert _summary(lines) == [
        ("READY", "", ""),
        ("ADDED", "n1", ""),
        ("ADDED", "p", ""),
        ("MODIFIED", "p", "n1"),
        ("MODIFIED", "p", "n1"),
        ("DELETED", "p", ""),
    ]
    assert lines[3]["by"] == "system:kube-scheduler"
    assert lines[3]["at"] == lines[1]["at"] + 2


def test_a_pod_without_a_grace_period_is_gone_at_once(tmp_path: Path) -> None:
    when = "2026-01-01T00:00:02Z"
    gone = _pod("p", deletionTimestamp=when, deletionGracePeriodSeconds=0)
    lines, _ = _recorded(
        tmp_path,
        _entry(1, "create", "pods", "p", responseObject=_pod("p")),
        _entry(2, "delete", "pods", "p", responseObject=gone),
    )
    assert _summary(lines)[1:] == [("ADDED", "p", ""), ("DELETED", "p", "")]


def test_metadata_has_when_a_pod_was_bound_and_by_whom(tmp_path: Path) -> None:
    lines, said = _recorded(tmp_path, _entry(1, "create", "pods", "p"), _binding(2, "p"))
    assert _summary(lines) == [("READY", "", ""), ("BOUND", "p", "")]
    assert lines[1]["by"] == "system:kube-scheduler"
    assert "1 times create pods: the log has no object" in said


def test_entries_count_in_the_order_of_their_time_if_they_succeeded(tmp_path: Path) -> None:
    lines, _ = _recorded(
        tmp_path,
        _entry(3, "create", "pods", "b", responseObject=_pod("b")),
        _entry(2, "create", "pods", "a", responseObject=_pod("a")),
        _entry(1, "create", "pods", "c", responseObject=_pod("c"), stage="RequestReceived"),
        _entry(1, "create", "pods", "d", responseObject=_pod("d"), responseStatus={"code": 409}),
        _entry(1, "get", "pods", "e", responseObject=_pod("e")),
    )
    assert _summary(lines)[1:] == [("ADDED", "a", ""), ("ADDED", "b", "")]


def test_a_collection_is_deleted(tmp_path: Path) -> None:
    items = {"kind": "PodList", "items": [_pod("a"), _pod("never")]}
    lines, _ = _recorded(
        tmp_path,
        _entry(1, "create", "pods", "a", responseObject=_pod("a")),
        _entry(1, "create", "pods", "b", responseObject=_pod("b")),
        _entry(2, "deletecollection", "pods", "", responseObject=items),
    )
    assert _summary(lines)[3:] == [("DELETED", "a", "")]


def test_what_was_there_before_comes_from_a_file(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(json.dumps({"apiVersion": "v1", **NODE}))
    log = tmp_path / "audit.log"
    log.write_text(json.dumps(_entry(1, "create", "pods", "p", responseObject=_pod("p"))))
    arguments = ["record", str(tmp_path / "day.zst"), "--audit", str(log), "-f", str(dump)]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.startswith("recorded 1 objects and 1 events: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "line 1: "),
        ('{"kind": "Pod", "apiVersion": "v1"}', "line 1: is v1 Pod, no Event of audit.k8s.io/v1"),
        ("", "has no write that succeeded"),
    ],
)
def test_what_is_no_audit_log_is_refused(tmp_path: Path, text: str, why: str) -> None:
    log = tmp_path / "audit.log"
    log.write_text(text)
    ran = CliRunner().invoke(app, ["record", str(tmp_path / "day.zst"), "--audit", str(log)])
    assert ran.exit_code == 2
    assert f"{log}: " in ran.stderr
    assert why in ran.stderr


def test_a_recording_that_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "day.zst").write_text("mine")
    _, said = _recorded(
        tmp_path, _entry(1, "create", "pods", "p", responseObject=_pod("p")), code=2
    )
    assert "day.zst: exists" in said
    assert (tmp_path / "day.zst").read_text() == "mine"
