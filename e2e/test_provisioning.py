"""Groups that have no room ask an autoscaler for nodes, on a real API server.

The test takes the part of the cluster-autoscaler: it writes its conditions, and adds nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster import DEPLOY, OTHER, SOON, SYSTEM, Bayplan, Cluster, Json, pod
from e2e.controllers import ACCOUNT, Controllers, install
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

CRD = Path(__file__).parent / "provisioningrequests.yaml"
RBAC = DEPLOY / "components" / "provisioning" / "rbac.yaml"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
MEMBERS = 3
LONG_AGO = "2026-01-01T00:00:00Z"


@pytest.fixture
def two(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[list[Controllers]]:
    """Two processes of the controllers, beside a scheduler; the CRD comes last."""
    install(cluster, "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    install(cluster, "CustomResourceDefinition")
    cluster.kubectl("apply", "-f", str(RBAC))
    crd = "crd/podgroups.scheduling.x-k8s.io"
    cluster.kubectl("wait", "--for=condition=Established", crd, "--timeout=300s")
    start(cluster.config(OTHER))
    flags = (f"--provisioning-class={CLASS}", "--provisioning-parameter=ValidUntilSeconds=600")
    running = [Controllers(cluster, number, *flags).start() for number in range(2)]
    cluster.kubectl("apply", "-f", str(CRD))
    yield running
    for one in running:
        one.stop()
    cluster.clear()
    cluster.kubectl("delete", "podgroups", "--all", namespace=cluster.namespace)
    cluster.kubectl("delete", "-f", str(CRD))
    cluster.kubectl("delete", "-f", str(RBAC))
    cluster.kubectl("delete", "lease", ACCOUNT, "--ignore-not-found", namespace=SYSTEM)


def of_kind(cluster: Cluster, kind: str) -> dict[str, Json]:
    """All objects of a kind, by name."""
    found = cluster.kubectl("get", kind, "-o=json", namespace=cluster.namespace)
    return {one["metadata"]["name"]: one for one in json.loads(found)["items"]}


def requests(cluster: Cluster) -> dict[str, Json]:
    return of_kind(cluster, "provisioningrequests")


def create_group(cluster: Cluster, name: str) -> None:
    """A PodGroup, and Pods of two CPUs each."""
    cluster.put(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": MEMBERS},
        }
    )
    pods = (pod(f"{name}-{i}", OTHER, {LABEL: name}, cpu="2") for i in range(MEMBERS))
    cluster.create(*pods)


def say(cluster: Cluster, name: str, type_: str, at: str) -> None:
    """What the autoscaler says of a request."""
    condition = {"type": type_, "status": "True", "reason": "Said", "message": ""}
    patch = {"status": {"conditions": [condition | {"lastTransitionTime": at}]}}
    arguments = ("--subresource=status", "--type=merge", f"--patch={json.dumps(patch)}")
    cluster.kubectl("patch", "provisioningrequest", name, *arguments, namespace=cluster.namespace)


def test_a_group_without_room_asks_once_again_after_a_failure_and_no_more_when_it_is_placed(
    cluster: Cluster, two: list[Controllers]
) -> None:
    cluster.nodes(NodeSpec("small", cpu="1"))
    create_group(cluster, "train")
    wait_until(lambda: requests(cluster), SOON, "a request")
    [(first, body)] = requests(cluster).items()
    assert body["spec"]["provisioningClassName"] == CLASS
    assert body["spec"]["parameters"] == {"ValidUntilSeconds": "600"}
    [pod_set] = body["spec"]["podSets"]
    assert pod_set["count"] == MEMBERS
    template = of_kind(cluster, "podtemplates")[pod_set["podTemplateRef"]["name"]]
    [container] = template["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "2"
    named = {one["metadata"]["annotations"][CONSUMES] for one in cluster.pods().values()}
    assert named == {first}

    two[0].kill()  # whether it led or not, one that works is left
    say(cluster, first, "Failed", LONG_AGO)

    def next_try() -> str:
        names = requests(cluster).keys()
        return min(names) if len(names) == 1 and first not in names else ""

    second = str(wait_until(next_try, SOON, "another try instead of the first"))
    assert (first[:-1], first[-1], second) == (second[:-1], "1", f"{first[:-1]}2")
    assert of_kind(cluster, "podtemplates").keys() == {f"{second}-0"}

    say(cluster, second, "Provisioned", LONG_AGO)
    cluster.nodes(*(NodeSpec(f"new{i}", cpu="2") for i in range(MEMBERS)))
    cluster.wait_bound(*(f"train-{i}" for i in range(MEMBERS)))
    wait_until(lambda: not requests(cluster), SOON, "no request any more")
    assert not of_kind(cluster, "podtemplates")


@pytest.mark.usefixtures("two")
def test_a_request_goes_with_its_group(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("small", cpu="1"))
    create_group(cluster, "gone")
    wait_until(lambda: requests(cluster), SOON, "a request")
    cluster.clear()
    cluster.kubectl("delete", "podgroup", "gone", namespace=cluster.namespace)
    wait_until(lambda: not requests(cluster), SOON, "no request any more")
    wait_until(lambda: not of_kind(cluster, "podtemplates"), SOON, "no PodTemplate any more")
