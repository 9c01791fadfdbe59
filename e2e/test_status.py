"""Status: three users ask a leader and a standby; and the leader is found by its Lease."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.client.lease_holder import PORT
from e2e.cluster import NAME, NOBODY, READER, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.process import Endpoint, Part, free_port
from e2e.provider.programs import STAGES

pytestmark = pytest.mark.e2e

NODE, FOREIGN = "status-n1", "status-foreign"
HOST = socket.gethostname()


@pytest.fixture
def foreign(cluster: Cluster) -> Iterator[None]:
    """A Pod of another namespace, too large for any node."""
    one = pod(FOREIGN, NAME, cpu="900")
    cluster.put(one, namespace="default")
    yield
    cluster.kubectl("delete", "pod", FOREIGN, "--force", "--grace-period=0", namespace="default")


def bayplan(user: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bayplan", *arguments, f"--kubeconfig={user}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def at(scheduler: Bayplan) -> tuple[str, ...]:
    return f"--server={scheduler.endpoint.url}", "--insecure-skip-tls-verify"


@pytest.mark.usefixtures("foreign")
def test_three_users_ask_how_the_scheduler_is(
    cluster: Cluster, deployed: Bayplan, users: dict[str, Path]
) -> None:
    cluster.nodes(NodeSpec(NODE, cpu="2"))
    cluster.create(pod("status-big", NAME, cpu="800"), pod("status-small", NAME, cpu="1"))
    cluster.wait_condition("status-big")
    cluster.wait_bound("status-small")

    def asked(user: str, *more: str) -> dict[str, Any]:
        run = bayplan(users[user], "status", *at(deployed), "-o", "json", *more)
        assert run.returncode == 0, run.stderr + run.stdout
        answer: dict[str, Any] = json.loads(run.stdout)
        return answer

    def both() -> dict[str, Any] | None:
        answer = asked("admin")
        rejected = {"cause": "NodeResourcesFit", "entries": 2}
        return answer if answer["waiting"]["by"] == [rejected] else None

    answer = wait_until(both, SOON, "both Pods to be rejected")
    assert answer is not None
    assert (answer["leads"], answer["ready"]) == (True, True)
    assert answer["leader"] == answer["identity"]
    assert answer["leader"].startswith(f"{HOST}_")
    assert answer["leaderSince"]
    assert answer["sentence"].startswith(f"{HOST} leads since 20")
    oldest = [one["pod"] for one in answer["waiting"]["oldest"]]
    assert sorted(oldest) == sorted([f"default/{FOREIGN}", f"{cluster.namespace}/status-big"])
    assert answer["configuration"]["used"]

    where = f"--namespace={cluster.namespace}"
    wait_until(
        lambda: bayplan(users[READER], "status", *at(deployed), where).returncode == 0,
        SOON,
        "the role",
    )
    mine = asked(READER, where)
    assert mine["waiting"]["pods"] == 2
    assert [one["pod"] for one in mine["waiting"]["oldest"]] == [f"{cluster.namespace}/status-big"]
    raw = json.dumps(mine)
    for name in (NODE, FOREIGN, "default/", HOST):
        assert name not in raw
    for more in ((), ("--namespace=default",)):
        refused = bayplan(users[READER], "status", *at(deployed), *more)
        assert refused.returncode == 2
        assert "forbidden: may not list" in refused.stderr

    refused = bayplan(users[NOBODY], "status", *at(deployed), where)
    assert refused.returncode == 2
    assert f"may not list pods in the namespace {cluster.namespace}" in refused.stderr

    text = bayplan(users["admin"], "status", *at(deployed)).stdout
    assert "NodeResourcesFit" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_standby_says_who_leads(
    cluster: Cluster, deployed: Bayplan, start: Callable[..., Bayplan], users: dict[str, Path]
) -> None:
    standby = start()
    run = bayplan(users["admin"], "status", *at(standby), "-o", "yaml")
    assert run.returncode == 0, run.stderr + run.stdout
    answer = yaml.safe_load(run.stdout)
    leader = json.loads(deployed.endpoint.get("/status"))["identity"]
    assert (answer["leads"], answer["leader"]) == (False, leader)
    assert answer["identity"] != leader
    assert answer["sentence"].startswith(f"this is a standby; {HOST} leads since 20")
    cluster.create(pod("status-held", NAME, cpu="800"))
    wait_until(
        lambda: json.loads(standby.endpoint.get("/status"))["waiting"]["pods"] == 1, SOON, "the Pod"
    )


@pytest.fixture(params=[HOST, f"{NAME}-{HOST}"], ids=["a Pod", "a static Pod"])
def kubelet(
    request: pytest.FixtureRequest, shared: Cluster, deployed: Bayplan, tmp_path: Path
) -> Iterator[None]:
    """kwok as the kubelet of a Pod that is called after the leader's host, and forwards to it."""
    if not shared.plane.owns_parts or HOST.lower() != HOST:
        pytest.skip("takes an API server on this machine, and a host whose name a Pod can have")
    port = free_port()
    target = {"address": "127.0.0.1", "port": int(deployed.endpoint.url.rpartition(":")[2])}
    forward = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "leader"},
        "spec": {"forwards": [{"ports": [PORT], "target": target}]},
    }
    config = tmp_path / "kwok.yaml"
    config.write_text(STAGES.read_text() + "\n---\n" + yaml.safe_dump(forward))
    plane = shared.plane
    argv = [
        str(plane._program("kwok")),
        f"--config={config}",
        f"--kubeconfig={plane.kubeconfig}",
        "--manage-nodes-with-annotation-selector=nobody=nothing",
        f"--server-address=127.0.0.1:{port}",
        *plane._pair_flags(),
    ]
    endpoint = Endpoint(f"https://127.0.0.1:{port}", plane.context)
    part = Part("kwok-forward", argv, plane.folder / "kwok-forward.log", endpoint, "/healthz")
    shared.nodes(NodeSpec(NODE))
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    shared.api.patch_node_status(NODE, {"status": status}, _preload_content=False)
    container = {"name": "c", "image": "i", "ports": [{"name": "https", "containerPort": PORT}]}
    leader = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": request.param},
        "spec": {"nodeName": NODE, "containers": [container]},
    }
    shared.put(leader, namespace=SYSTEM)
    part.start()
    yield
    part.stop()
    shared.kubectl("delete", "pod", request.param, "--force", "--grace-period=0", namespace=SYSTEM)


@pytest.mark.usefixtures("kubelet")
def test_the_leader_is_found_by_its_lease_and_a_port_is_forwarded(
    cluster: Cluster, users: dict[str, Path]
) -> None:
    run = bayplan(users["admin"], "status", "-o", "json")
    assert run.returncode == 0, run.stderr + run.stdout
    assert json.loads(run.stdout)["identity"].startswith(f"{HOST}_")
    run = bayplan(users["admin"], "why", "status-never", "-n", cluster.namespace)
    assert run.returncode == 1
    assert f"there is no Pod {cluster.namespace}/status-never" in run.stderr

    refused = bayplan(users[NOBODY], "status")
    assert refused.returncode == 2
    assert 'cannot get resource "leases"' in refused.stderr
    nowhere = bayplan(users["admin"], "status", f"--lease={SYSTEM}/other")
    assert nowhere.returncode == 2
    assert f"there is no Lease {SYSTEM}/other: give --server" in nowhere.stderr


def test_a_leader_that_is_no_pod_is_said_to_be_elsewhere(
    cluster: Cluster, deployed: Bayplan, users: dict[str, Path]
) -> None:
    del cluster, deployed
    run = bayplan(users["admin"], "status")
    assert run.returncode == 2
    assert f"there is no Pod {SYSTEM}/{HOST}: wait for another leader, or give" in run.stderr
