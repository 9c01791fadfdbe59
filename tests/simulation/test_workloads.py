"""Pods of Deployments and Jobs."""

import pytest
from tests.simulation.support import Json, entry

from bayplan.api.kinds import JOB
from bayplan.simulation.files import Entry
from bayplan.simulation.workloads import expand

TEMPLATE = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}"


def pods_of(text: str) -> list[Entry]:
    return [made for made in expand([entry(text)]) if made.kind.name == "Pod"]


def owner(pod: Entry) -> Json:
    (reference,) = pod.meta["ownerReferences"]
    return {key: reference[key] for key in ("kind", "name", "controller")}


def test_a_deployment_makes_a_replica_set_and_its_pods() -> None:
    text = (
        "{kind: Deployment, metadata: {name: web, namespace: n}, "
        f"spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, {TEMPLATE}}}}}"
    )
    replica_set, *pods = expand([entry(text)])
    assert (replica_set.kind.name, replica_set.key) == ("ReplicaSet", "n/web-simulated")
    assert [pod.key for pod in pods] == ["n/web-simulated-0", "n/web-simulated-1"]
    labels = {"app": "web", "pod-template-hash": "simulated"}
    assert replica_set.spec["selector"]["matchLabels"] == labels
    assert all(pod.meta["labels"] == labels for pod in pods)
    owners = {"kind": "ReplicaSet", "name": "web-simulated", "controller": True}
    assert [owner(pod) for pod in pods] == [owners, owners]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        pytest.param("", 1, id="one-by-default"),
        pytest.param("parallelism: 3,", 3, id="parallelism"),
        pytest.param("parallelism: 5, completions: 2,", 2, id="fewer-completions"),
        pytest.param("parallelism: 5, suspend: true,", 0, id="suspended"),
    ],
)
def test_a_job_makes_as_many_pods_as_run_at_once(spec: str, count: int) -> None:
    text = f"{{kind: Job, metadata: {{name: train}}, spec: {{{spec} {TEMPLATE}}}}}"
    assert len(pods_of(text)) == count


def test_pods_of_an_indexed_job_have_their_index_as_a_label() -> None:
    text = (
        "{kind: Job, metadata: {name: train}, "
        f"spec: {{completionMode: Indexed, parallelism: 2, {TEMPLATE}}}}}"
    )
    label = "batch.kubernetes.io/job-completion-index"
    assert [pod.meta["labels"][label] for pod in pods_of(text)] == ["0", "1"]


def test_a_workload_of_a_cluster_makes_none_since_its_pods_are_in_the_dump() -> None:
    text = f"{{kind: Job, metadata: {{name: train, uid: u}}, spec: {{{TEMPLATE}}}}}"
    assert [one.kind for one in expand([entry(text)])] == [JOB]
