"""Pods of Deployments, Jobs and other workloads."""

import pytest
from tests.simulation.support import Json, entry

from bayplan.api.kinds import JOB
from bayplan.simulation.files import Entry, Notes
from bayplan.simulation.workloads import expand

TEMPLATE = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}"


def pods_of(text: str) -> list[Entry]:
    return [made for made in expand([entry(text)], Notes()) if made.kind.name == "Pod"]


def owner(pod: Entry) -> Json:
    (reference,) = pod.meta["ownerReferences"]
    return {key: reference[key] for key in ("kind", "name", "controller")}


def test_a_deployment_makes_a_replica_set_and_its_pods() -> None:
    text = (
        "{kind: Deployment, metadata: {name: web, namespace: n}, "
        f"spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, {TEMPLATE}}}}}"
    )
    replica_set, *pods = expand([entry(text)], Notes())
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
    assert [one.kind for one in expand([entry(text)], Notes())] == [JOB]


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_replicas_are_made_of_what_keeps_their_number(kind: str) -> None:
    text = f"{{kind: {kind}, metadata: {{name: web}}, spec: {{replicas: 2, {TEMPLATE}}}}}"
    pods = pods_of(text)
    assert [pod.name for pod in pods] == ["web-0", "web-1"]
    assert owner(pods[0]) == {"kind": kind, "name": "web", "controller": True}


def test_a_stateful_set_makes_numbered_pods_each_with_claims_of_its_own() -> None:
    text = (
        "{kind: StatefulSet, metadata: {name: db, namespace: n}, spec: {replicas: 2, "
        "ordinals: {start: 5}, volumeClaimTemplates: [{metadata: {name: data}, spec: "
        f"{{storageClassName: fast}}}}], {TEMPLATE}}}}}"
    )
    made = [one for one in expand([entry(text)], Notes()) if one.kind.name != "StatefulSet"]
    assert [str(one) for one in made] == [
        "PersistentVolumeClaim n/data-db-5",
        "Pod n/db-5",
        "PersistentVolumeClaim n/data-db-6",
        "Pod n/db-6",
    ]
    assert made[0].spec == {"storageClassName": "fast"}
    claim = {"persistentVolumeClaim": {"claimName": "data-db-5"}, "name": "data"}
    assert made[1].spec["volumes"] == [claim]
    assert made[1].meta["labels"]["apps.kubernetes.io/pod-index"] == "5"


def test_a_job_set_makes_indexed_jobs_and_their_pods() -> None:
    text = (
        "{kind: JobSet, metadata: {name: train}, spec: {replicatedJobs: [{name: w, replicas: 2, "
        f"template: {{spec: {{parallelism: 2, {TEMPLATE}}}}}}}]}}}}"
    )
    made = list(expand([entry(text)], Notes()))
    assert [one.name for one in made if one.kind is JOB] == ["train-w-0", "train-w-1"]
    pods = [one for one in made if one.kind.name == "Pod"]
    assert [pod.name for pod in pods] == [f"train-w-{job}-{i}" for job in (0, 1) for i in (0, 1)]
    labels = pods[3].meta["labels"]
    assert labels["jobset.sigs.k8s.io/jobset-name"] == "train"
    assert labels["batch.kubernetes.io/job-completion-index"] == "1"


def test_a_leader_worker_set_makes_groups_of_a_leader_and_workers() -> None:
    text = (
        "{kind: LeaderWorkerSet, metadata: {name: llm}, spec: {replicas: 2, leaderWorkerTemplate: "
        "{size: 2, leaderTemplate: {spec: {containers: [{name: leader}]}}, "
        "workerTemplate: {spec: {containers: [{name: worker}]}}}}}"
    )
    pods = pods_of(text)
    assert [(pod.name, pod.spec["containers"][0]["name"]) for pod in pods] == [
        ("llm-0", "leader"),
        ("llm-0-1", "worker"),
        ("llm-1", "leader"),
        ("llm-1-1", "worker"),
    ]
    assert [pod.meta["labels"]["leaderworkerset.sigs.k8s.io/group-index"] for pod in pods] == [
        "0",
        "0",
        "1",
        "1",
    ]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param(
            "{kind: JobSet, metadata: {name: j}, spec: {replicatedJobs: 5}}",
            "JobSet j: spec.replicatedJobs: Expected `array`, got `int`; left out",
            id="type",
        ),
        pytest.param(
            "{kind: JobSet, metadata: {name: j}, spec: {replicatedJobs: [{name: w, template: "
            "{spec: {template: {spec: {nodeSelector: 3}}}}}]}}",
            "JobSet j: spec.template.spec.nodeSelector: Expected `object`, got `int`; left out",
            id="template",
        ),
        pytest.param(
            "{kind: LeaderWorkerSet, metadata: {name: l}, spec: {leaderWorkerTemplate: "
            "{size: 1, workerTemplate: []}}}",
            "LeaderWorkerSet l: spec.template: Expected `object`, got `array`; left out",
            id="worker",
        ),
    ],
)
def test_a_workload_with_fields_of_another_type_is_left_out_and_counted(
    text: str, note: str
) -> None:
    notes = Notes()
    assert list(expand([entry(text)], notes)) == []
    assert notes.lines() == [note]
    assert notes.left_out == 1
