"""Orders: what of a plan is carried out, and what the scheduler answers, as they are in a Lease.

The process that applies a plan writes an `Order` into the Lease that says who applies one, and
renews the Lease; the running scheduler writes its `Answer` beside it (`bayplan.app.improvement`).
Both are JSON in an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

import msgspec

from bayplan.api.node import Node

ORDER = "bayplan.dev/moves"
"""Annotation of the Lease: an `Order`."""
ANSWER = "bayplan.dev/rooms"
"""Annotation of the Lease: an `Answer`."""
MOVED = "bayplan.dev/moved"
"""Annotation of the Lease that stays: what Queues moved by themselves, a list of `Moved`."""
SUFFIX = "-improve"
"""Of the Lease's name, after that of the scheduler's own Lease, which is in the same namespace."""

T = TypeVar("T")


class Target(msgspec.Struct, frozen=True):
    """A Pod and its next node.

    Attributes:
        pod: ``namespace/name``.
        uid: of the Pod.
        to: the name of the node.
        step: of the move, from 1; 0 for a Pod of the goal.
    """

    pod: str
    uid: str
    to: str
    step: int = 0


class Order(msgspec.Struct, frozen=True):
    """A plan that is being carried out.

    Attributes:
        token: of the plan.
        moves: in their order.
        goal: Pods that wait, and where they go in the end.
        step: the next one; one more than the last for the goal.
        mends: see `bayplan.improve.goals.Goal`.
    """

    token: str
    moves: tuple[Target, ...]
    goal: tuple[Target, ...] = ()
    step: int = 1
    mends: bool = False

    @property
    def steps(self) -> list[tuple[Target, ...]]:
        """The moves of each step."""
        return [tuple(moves) for _, moves in groupby(self.moves, attrgetter("step"))]


class Answer(msgspec.Struct, frozen=True):
    """What the scheduler says of an order.

    Attributes:
        by: which scheduler.
        order: the token of the order, and who gave it.
        step: up to which step it has proven that the order can be carried out from now on, with
            all rooms held.
        made: by uid of the Pods of the order, which Pods are there in their place.
        placed: those of ``made`` that were bound.
        failed: what differs from the order, as a sentence; "" for nothing.
    """

    by: str
    order: tuple[str, str]
    step: int = 0
    made: Mapping[str, str] = {}
    placed: Mapping[str, str] = {}
    failed: str = ""


class Moved(msgspec.Struct, frozen=True):
    """That a Queue had a plan carried out.

    Attributes:
        queue: its name.
        at: when the plan was begun, in seconds since the epoch.
        moves: of the plan.
    """

    queue: str
    at: float
    moves: int


def read(annotations: Mapping[str, str], name: str, type_: type[T]) -> T | None:
    """The annotation; None where there is none, or nothing of this type."""
    try:
        return msgspec.json.decode(annotations[name], type=type_)
    except (KeyError, msgspec.DecodeError):
        return None


def written(value: Order | Answer | Iterable[Moved]) -> str:
    """The text of an annotation."""
    return msgspec.json.encode(value).decode()


def fingerprint(node: Node) -> str:
    """Of what a plan depends on of a node; not of what its kubelet reports every few minutes."""
    labels, allocatable = sorted(node.labels.items()), sorted(node.status.allocatable)
    amounts = [str(node.status.allocatable[name]) for name in allocatable]
    said = [node.uid, labels, node.spec, allocatable, amounts]
    return sha256(msgspec.json.encode(said)).hexdigest()[:16]
