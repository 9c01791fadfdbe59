"""PodGroups and ElasticQuotas: of scheduling.x-k8s.io/v1alpha1, and PodGroups of Kubernetes itself.

`PodGroup` is what the plugin Coscheduling reads. `KubernetesPodGroup`, of
scheduling.k8s.io/v1beta1, is what GangScheduling reads, and `CompositePodGroup`, of v1alpha3: a
group of such groups.
"""

from __future__ import annotations

from bayplan.api.meta import Condition, Object, Wire
from bayplan.api.pod_spec import Resources

CONSUMES_REQUEST = "autoscaling.x-k8s.io/consume-provisioning-request"
"""On a Pod, the ProvisioningRequest by which an autoscaler adds nodes for it, and by no other."""
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""The condition of a PodGroup of Kubernetes."""


class PodGroupSpec(Wire, frozen=True):
    """What a group asks for; every field may be absent."""

    min_member: int = 0
    min_resources: Resources = {}
    schedule_timeout_seconds: int | None = None


class PodGroup(Object, frozen=True):
    """A PodGroup: Pods that are placed at once, or not at all."""

    spec: PodGroupSpec = PodGroupSpec()


class ElasticQuotaSpec(Wire, frozen=True):
    """What the Pods of a namespace may use. An absent list is not an empty one."""

    min: Resources | None = None
    max: Resources | None = None


class ElasticQuota(Object, frozen=True):
    """An ElasticQuota: the guaranteed and the maximum resources of a namespace."""

    spec: ElasticQuotaSpec = ElasticQuotaSpec()


class GangPolicy(Wire, frozen=True):
    """All of so many Pods, or none; of a CompositePodGroup, so many of the groups below it."""

    min_count: int = 0
    min_group_count: int = 0


class SchedulingPolicy(Wire, frozen=True):
    """Gang, or (without one) basic: what is in it is tried together, and each may fail alone."""

    gang: GangPolicy | None = None


class AllDisruptionMode(Wire, frozen=True):
    """Has no fields."""


class DisruptionMode(Wire, frozen=True):
    """Whether preemption takes the Pods of a group one by one (single) or as a whole (all)."""

    all: AllDisruptionMode | None = None


class TopologyConstraint(Wire, frozen=True):
    """All Pods of a group go to nodes with one value of the label ``key``."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True):
    """Where the Pods of a group go; the API server takes at most one topology."""

    topology: tuple[TopologyConstraint, ...] = ()


class KubernetesPodGroupSpec(Wire, frozen=True):
    """What a group asks for; both kinds of groups have the same fields."""

    parent_composite_pod_group_name: str = ""
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: int | None = None


class PodGroupStatus(Wire, frozen=True):
    """What was said of a PodGroup."""

    conditions: tuple[Condition, ...] = ()


class KubernetesPodGroup(Object, frozen=True):
    """A PodGroup of Kubernetes: Pods name theirs in ``spec.schedulingGroup``."""

    spec: KubernetesPodGroupSpec = KubernetesPodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def minimum(self) -> int:
        """As many Pods have to have nodes: ``minCount`` of a gang, else 1."""
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count

    @property
    def is_gang(self) -> bool:
        """Whether less than the minimum is nothing."""
        return self.spec.scheduling_policy.gang is not None

    @property
    def is_scheduled(self) -> bool:
        """Whether the group was placed once, which is never taken back."""
        found = (c.status for c in self.status.conditions if c.type == INITIALLY_SCHEDULED)
        return next(found, "") == "True"

    @property
    def priority(self) -> int:
        """spec.priority; 0 when unset."""
        return self.spec.priority or 0

    @property
    def topology_key(self) -> str:
        """The label of which all Pods need one value; "" for none."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints and constraints.topology else ""

    @property
    def is_one_unit(self) -> bool:
        """Whether preemption takes all of its Pods or none."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None


class CompositePodGroup(KubernetesPodGroup, frozen=True):
    """A group of PodGroups of Kubernetes, and of such groups: these name it as their parent."""

    @property
    def minimum(self) -> int:
        """As many groups below it have to be placed: ``minGroupCount`` of a gang, else 1."""
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_group_count
