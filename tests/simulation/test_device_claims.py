"""Claims of a file: made from templates as the controller does, shared by the Pods of simulate."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulation.answers import simulated
from tests.simulation.support import Json, node, pod, write

from bayplan.api.kinds import RESOURCE_CLAIM
from bayplan.simulation.cluster import load_cluster

REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
SPEC = {"devices": {"requests": [REQUEST]}}
GPU_CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}


def resource(kind: str, name: str, **body: object) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **body}


def gpus(node_name: str, count: int) -> Json:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node_name,
        "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(count)],
    }
    return resource("ResourceSlice", node_name, spec=spec)


TEMPLATE = resource("ResourceClaimTemplate", "one", spec={"spec": SPEC})
BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "one"}
BY_NAME = {"name": "gpu", "resourceClaimName": "shared"}


def test_a_pending_pod_gets_the_claim_of_its_template(tmp_path: Path) -> None:
    cluster = load_cluster([write(tmp_path, pod("p", resourceClaims=[BY_TEMPLATE]), TEMPLATE)])
    (claim,) = cluster.objects[RESOURCE_CLAIM]
    (owner,) = claim.metadata.owner_references
    assert (claim.key, owner.uid, owner.controller) == ("default/p-gpu", "Pod-default/p", True)
    assert claim.spec.devices.requests[0].exactly.device_class_name == "gpu"
    (status,) = cluster.pending[0].status.resource_claim_statuses
    assert (status.name, status.resource_claim_name) == ("gpu", "p-gpu")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec": {"nodeName": "n"}}, id="it-has-a-node"),
        pytest.param({"status": {"phase": "Succeeded"}}, id="it-has-ended"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="it-leaves"),
        pytest.param(
            {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x"}]}},
            id="its-status-names-one",
        ),
        pytest.param(
            {"status": {"resourceClaimStatuses": [{"name": "gpu"}]}}, id="its-status-needs-none"
        ),
        pytest.param({"metadata": {"namespace": "other"}}, id="the-template-is-elsewhere"),
    ],
)
def test_no_claim_is_made_where(tmp_path: Path, changes: dict[str, Json]) -> None:
    item = pod("p", resourceClaims=[BY_TEMPLATE])
    item = item | {part: item.get(part, {}) | more for part, more in changes.items()}
    assert load_cluster([write(tmp_path, item, TEMPLATE)]).objects[RESOURCE_CLAIM] == []


def test_a_claim_that_is_there_already_is_kept(tmp_path: Path) -> None:
    there = resource("ResourceClaim", "p-gpu", spec={"devices": {}})
    path = write(tmp_path, there, pod("p", resourceClaims=[BY_TEMPLATE]), TEMPLATE)
    (claim,) = load_cluster([path]).objects[RESOURCE_CLAIM]
    assert claim.spec.devices.requests == ()


def test_in_simulate_pods_share_a_claim_and_its_devices_are_gone_for_others(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        *(node("n1"), node("n2"), GPU_CLASS, gpus("n2", 2), TEMPLATE),
        resource("ResourceClaim", "shared", spec=SPEC),
        *(pod(name, resourceClaims=[BY_NAME]) for name in "ab"),
        *(pod(name, resourceClaims=[BY_TEMPLATE]) for name in "cd"),
    )
    placed = {step["pod"]: step["node"] for step in simulated(path)}
    assert placed == {"default/a": "n2", "default/b": "n2", "default/c": "n2", "default/d": None}
