"""Job, and JobSet and LeaderWorkerSet of Kubernetes SIGs: how many Pods each has at once."""

from __future__ import annotations

from bayplan.api.meta import Condition, Object, ObjectMeta, Wire

EXCLUSIVE_JOB = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet or Job: one topology domain for each Job."""
BY_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
"""Annotation beside `EXCLUSIVE_JOB`: its Pods are kept together by labels of nodes."""
EXCLUSIVE_GROUP = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""Annotation of a LeaderWorkerSet: one topology domain for each of its groups."""

_ENDED = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


class JobSpec(Wire, frozen=True):
    """How many Pods a Job runs at once, and in all."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class JobStatus(Wire, frozen=True):
    """What a Job has done."""

    succeeded: int = 0
    failed_indexes: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def pods_at_once(self) -> int:
        """How many Pods without a node it can have at the same time now."""
        ended = any(c.type in _ENDED and c.status == "True" for c in self.status.conditions)
        if ended or self.spec.suspend:
            return 0
        done = self.status.succeeded + _count(self.status.failed_indexes or "")
        return _at_once(self.metadata, self.spec, done)


class JobTemplate(Wire, frozen=True):
    """What the Jobs of a ReplicatedJob are made from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class DependsOn(Wire, frozen=True):
    """A ReplicatedJob that comes first."""

    name: str = ""


class ReplicatedJob(Wire, frozen=True):
    """Some Jobs of a JobSet that are alike."""

    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[DependsOn, ...] = ()


class StartupPolicy(Wire, frozen=True):
    """Whether all Jobs are created at once, or those of one ReplicatedJob after the other."""

    startup_policy_order: str = ""


class JobSetSpec(Wire, frozen=True):
    """The Jobs of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy | None = None


class JobSet(Object, frozen=True):
    """A JobSet: Jobs that belong together."""

    spec: JobSetSpec = JobSetSpec()

    def pods_to_come(self, jobs: dict[str, int]) -> int:
        """The number of Pods still to come from Jobs that do not wait for others to be ready.

        Args:
            jobs: by name of the ReplicatedJob, how many of its Jobs there are already.
        """
        return sum(
            max(replicated.replicas - jobs.get(replicated.name, 0), 0) * self._width(replicated)
            for replicated in self._created_first
        )

    @property
    def _created_first(self) -> tuple[ReplicatedJob, ...]:
        policy, all_ = self.spec.startup_policy, self.spec.replicated_jobs
        if policy is not None and policy.startup_policy_order == "InOrder":
            return all_[:1]
        return tuple(replicated for replicated in all_ if not replicated.depends_on)

    def _width(self, replicated: ReplicatedJob) -> int:
        meta, own = replicated.template.metadata, self.metadata.annotations
        if EXCLUSIVE_JOB in own:
            meta = ObjectMeta(annotations={**own, **meta.annotations})
        return _at_once(meta, replicated.template.spec, 0)


class LeaderWorkerTemplate(Wire, frozen=True):
    """How many Pods a group has, its leader included."""

    size: int = 1


class LeaderWorkerSetSpec(Wire, frozen=True):
    """The groups of a LeaderWorkerSet."""

    replicas: int = 1
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    startup_policy: str = ""


class LeaderWorkerSet(Object, frozen=True):
    """A LeaderWorkerSet: groups of a leader and its workers."""

    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()

    @property
    def pods_at_once(self) -> int:
        """The number of Pods of a group that are created before the group's leader has a node."""
        leader_first = self.spec.startup_policy == "LeaderReady"
        if leader_first or EXCLUSIVE_GROUP in self.metadata.annotations:
            return 1
        return self.spec.leader_worker_template.size


def _at_once(meta: ObjectMeta, spec: JobSpec, done: int) -> int:
    width = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        width = min(width, max(spec.completions - done, 0))
    if EXCLUSIVE_JOB in meta.annotations and BY_NODE_SELECTOR not in meta.annotations:
        # The JobSet controller refuses the others until the first one has a node.
        width = min(width, 1)
    return width


def _count(indexes: str) -> int:
    """How many numbers there are in such as ``1,3-5``."""
    pairs = [part.split("-") for part in indexes.split(",") if part]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in pairs)
