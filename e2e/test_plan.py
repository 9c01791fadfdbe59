"""Plan: the running scheduler says what would become of a file, and does exactly that."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, token_kubeconfig, wait_until

pytestmark = pytest.mark.e2e


def job(name: str, parallelism: int, cpu: str) -> str:
    template = {"spec": {**pod("main", OTHER, cpu=cpu)["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return json.dumps(document)


def test_what_a_plan_says_is_what_happens(
    cluster: Cluster, start: Callable[..., Bayplan], tmp_path: Path
) -> None:
    cluster.nodes(NodeSpec("plan-n1", cpu="4"), NodeSpec("plan-n2", cpu="2"))
    bayplan = start(cluster.config(OTHER), serving=())
    file = tmp_path / "job.json"
    file.write_text(job("train", 4, "2"))

    def plan(*more: str, user: Path = cluster.plane.kubeconfig) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bayplan", "plan", "-f", str(file)]
        command += [f"--server={bayplan.endpoint.url}", "--insecure-skip-tls-verify"]
        command += [f"--kubeconfig={user}", f"--namespace={cluster.namespace}", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    run = plan("-o", "json")
    assert run.returncode == 1, run.stderr
    answer = json.loads(run.stdout)
    assert answer["sentence"] == "3 of 4 Pods can be placed now; nobody is evicted."
    assert sorted((one["node"], one["pods"]) for one in answer["on"]) == [
        ("plan-n1", 2),
        ("plan-n2", 1),
    ]
    assert not cluster.pods(), "nothing was written"
    assert plan("--check", answer["token"]).returncode == 1
    file.write_text(job("train", 3, "2"))
    assert plan("--check", answer["token"]).returncode == 3
    assert plan().returncode == 0
    assert "token" in plan().stdout

    cluster.kubectl("create", "serviceaccount", "plans-nothing", namespace=cluster.namespace)
    token = cluster.token("plans-nothing", cluster.namespace)
    stranger = token_kubeconfig(tmp_path / "user", cluster.plane.kubeconfig, token)
    refused = plan(user=stranger)
    assert refused.returncode == 2
    assert f"may not create pods in {cluster.namespace}" in refused.stderr

    cluster.kubectl("apply", "-f", str(file), namespace=cluster.namespace)

    def nodes() -> list[str]:
        return sorted(p["spec"].get("nodeName", "") for p in cluster.pods().values())

    wait_until(lambda: nodes() == ["plan-n1", "plan-n1", "plan-n2"], SOON, "as it was planned")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference")
    cluster.kubectl("delete", "job", "train", namespace=cluster.namespace)
