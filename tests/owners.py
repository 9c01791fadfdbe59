"""Jobs, JobSets and LeaderWorkerSets with their Pods, labelled as their controllers label them.

kube-controller-manager v1.37 (``pkg/controller/job``), jobset (``pkg/controllers``) and lws
(``pkg/controllers``, ``pkg/webhooks``) say how.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.batch import Job, JobSet, LeaderWorkerSet
from bayplan.api.kinds import JOB, JOB_SET, LEADER_WORKER_SET
from bayplan.testing import PodBuilder, make_object, make_pod
from bayplan.testing.builder import Builder, Json

JOB_SETS = "jobset.sigs.k8s.io/"
LEADERS = "leaderworkerset.sigs.k8s.io/"


def make_job(name: str, parallelism: int | None = None, **spec: Any) -> Builder[Job]:
    """An indexed Job; ``spec`` in the words of the API."""
    more = {} if parallelism is None else {"parallelism": parallelism}
    return make_object(JOB, name).spec(**{"completionMode": "Indexed", **more, **spec})


def pods_of_job(job: Builder[Job], indexes: Iterable[int], cpu: str = "1") -> list[PodBuilder]:
    """What the Job controller creates; Pods have their Job's labels of a JobSet, too."""
    name, uid = job.json["metadata"]["name"], job.json["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels = own | job.json["metadata"].get("labels", {})
    return [
        make_pod(f"{name}-{i}-x{i}")
        .req(cpu=cpu)
        .labels(labels)
        .label("batch.kubernetes.io/job-completion-index", str(i))
        .annotation("batch.kubernetes.io/job-completion-index", str(i))
        .meta(ownerReferences=[owner | {"controller": True, "blockOwnerDeletion": True}])
        for i in indexes
    ]


def make_job_set(name: str, *replicated: Json, **spec: Any) -> Builder[JobSet]:
    """A JobSet of these ReplicatedJobs, see `replicated`."""
    return make_object(JOB_SET, name).spec(replicatedJobs=list(replicated), **spec)


def replicated(name: str, replicas: int, parallelism: int, **more: Any) -> Json:
    """Some indexed Jobs of a JobSet."""
    job = {"parallelism": parallelism, "completions": parallelism, "completionMode": "Indexed"}
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **more}


def jobs_of(job_set: Builder[JobSet], name: str) -> list[Builder[Job]]:
    """What the JobSet controller creates for the ReplicatedJob of that name."""
    all_ = job_set.json["spec"]["replicatedJobs"]
    (own,) = [one for one in all_ if one["name"] == name]
    before = sum(one["replicas"] for one in all_[: all_.index(own)])
    whole = job_set.json["metadata"]["name"]
    return [
        make_job(f"{whole}-{name}-{i}", **own["template"]["spec"]).labels(
            {
                f"{JOB_SETS}jobset-name": whole,
                f"{JOB_SETS}replicatedjob-name": name,
                f"{JOB_SETS}replicatedjob-replicas": str(own["replicas"]),
                f"{JOB_SETS}global-replicas": str(sum(one["replicas"] for one in all_)),
                f"{JOB_SETS}restart-attempt": "0",
                f"{JOB_SETS}job-index": str(i),
                f"{JOB_SETS}job-global-index": str(before + i),
                f"{JOB_SETS}job-key": f"sha-of-{whole}-{name}-{i}",
            }
        )
        for i in range(own["replicas"])
    ]


def make_leader_worker_set(name: str, size: int, **spec: Any) -> Builder[LeaderWorkerSet]:
    """A LeaderWorkerSet."""
    builder = make_object(LEADER_WORKER_SET, name)
    return builder.spec(leaderWorkerTemplate={"size": size}, **spec)


def pods_of_group(
    leaders: Builder[LeaderWorkerSet], group: int, indexes: range, cpu: str = "1"
) -> list[PodBuilder]:
    """What the StatefulSets of one group create; index 0 is the leader."""
    whole = leaders.json["metadata"]["name"]
    size = leaders.json["spec"]["leaderWorkerTemplate"]["size"]
    leader = f"{whole}-{group}"

    def pod(index: int) -> PodBuilder:
        name, owner = (leader, whole) if index == 0 else (f"{leader}-{index}", leader)
        labels = {
            f"{LEADERS}name": whole,
            f"{LEADERS}group-index": str(group),
            f"{LEADERS}group-key": f"sha-of-{leader}",
            f"{LEADERS}worker-index": str(index),
            f"{LEADERS}template-revision-hash": "7f5c",
            "apps.kubernetes.io/pod-index": str(group if index == 0 else index),
            "controller-revision-hash": f"{owner}-66d4",
            "statefulset.kubernetes.io/pod-name": name,
        }
        builder = make_pod(name).req(cpu=cpu).labels(labels).owner("StatefulSet", owner)
        return builder.annotation(f"{LEADERS}size", str(size))

    return [pod(index) for index in indexes]
