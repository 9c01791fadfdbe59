"""Why: the running scheduler answers whoever may get the Pod, and names what they may see."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import NOBODY, OTHER, READER, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def bayplan(shared: Cluster) -> Iterator[Bayplan]:
    made = shared.bayplan(shared.config(OTHER), serving=())
    made.start()
    yield made
    made.stop(grace=60)


def why(
    bayplan: Bayplan, user: Path, cluster: Cluster, name: str, *more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bayplan", "why", name, f"--server={bayplan.endpoint.url}"]
    command += [
        f"--kubeconfig={user}",
        "--insecure-skip-tls-verify",
        f"--namespace={cluster.namespace}",
    ]
    return subprocess.run([*command, *more], capture_output=True, text=True, check=False)


def test_three_users_ask_about_a_pod_that_waits(
    cluster: Cluster, bayplan: Bayplan, users: dict[str, Path]
) -> None:
    cluster.nodes(NodeSpec("why-n1", cpu="2"))
    cluster.create(pod("why-big", OTHER, cpu="3"))
    message = cluster.wait_condition("why-big")

    def asked(user: str) -> dict[str, Any]:
        run = why(bayplan, users[user], cluster, "pod/why-big", "-o", "json")
        assert run.returncode == 0, run.stderr
        answer: dict[str, Any] = json.loads(run.stdout)
        return answer

    answer = asked("admin")
    assert answer["last"]["message"] == message
    assert answer["now"]["almost"][0]["node"] == "why-n1"
    assert "why-n1 has 2 cpu free of the 3 that it needs" in answer["sentence"]

    wait_until(
        lambda: why(bayplan, users[READER], cluster, "why-big").returncode == 0, SOON, "the role"
    )
    answer = asked(READER)
    assert "why-n1" not in json.dumps(answer)
    assert "one node has 2 cpu free of the 3 that it needs" in answer["sentence"]

    refused = why(bayplan, users[NOBODY], cluster, "why-big")
    assert refused.returncode == 2
    assert "may not get pods/why-big" in refused.stderr

    text = why(bayplan, users["admin"], cluster, "why-big").stdout
    assert "rejected by NodeResourcesFit" in text
    assert "Insufficient cpu" in text


def test_a_pod_that_nobody_knows(shared: Cluster, bayplan: Bayplan, users: dict[str, Path]) -> None:
    run = why(bayplan, users["admin"], shared, "why-never")
    assert run.returncode == 1
    assert f"there is no Pod {shared.namespace}/why-never" in run.stderr
    for subject, group in (("podgroup/g", "g"), ("job/train", "Job/train")):
        run = why(bayplan, users["admin"], shared, subject)
        assert run.returncode == 1
        assert f"there is no Pod of a group {shared.namespace}/{group}" in run.stderr
