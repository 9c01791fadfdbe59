"""Inferred groups: Pods with a common owner, without a PodGroup.

The minimum of such a group is what its controller creates before any of its Pods has a node. Less
would not be the whole group; more would never come, as the controller waits for the first ones.
Whether a Job belongs to a JobSet, and a Pod to one of them, is said by the labels that their
controllers set.

===================  ==========================  =================================================
owner                group                       its minimum
===================  ==========================  =================================================
`JOB_SET`            all Pods of the JobSet      what its Jobs can have at once, with those Jobs
                                                 that are still to be created
`LEADER_WORKER_SET`  a leader and its workers    size; the leader alone where workers wait for it
`JOB`                all Pods of an indexed Job  parallelism, or as many as are left
===================  ==========================  =================================================

The key of a group is ``namespace/KIND/name``, which no PodGroup can have.
"""

from __future__ import annotations

from collections.abc import Collection

from bayplan.api.batch import Job, JobSet
from bayplan.api.kinds import JOB, JOB_SET, LEADER_WORKER_SET, Kind
from bayplan.api.meta import Object
from bayplan.api.pod import PodShape

JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
LEADER_WORKER_SET_NAME = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

OWNERS: dict[str, tuple[Kind[Object], ...]] = {
    JOB_SET.name: (JOB_SET, JOB),
    LEADER_WORKER_SET.name: (LEADER_WORKER_SET,),
    JOB.name: (JOB,),
}
"""By kind of owner, what has to be watched; a Pod is in the group of the first one that it has."""

_JOB_OWNER = f"{JOB.api_version}/{JOB.name}"


def inferred_key(shape: PodShape, owners: Collection[str]) -> str:
    """The key of the group of Pods with this shape, if one of ``owners`` owns them; "" for none."""
    labels = shape.labels
    if JOB_SET.name in owners and (job_set := labels.get(JOB_SET_NAME)):
        return _key(shape.namespace, JOB_SET, job_set)
    leaders, index = labels.get(LEADER_WORKER_SET_NAME), labels.get(GROUP_INDEX)
    if LEADER_WORKER_SET.name in owners and leaders and index:
        return _key(shape.namespace, LEADER_WORKER_SET, f"{leaders}-{index}")
    kind, name = shape.owner
    if kind == _JOB_OWNER and JOB.name in owners and COMPLETION_INDEX in labels:
        return _key(shape.namespace, JOB, name)
    return ""


def owner_of(key: str) -> tuple[str, str] | None:
    """Kind and ``namespace/name`` of what the group is inferred from; None for a PodGroup."""
    namespace, kind, name = (*key.split("/"), "")[:3]
    if not name:
        return None
    if kind == LEADER_WORKER_SET.name:
        name = name.rpartition("-")[0]
    return kind, f"{namespace}/{name}"


def says_something_about(key: str, owner: Object) -> bool:
    """Whether what the group asks for follows from this object, among others."""
    kind, name = owner_of(key) or ("", "")
    match owner:
        case Job():
            job_set = f"{owner.namespace}/{owner.labels.get(JOB_SET_NAME, '')}"
            return (kind, name) in ((JOB.name, owner.key), (JOB_SET.name, job_set))
        case JobSet():
            return (kind, name) == (JOB_SET.name, owner.key)
        case _:
            return (kind, name) == (LEADER_WORKER_SET.name, owner.key)


def _key(namespace: str, kind: Kind[Object], name: str) -> str:
    return f"{namespace}/{kind.name}/{name}"
