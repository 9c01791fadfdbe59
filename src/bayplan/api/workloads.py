"""Namespaces, and the owners of Pods that default topology spreading and preemption ask about."""

from __future__ import annotations

from bayplan.api.meta import LabelSelector, Object, Wire


class Namespace(Object):
    """A namespace; its labels are what a namespaceSelector reads."""


class ServiceSpec(Wire):
    """A Service's selector."""

    selector: dict[str, str] = {}


class Service(Object):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Wire):
    """A ReplicationController's selector."""

    selector: dict[str, str] = {}


class ReplicationController(Object):
    """A ReplicationController."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class SelectorSpec(Wire):
    """A spec of which only the selector is read."""

    selector: LabelSelector | None = None


class ReplicaSet(Object):
    """A ReplicaSet."""

    spec: SelectorSpec = SelectorSpec()


class StatefulSet(Object):
    """A StatefulSet."""

    spec: SelectorSpec = SelectorSpec()


class PodDisruptionBudgetStatus(Wire):
    """How many Pods may still be disrupted, and which are on their way out already."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object):
    """A PodDisruptionBudget."""

    spec: SelectorSpec = SelectorSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Object):
    """A priority class."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
