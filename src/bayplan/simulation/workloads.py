"""Workloads: the Pods that controllers would make of Deployments, Jobs and the like in a file.

So a manifest can be judged as it is written: "would these 20 replicas fit?". A workload from a
cluster has a uid, and its Pods are in the same dump: no Pods are made of it. All Pods are made that
may run at once, also where a controller makes one after the other has started.
Answers to the controllers of Kubernetes, of JobSet and of LeaderWorkerSet, as far as scheduling
sees their Pods.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator

from bayplan.api.batch import JobSet, LeaderWorkerSet
from bayplan.api.kinds import (
    JOB,
    JOB_SET,
    LEADER_WORKER_SET,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from bayplan.cache.inferred_groups import (
    COMPLETION_INDEX,
    GROUP_INDEX,
    JOB_SET_NAME,
    LEADER_WORKER_SET_NAME,
    REPLICATED_JOB,
)
from bayplan.simulation.checks import check_fields, decode, leave_out
from bayplan.simulation.file_kinds import DEPLOYMENT
from bayplan.simulation.files import Entry, Json, Notes
from bayplan.simulation.schema import UnusableError, schema

HASH_LABEL = "pod-template-hash"
_HASH = "simulated"


def expand(entries: Iterable[Entry], notes: Notes) -> Iterator[Entry]:
    """``entries``, with the Pods of workloads, and what else their controllers make.

    A workload that its API server would refuse is left out, which ``notes`` says.
    """
    for entry in entries:
        if "uid" in entry.meta or entry.kind not in _EXPANSIONS:
            if entry.kind is not DEPLOYMENT:
                yield entry
            continue
        try:
            made = list(_EXPANSIONS[entry.kind](entry))
            if entry.kind in (JOB_SET, LEADER_WORKER_SET):  # the schema knows none of these
                for one in made:
                    check_fields(one, notes)
        except UnusableError as problem:
            leave_out(entry, problem, notes)
            continue
        if entry.kind is not DEPLOYMENT:
            yield entry
        yield from made


def _of_deployment(deployment: Entry) -> Iterator[Entry]:
    name = f"{deployment.name}-{_HASH}"
    template = copy.deepcopy(deployment.spec.get("template", {}))
    template.setdefault("metadata", {}).setdefault("labels", {})[HASH_LABEL] = _HASH
    selector = copy.deepcopy(deployment.spec.get("selector", {}))
    selector.setdefault("matchLabels", {})[HASH_LABEL] = _HASH
    count = deployment.spec.get("replicas", 1)
    spec = {"replicas": count, "selector": selector, "template": template}
    replica_set = _made(deployment, REPLICA_SET, name, {}, spec)
    yield replica_set
    yield from _replicas(replica_set)


def _replicas(workload: Entry) -> Iterator[Entry]:
    for index in range(workload.spec.get("replicas", 1)):
        template = workload.spec.get("template", {})
        yield _pod(workload, f"{workload.name}-{index}", template, _owner(workload))


def _of_stateful_set(workload: Entry) -> Iterator[Entry]:
    """Claims are made of its templates, one each for every Pod."""
    spec = workload.spec
    start = spec.get("ordinals", {}).get("start", 0)
    claims = spec.get("volumeClaimTemplates", [])
    for index in range(start, start + spec.get("replicas", 1)):
        name = f"{workload.name}-{index}"
        pod = _pod(workload, name, spec.get("template", {}), _owner(workload))
        labels = pod.meta.setdefault("labels", {})
        labels["statefulset.kubernetes.io/pod-name"] = name
        labels["apps.kubernetes.io/pod-index"] = str(index)
        volumes = {volume.get("name"): volume for volume in pod.spec.get("volumes", [])}
        for template in claims:
            meta = copy.deepcopy(template.get("metadata", {}))
            volume = meta.get("name", "")
            claim = f"{volume}-{name}"
            volumes[volume] = {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            claimed = copy.deepcopy(template.get("spec", {}))
            yield _made(workload, PERSISTENT_VOLUME_CLAIM, claim, meta, claimed)
        if volumes:
            pod.spec["volumes"] = list(volumes.values())
        yield pod


def _of_job(job: Entry) -> Iterator[Entry]:
    spec = job.spec
    parallelism = spec.get("parallelism", 1)
    count = min(parallelism, spec.get("completions", parallelism))
    for index in range(0 if spec.get("suspend") else count):
        pod = _pod(job, f"{job.name}-{index}", spec.get("template", {}), _owner(job))
        labels = pod.meta.setdefault("labels", {})
        labels.setdefault("batch.kubernetes.io/job-name", job.name)
        if spec.get("completionMode") == "Indexed":
            labels.setdefault(COMPLETION_INDEX, str(index))
        yield pod


def _of_job_set(job_set: Entry) -> Iterator[Entry]:
    decoded: JobSet = decode(job_set)
    if job_set.spec.get("suspend"):
        return
    for replicated, its in zip(
        decoded.spec.replicated_jobs, job_set.spec.get("replicatedJobs", []), strict=True
    ):
        for index in range(replicated.replicas):
            template = copy.deepcopy(its.get("template", {}))
            labels = {
                JOB_SET_NAME: job_set.name,
                REPLICATED_JOB: replicated.name,
                "jobset.sigs.k8s.io/job-index": str(index),
            }
            name = f"{job_set.name}-{replicated.name}-{index}"
            spec, meta = template.get("spec", {}), template.get("metadata", {})
            spec.setdefault("completionMode", "Indexed")
            job = _made(job_set, JOB, name, meta, spec)
            schema().check(JOB.name, job.data)
            of_pods = spec.setdefault("template", {}).setdefault("metadata", {})
            for labelled in (meta, of_pods):
                labelled.setdefault("labels", {}).update(labels)
            meta["ownerReferences"] = [_owner(job_set)]
            yield job
            yield from _of_job(job)


def _of_leader_worker_set(leaders: Entry) -> Iterator[Entry]:
    decoded: LeaderWorkerSet = decode(leaders)
    templates = leaders.spec.get("leaderWorkerTemplate", {})
    worker = templates.get("workerTemplate", {})
    leader = templates.get("leaderTemplate", worker)
    for template in (leader, worker):
        schema().check(DEPLOYMENT.name, {"spec": {"template": template}})
    owner = {**_owner(leaders), "apiVersion": "apps/v1", "kind": "StatefulSet"}
    for group in range(decoded.spec.replicas):
        first = f"{leaders.name}-{group}"
        for index in range(decoded.spec.leader_worker_template.size):
            its_owner = {**owner, "name": first, "uid": f"StatefulSet-{first}"} if index else owner
            name = f"{first}-{index}" if index else first
            pod = _pod(leaders, name, worker if index else leader, its_owner)
            pod.meta.setdefault("labels", {}).update(
                {
                    LEADER_WORKER_SET_NAME: leaders.name,
                    GROUP_INDEX: str(group),
                    "leaderworkerset.sigs.k8s.io/worker-index": str(index),
                }
            )
            yield pod


def _owner(workload: Entry) -> Json:
    kind = workload.kind
    uid = f"{kind.name}-{workload.name}"
    named = {"apiVersion": kind.api_version, "kind": kind.name, "name": workload.name, "uid": uid}
    return {**named, "controller": True}


def _pod(workload: Entry, name: str, template: Json, owner: Json) -> Entry:
    meta = copy.deepcopy(template.get("metadata", {}))
    meta["ownerReferences"] = [owner]
    return _made(workload, POD, name, meta, copy.deepcopy(template.get("spec", {})))


def _made(workload: Entry, kind: Kind[object], name: str, meta: Json, spec: Json) -> Entry:
    meta["name"] = name
    if workload.namespace:
        meta["namespace"] = workload.namespace
    return Entry(kind, {"kind": kind.name, "metadata": meta, "spec": spec}, workload.where)


_EXPANSIONS: dict[Kind[object], Callable[[Entry], Iterator[Entry]]] = {
    DEPLOYMENT: _of_deployment,
    REPLICA_SET: _replicas,
    REPLICATION_CONTROLLER: _replicas,
    STATEFUL_SET: _of_stateful_set,
    JOB: _of_job,
    JOB_SET: _of_job_set,
    LEADER_WORKER_SET: _of_leader_worker_set,
}
