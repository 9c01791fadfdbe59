"""The plugin API: the base class, and the values that plugins are given and answer with.

A plugin is a class derived from `Plugin`. It takes part in an extension point by having the methods
of one of the Protocols of `bayplan.framework.points`. Every method gets the `CycleState` of the
attempt and the `Pod`. Answers are `Status` values (None means Success), never exceptions.

Scheduling-cycle methods run on the scheduling thread, which alone changes the tables: what a plugin
sees there is consistent and holds still. PreBind, Bind and PostBind run on binding workers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from bayplan.api.kinds import Kind
from bayplan.api.pod import Pod, PodShape, SpecPart
from bayplan.cache.node_table import BoolArray, IntArray, NodeInfo, NodeTable
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import Handle
from bayplan.framework.status import Status

Integers = npt.NDArray[np.integer[Any]]
"""Integers of any width, signed or not: reason codes and scores."""

MAX_NODE_SCORE = 100
"""Highest score of a node after normalizing; the lowest is 0."""

UNBOUNDED = 1 << 32
"""`BoundsCopies.copies` without a bound; sums over all nodes stay exact in 64 bits."""


class Depends(enum.Flag):
    """What a plugin's answer for a node depends on, besides the Pod's shape.

    Without CLUSTER an answer is kept per Pod shape and computed again only for rows that
    moved, and so are pre_filter and pre_score; with it (the default) one is asked in every cycle.
    """

    NODE = enum.auto()
    """The node object of that row: labels, taints, allocatable, ..."""
    PODS = enum.auto()
    """The Pods on that row."""
    RESOURCES = enum.auto()
    """What the node of that row offers, and what the Pods there request in sum and how many they
    are: `LiveNodeTable.load`. Alone, it lets an answer serve every row that is as full."""
    CLUSTER = enum.auto()
    """Anything else: other nodes, other objects, time, the Pod's name and those of its claims."""


class PodPart(enum.Enum):
    """The part of a Pod that a row-local plugin reads; Pods with equal parts share answers.

    Where a plugin needs two of these, it reads the whole shape.
    """

    SHAPE = "shape"
    """Anything that `PodShape` has: namespace, labels, owner and the whole spec."""
    CONSTRAINTS = "constraints"
    """`PodShape.constraints`: the spec without what is requested."""
    REQUESTS = "requests"
    """`PodShape.requests`: what containers request and limit, overhead, Pod-level resources."""

    def of(self, shape: PodShape) -> PodShape | SpecPart:
        """That part of ``shape``."""
        match self:
            case PodPart.CONSTRAINTS:
                return shape.constraints
            case PodPart.REQUESTS:
                return shape.requests
        return shape


@dataclass(frozen=True)
class Normalizer:
    """Scales scores so that the highest becomes 100 (``reverse``: becomes 0, and 0 becomes 100).

    All-zero scores stay 0 (``reverse``: become 100).
    """

    reverse: bool = False

    def measure(self, scores: Integers, feasible: BoolArray) -> Any:
        """What normalizing needs to know of the scores where ``feasible``: here the highest."""
        return int((scores * feasible).max(initial=0))

    def __call__(self, scores: Integers, measure: Any) -> IntArray:
        """``scores`` scaled by the `measure` of those of all feasible nodes."""
        if measure == 0:
            return np.full(scores.shape, MAX_NODE_SCORE if self.reverse else 0, np.int64)
        scaled: IntArray = scores.astype(np.int64, copy=False) * MAX_NODE_SCORE // measure
        return MAX_NODE_SCORE - scaled if self.reverse else scaled


class Plugin:
    """Base of all plugins; `bayplan.framework.points` has the methods that one may have."""

    name: ClassVar[str] = ""
    """What the configuration calls it; the class's name unless set."""
    Args: ClassVar[type | None] = None
    """A pydantic model or dataclass for the plugin's pluginConfig args, or None for no args."""
    args: object
    """The checked arguments; a plugin that has some declares their type: ``args: MyArgs``."""
    kinds: ClassVar[tuple[Kind[object], ...]] = ()
    """What the plugin reads in ``handle.objects`` or registers events for. Nodes, Pods and
    Namespaces are watched without being named here."""
    filter_depends: Depends = Depends.CLUSTER
    score_depends: Depends = Depends.CLUSTER
    reads: ClassVar[PodPart] = PodPart.SHAPE
    """What the answers depend on, besides rows, where none depends on CLUSTER."""
    normalizer: ClassVar[Normalizer | None] = None
    """How to normalize scores, where dividing by the highest one is all there is to it."""
    pure: ClassVar[bool] = False
    """Whether PostFilter does nothing by itself: what is to be done is in ``state.effects``. Then
    the plugin is asked outside of the scheduling cycle, too, as by ``bayplan explain``."""
    idle: frozenset[Point] = frozenset()
    """The extension points where there is nothing to do with these arguments; set by __init__."""
    blocking: ClassVar[bool] = False
    """Whether filter and score wait for something (a network service): they then run on worker
    threads, several nodes at a time."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __init__(self, args: object, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    @classmethod
    def kinds_for(cls, args: Any) -> tuple[Kind[object], ...]:  # noqa: ARG003
        """`kinds`, where what is read does not depend on the checked arguments."""
        return cls.kinds

    def close(self) -> None:
        """Called once when the plugin is no longer used: replaced by a reload, or at the end.

        Stop threads and close connections here. Every Pod that the plugin had to do with is
        bound or back in the queue by then; PostBind alone may still run. On the scheduling thread.
        """


@dataclass(frozen=True)
class PreFilterResult:
    """The only nodes worth looking at; None means all, any set or list of names will do."""

    node_names: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.node_names is not None:
            object.__setattr__(self, "node_names", frozenset(self.node_names))


class NodeStatuses:
    """Why each node was rejected, kept as arrays and put into words on demand.

    Attributes:
        fits: (n,) the nodes that no plugin rejected.
    """

    fits: BoolArray

    def status(self, row: int) -> Status:
        """The status of the node at ``row``."""
        raise NotImplementedError

    def rows_with(self, unresolvable: bool) -> IntArray:
        """Rows that were rejected with UnschedulableAndUnresolvable (True) or otherwise (False)."""
        raise NotImplementedError


@dataclass
class FilterFailure:
    """The argument of PostFilter plugins: no node fits ``pod``, and why.

    Attributes:
        nodes: the full table.
        statuses: why each node was rejected.
        candidates: (k,) rows whose rejection eviction may resolve (status Unschedulable).
    """

    nodes: NodeTable
    statuses: NodeStatuses
    candidates: IntArray


@dataclass(frozen=True)
class PostFilterResult:
    """What a PostFilter plugin answers.

    Attributes:
        status: Success when it made room, Unschedulable with the message for the Pod otherwise.
        nominated_node: the node the Pod will fit on; "" clears a nomination; None leaves it.
        explain: makes plain data that explains the answer to people: ``victims``, names of Pods,
            and ``candidates``, the same by node.
    """

    status: Status
    nominated_node: str | None = None
    explain: Callable[[], dict[str, Any]] | None = None


class QueuedPod(Protocol):
    """A Pod in the queue, as queue sort plugins see it."""

    @property
    def pod(self) -> Pod:
        """The Pod."""

    @property
    def timestamp(self) -> float:
        """When it entered the queue last, seconds of the queue's clock."""

    @property
    def attempts(self) -> int:
        """How often it was tried already."""

    @property
    def completes_group(self) -> bool:
        """Whether the Pod's group runs, but with fewer Pods than its minimum.

        As it was when the Pod entered its place in the queue.
        """


__all__ = [
    "MAX_NODE_SCORE",
    "UNBOUNDED",
    "BoolArray",
    "CycleState",
    "Depends",
    "FilterFailure",
    "IntArray",
    "Integers",
    "NodeInfo",
    "NodeStatuses",
    "NodeTable",
    "Normalizer",
    "Plugin",
    "PostFilterResult",
    "PreFilterResult",
    "QueuedPod",
]
