"""Namespaces, and the owners of Pods that default topology spreading and preemption read."""

from __future__ import annotations

from bayplan.api.meta import LabelSelector, Object, Wire


class Namespace(Object, frozen=True):
    """A namespace; its labels are what a namespaceSelector reads."""


class ServiceSpec(Wire, frozen=True):
    """A Service's selector."""

    selector: dict[str, str] = {}


class Service(Object, frozen=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
"""On each ReplicaSet of a Deployment, how many Pods the Deployment is to have."""


class ReplicationControllerSpec(Wire, frozen=True):
    """A ReplicationController's selector, and how many Pods it is to have."""

    selector: dict[str, str] = {}
    replicas: int | None = None


class ReplicationController(Object, frozen=True):
    """A ReplicationController."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class SelectorSpec(Wire, frozen=True):
    """A spec of which only the selector is read."""

    selector: LabelSelector | None = None


class ReplicasSpec(SelectorSpec, frozen=True):
    """A selector, and how many Pods there are to be."""

    replicas: int | None = None


class ReplicaSet(Object, frozen=True):
    """A ReplicaSet."""

    spec: ReplicasSpec = ReplicasSpec()


class StatefulSet(Object, frozen=True):
    """A StatefulSet."""

    spec: ReplicasSpec = ReplicasSpec()


Replicated = ReplicaSet | StatefulSet | ReplicationController


def replicas(owner: Replicated) -> int:
    """The number of Pods intended; of a ReplicaSet the number of its Deployment's."""
    desired = owner.metadata.annotations.get(DESIRED_REPLICAS, "")
    if desired.isascii() and desired.isdigit():
        return int(desired)
    return 1 if owner.spec.replicas is None else owner.spec.replicas


class PodDisruptionBudgetStatus(Wire, frozen=True):
    """How many Pods may still be disrupted, and which are on their way out already."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, frozen=True):
    """A PodDisruptionBudget."""

    spec: SelectorSpec = SelectorSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Object, frozen=True):
    """A priority class."""

    value: int = 0
    preemption_policy: str | None = None


NOT_MADE_AGAIN = {
    "": "no controller makes it again",
    "DaemonSet": "a DaemonSet has Pods on nodes that exist",
    "Node": "a static Pod ends with its node",
}
"""By the kind of its controller, why a Pod that is gone is not made again elsewhere."""
