"""Kinds of bayplan.dev/v1alpha1.

A Queue is a tenant, or a group of tenants, and its part of the cluster; a NodeKind is a set of
nodes that Queues can have a part of.
"""

from __future__ import annotations

from enum import StrEnum

from bayplan.api.meta import LabelSelector, Object, Wire
from bayplan.api.pod import PodShape
from bayplan.api.pod_spec import Resources
from bayplan.api.qos import QosClass, qos_class


class Order(StrEnum):
    """The order of Pods with equal priority in one queue."""

    FAIR = "Fair"
    """Namespaces take turns."""
    FIFO = "Fifo"
    """The oldest Pod first."""


class NodeKindPolicy(StrEnum):
    """Whether Pods may go to nodes of kinds that their queue does not name."""

    PREFERRED = "Preferred"
    """They may, where they fit on none of those that it names."""
    REQUIRED = "Required"
    """They may not."""


class KindQuota(Wire, frozen=True):
    """What a queue has a right to on the nodes of one kind.

    Attributes:
        name: of the NodeKind.
        guaranteed: see `QueueSpec`.
        limit: see `QueueSpec`.
        weight: see `QueueSpec`; None for that of the queue. Nodes of a kind for which any queue
            names one are divided by themselves.
    """

    name: str = ""
    guaranteed: Resources = {}
    limit: Resources = {}
    weight: int | None = None


class State(StrEnum):
    """Whether a queue takes Pods."""

    OPEN = "Open"
    DRAINING = "Draining"
    """It takes only Pods of groups that run in part."""
    CLOSED = "Closed"
    """It takes none, and may use nothing."""


class ReclaimFrom(StrEnum):
    """Which Pods of other queues go for Pods of a queue."""

    ANY = "Any"
    LOWER_PRIORITY = "LowerPriority"
    """Those of a lower priority."""


class ImproveGoal(StrEnum):
    """What a queue has Pods moved for."""

    PENDING = "Pending"
    """Pods and groups of the queue that fit nowhere."""


class Improve(Wire, frozen=True):
    """That Pods of a queue are moved without anybody asking; see docs/improve.md.

    Attributes:
        max_moves_per_hour: how many Pods, at most.
        every_seconds: between two rounds of looking for a plan, at least.
        min_age_seconds: a younger Pod stays, so also one that was moved.
        goal: what the moves are for.
    """

    max_moves_per_hour: int = 0
    every_seconds: int = 600
    min_age_seconds: int = 3600
    goal: ImproveGoal = ImproveGoal.PENDING


class QueueSpec(Wire, frozen=True):
    """What a queue has a right to; every field may be absent.

    Attributes:
        parent: the queue that this one is a part of; "" for none.
        namespace_selector: whose Pods belong to the queue; None for no namespace.
        priority_class_names: of these Pods only those of one of these classes; () for all.
        qos_classes: of these Pods only those of one of these classes; () for all.
        guaranteed: is there for the queue whenever it has Pods for it, by resource.
        limit: is never exceeded, by resource; what it does not name has no limit.
        user_limit: the same for the Pods of one user.
        user_key: the label that says whose a Pod is; where the Pod has none, the annotation.
        node_kinds: the kinds of nodes to which Pods go, those that they prefer first.
        node_kind_policy: whether Pods may go to other nodes, too.
        weight: the queue's part of idle room, relative to its siblings.
        priority: siblings with a higher one get idle room first.
        min_runtime_seconds: a Pod that runs for less is not evicted for another queue.
        reclaimable: whether Pods may be evicted for other queues. If not, the queue borrows nothing
            of what ``guaranteed`` names.
        waiting_target_seconds: while a Pod waits longer, the queue's turn comes earlier; 0: never.
        preemptible: whether Pods may be evicted for any other Pod. If not, the queue takes no more
            than what is guaranteed to it, of each resource.
        reclaim_from: which Pods of other queues go for Pods of this one.
        state: whether the queue takes Pods; parts of it are no more open than it is.
        evict_over_limit_after_seconds: for so long Pods may use more than ``limit``, if that was
            lowered, before they are evicted; None for ever.
        order: of the Pods that wait.
        improve: whether Pods of the queue are moved by the scheduler itself; None: they are not.
    """

    parent: str = ""
    namespace_selector: LabelSelector | None = None
    priority_class_names: tuple[str, ...] = ()
    qos_classes: tuple[QosClass, ...] = ()
    guaranteed: Resources = {}
    limit: Resources = {}
    user_limit: Resources = {}
    user_key: str = "bayplan.dev/user"
    node_kinds: tuple[KindQuota, ...] = ()
    node_kind_policy: NodeKindPolicy = NodeKindPolicy.PREFERRED
    weight: int = 1
    priority: int = 0
    min_runtime_seconds: int = 0
    reclaimable: bool = True
    waiting_target_seconds: int = 0
    preemptible: bool = True
    reclaim_from: ReclaimFrom = ReclaimFrom.ANY
    state: State = State.OPEN
    evict_over_limit_after_seconds: int | None = None
    order: Order = Order.FAIR
    improve: Improve | None = None

    @property
    def conditions(self) -> int:
        """How many kinds of classes a Pod has to be of; where more are, the queue comes first."""
        return bool(self.priority_class_names) + bool(self.qos_classes)

    def takes(self, shape: PodShape) -> bool:
        """Whether Pods of this shape belong to the classes, in any namespace."""
        names, classes = self.priority_class_names, self.qos_classes
        if names and shape.spec.priority_class_name not in names:
            return False
        return not classes or shape.requests.memo(qos_class) in classes

    def overlaps(self, other: QueueSpec) -> bool:
        """Whether a Pod may be of the classes of both."""
        pairs = (
            (self.priority_class_names, other.priority_class_names),
            (self.qos_classes, other.qos_classes),
        )
        return all(not a or not b or not {*a}.isdisjoint(b) for a, b in pairs)


class Queue(Object, frozen=True):
    """A Queue."""

    spec: QueueSpec = QueueSpec()


class NodeKindSpec(Wire, frozen=True):
    """Which nodes are of the kind; `node_selector` None stands for none."""

    node_selector: LabelSelector | None = None


class NodeKind(Object, frozen=True):
    """A NodeKind."""

    spec: NodeKindSpec = NodeKindSpec()
