"""Workloads: the Pods that the controllers would make of Deployments and Jobs in a file.

So a manifest can be judged as it is written: "would these 20 replicas fit?". A workload from a
cluster has a uid, and its Pods are in the same dump: no Pods are made of it.
Answers to the deployment, replicaset and job controllers, as far as scheduling sees their Pods.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator

from bayplan.api.kinds import JOB, POD, REPLICA_SET, Kind
from bayplan.simulation.file_kinds import DEPLOYMENT
from bayplan.simulation.files import Entry, Json

HASH_LABEL = "pod-template-hash"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
_HASH = "simulated"


def expand(entries: Iterable[Entry]) -> Iterator[Entry]:
    """``entries``, with the Pods (and ReplicaSets) of Deployments and Jobs."""
    for entry in entries:
        is_manifest = "uid" not in entry.meta
        if entry.kind is not DEPLOYMENT:
            yield entry
        if is_manifest and entry.kind in _EXPANSIONS:
            yield from _EXPANSIONS[entry.kind](entry)


def _of_deployment(deployment: Entry) -> Iterator[Entry]:
    name = f"{deployment.name}-{_HASH}"
    template = copy.deepcopy(deployment.spec.get("template", {}))
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels[HASH_LABEL] = _HASH
    selector = copy.deepcopy(deployment.spec.get("selector", {}))
    selector.setdefault("matchLabels", {})[HASH_LABEL] = _HASH
    count = deployment.spec.get("replicas", 1)
    replica_set = _made(deployment, REPLICA_SET, name, {}, {"replicas": count})
    replica_set.spec["selector"] = selector
    yield replica_set
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}
    for index in range(count):
        yield _pod(deployment, f"{name}-{index}", template, owner)


def _of_job(job: Entry) -> Iterator[Entry]:
    spec = job.spec
    parallelism = spec.get("parallelism", 1)
    count = min(parallelism, spec.get("completions", parallelism))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name}
    for index in range(0 if spec.get("suspend") else count):
        pod = _pod(job, f"{job.name}-{index}", spec.get("template", {}), owner)
        labels = pod.meta.setdefault("labels", {})
        labels.setdefault("batch.kubernetes.io/job-name", job.name)
        if spec.get("completionMode") == "Indexed":
            labels.setdefault(INDEX_LABEL, str(index))
        yield pod


def _pod(workload: Entry, name: str, template: Json, owner: Json) -> Entry:
    meta = copy.deepcopy(template.get("metadata", {}))
    uid = f"{owner['kind']}-{owner['name']}"
    meta["ownerReferences"] = [{**owner, "uid": uid, "controller": True}]
    return _made(workload, POD, name, meta, copy.deepcopy(template.get("spec", {})))


def _made(workload: Entry, kind: Kind[object], name: str, meta: Json, spec: Json) -> Entry:
    meta["name"] = name
    if workload.namespace:
        meta["namespace"] = workload.namespace
    return Entry(kind, {"kind": kind.name, "metadata": meta, "spec": spec}, workload.where)


_EXPANSIONS: dict[Kind[object], Callable[[Entry], Iterator[Entry]]] = {
    DEPLOYMENT: _of_deployment,
    JOB: _of_job,
}
