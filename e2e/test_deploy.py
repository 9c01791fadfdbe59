"""deploy/ itself: what the Deployment asks for; where nodes run Pods, the Deployment at work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import CONFIG, DEPLOY, NAME, OTHER, SYSTEM, Cluster, Json, pod
from e2e.provider import NodeSpec

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def deployment(shared: Cluster) -> Json:
    text = shared.kubectl("get", "deployment", NAME, "-o=json", namespace=SYSTEM)
    decoded: Json = json.loads(text)
    return decoded


@pytest.fixture
def restricted(shared: Cluster) -> Iterator[str]:
    """A namespace that takes only Pods of the Pod Security Standard "restricted"."""
    name = "bayplan-e2e-restricted"
    shared.kubectl("create", "namespace", name)
    label = "pod-security.kubernetes.io/enforce=restricted"
    shared.kubectl("label", "namespace", name, label)
    yield name
    shared.kubectl("delete", "namespace", name, "--wait=false")


def test_its_pods_meet_the_restricted_security_standard(
    shared: Cluster, deployment: Json, restricted: str
) -> None:
    spec = deployment["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    spec["automountServiceAccountToken"] = False
    body = {"metadata": {"name": "p"}, "spec": spec}
    shared.api.create_namespaced_pod(restricted, body, dry_run="All", _preload_content=False)
    loose = body | {"spec": spec | {"securityContext": {}}}
    with pytest.raises(Exception, match="violates PodSecurity"):
        shared.api.create_namespaced_pod(restricted, loose, dry_run="All", _preload_content=False)


def test_bayplan_understands_the_arguments_and_serves_the_probes(
    cluster: Cluster, deployment: Json, tmp_path: Path
) -> None:
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    here = {"--config": CONFIG, "--plugin-dir": tmp_path}
    options = [argument.partition("=") for argument in container["args"]]
    bayplan = cluster.bayplan()
    assert bayplan.argv[3] == "run"
    bayplan.argv[3:5] = [f"{o}{equals}{here.get(o, value)}" for o, equals, value in options]
    bayplan.start()
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert bayplan.endpoint.get(container[probe]["httpGet"]["path"]) == b"ok"
    bayplan.stop(grace=60)


@pytest.mark.usefixtures("kube_scheduler")
def test_the_deployment_places_pods_in_a_cluster_whose_nodes_run_it(cluster: Cluster) -> None:
    """Under a name of its own and without election: the Lease may be held by a process of ours."""
    image = cluster.plane.image
    if not image:
        pytest.skip("the nodes of this control plane run no images")
    rendered = cluster.kubectl("kustomize", str(DEPLOY))
    for old, new in (
        ("image: bayplan:0.1.0", f"image: {image}"),
        ("schedulerName: bayplan", f"schedulerName: {OTHER}"),
        ("  resourceName: bayplan", "  leaderElect: false"),
        ("replicas: 2", "replicas: 1"),
    ):
        assert old in rendered
        rendered = rendered.replace(old, new)
    manifest = cluster.plane.folder / "deploy-other.yaml"
    manifest.write_text(rendered)
    cluster.uncordon_others()
    cluster.kubectl("apply", "-f", str(manifest))
    rollout = ("rollout", "status", "deployment", NAME, "--timeout=300s")
    cluster.kubectl(*rollout, namespace=SYSTEM)
    cluster.cordon_others()
    cluster.nodes(NodeSpec("n1"))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "n1"}
    cluster.kubectl("scale", "deployment", NAME, "--replicas=0", namespace=SYSTEM)
