"""A recording of the audit log of a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from bayplan.recordings.file import RecordingReader, lines_of
from e2e.audit import USER
from e2e.cluster import NAME, SOON, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.choose import chosen

pytestmark = pytest.mark.e2e

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            "resources": [{"group": "", "resources": ["nodes", "pods", "pods/*"]}],
        },
        {"level": "None"},
    ],
}


def test_an_audit_log_becomes_a_recording(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Nodes, the life of a Pod, and who has bound it."""
    if not chosen().owns_parts:
        pytest.skip("the audit log of somebody else is not ours to read")
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(yaml.safe_dump(POLICY))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with ExitStack() as stack:
        cluster = new_cluster(stack, *flags)
        scheduler = cluster.bayplan()
        scheduler.start()
        cluster.nodes(NodeSpec("audit-n1", cpu="4"))
        cluster.create(pod("audit-a", NAME, cpu="1"))
        cluster.wait_bound("audit-a")
        cluster.kubectl("delete", "pod", "audit-a", namespace=cluster.namespace)
        wait_until(lambda: "audit-a" not in cluster.pods(), SOON, "its end")
    path = tmp_path / "day.zst"
    command = [sys.executable, "-m", "bayplan", "record", str(path), f"--audit={log}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = []
    for line in lines_of([RecordingReader(path)]):
        obj = json.loads(bytes(line.object) or b"{}")
        if obj.get("metadata", {}).get("name") in ("audit-a", "audit-n1"):
            told.append((line.kind, str(line.type), obj.get("spec", {}).get("nodeName"), line.by))
    assert told[0][:2] == ("Node", "ADDED")
    lives = [one[1:] for one in told if one[0] == "Pod"]
    assert lives[0] == ("ADDED", None, "")
    assert ("MODIFIED", "audit-n1", USER) in lives
    assert lives[-1][0] == "DELETED"
