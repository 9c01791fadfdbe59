"""Moves: Pods that came to a node or left one about when another Pod was decided.

Bindings are seen in the order in which the API server took them; the other scheduler may have
decided in another one, and may not have known yet what we know, or known more. So where the two
decisions differ, the same question is asked in other worlds: some moves undone that were seen
shortly before, some done that were seen shortly after. If their decision is right in one of them,
it is no difference. What the watch showed before the Pod itself, they knew; what comes after the
binding they did not know, but for their own decisions that were not bound yet. Two Pods of one
priority that were never refused leave the queue in the order of their age (`Rank`).

Which worlds, `others` says: first the order of a queue (priority, then age), then one move at a
time, then all up to one. Not every subset: among twenty moves there are a million. Where more is in
question than is tried, it is not known whether there is a difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.shadow.prior import Written

SECONDS = 1.0
"""How long before and after a decision a move counts as in flight."""
MOST = 6
"""Moves on either side that are looked at, the nearest ones."""


class Rank(NamedTuple):
    """The place of a Pod in the other scheduler's queue.

    Attributes:
        urgency: the negative priority.
        age: the number of the message that showed the Pod first.
        tried: whether an attempt has failed: then the Pod has come to the queue again.
    """

    urgency: int
    age: int
    tried: bool = False

    def is_surely_before(self, other: Rank) -> bool:
        """Whether a queue by priority and age cannot have had the two the other way round.

        A Pod of higher priority may have come when the other one was decided already.
        """
        fresh = not (self.tried or other.tried)
        return fresh and self.urgency == other.urgency and self.age < other.age


class Move(NamedTuple):
    """A Pod came to a node, or left one.

    Attributes:
        number: of the message that showed it.
        at: when that came, seconds of a monotonic clock.
        pod: with its node.
        came: whether it came.
        rank: its place in the queue; None for a Pod of others.
        written: what was written for it before it was bound.
    """

    number: int
    at: float
    pod: Pod
    came: bool
    rank: Rank | None = None
    written: tuple[Written, ...] = ()


class Moves:
    """The last moves."""

    def __init__(self) -> None:
        self._moves: deque[Move] = deque()

    def add(self, move: Move) -> None:
        """``move`` was just seen."""
        self._moves.append(move)
        self.forget(move.at)

    def forget(self, now: float) -> None:
        """Drop what is too old."""
        while self._moves and self._moves[0].at < now - SECONDS:
            self._moves.popleft()

    def latest(self) -> list[Move]:
        """The newest first."""
        return list(reversed(self._moves))


class Other(NamedTuple):
    """Another world: how it differs from what the cache holds."""

    undone: tuple[Move, ...] = ()
    done: tuple[Move, ...] = ()


def in_question(
    before: Sequence[Move], after: Sequence[Move], rank: Rank
) -> tuple[list[Move], list[Move]]:
    """The moves that may have been decided the other way round with a Pod of this ``rank``."""
    return (
        [m for m in before if m.rank is None or not m.rank.is_surely_before(rank)],
        [m for m in after if m.rank is None or not rank.is_surely_before(m.rank)],
    )


def others(
    before: Sequence[Move], after: Sequence[Move], rank: Rank, matters: Callable[[Move], bool]
) -> Iterator[Other]:
    """The worlds in which a Pod of this ``rank`` may have been decided.

    Args:
        before: moves in question that were seen before, the newest first.
        after: those that are seen after, the oldest first.
        rank: of the Pod.
        matters: whether a move alone may make a difference.
    """
    by_rank = Other(
        tuple(m for m in before if m.came and m.rank is not None and m.rank > rank),
        tuple(m for m in after if m.came and m.rank is not None and m.rank < rank),
    )
    near, soon = before[:MOST], after[:MOST]
    every = [by_rank]
    every += [Other(undone=(move,)) for move in list(filter(matters, before))[:MOST]]
    every += [Other(done=(move,)) for move in list(filter(matters, after))[:MOST]]
    every += [Other(undone=tuple(near[:end])) for end in range(2, len(near) + 1)]
    every += [Other(done=tuple(soon[:end])) for end in range(2, len(soon) + 1)]
    seen: set[frozenset[tuple[str, bool]]] = {frozenset()}
    for other in every:
        moves = other.undone + other.done
        key = frozenset((move.pod.uid, move.came) for move in moves)
        if key not in seen:
            seen.add(key)
            yield other


@contextmanager
def imagined(cache: Cache, other: Other) -> Iterator[None]:
    """Within it the cache is as in ``other``."""
    with ExitStack() as stack:
        for move in other.undone:
            stack.enter_context(_as_before(cache, move.written))
        stack.enter_context(cache.trial())
        for move in other.undone:
            _set(cache, move.pod, there=not move.came)
        for move in other.done:
            _set(cache, move.pod, there=move.came)
        yield


@contextmanager
def _as_before(cache: Cache, written: Iterable[Written]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in written:
            stack.enter_context(one.undone(cache.objects))
        yield


def _set(cache: Cache, pod: Pod, *, there: bool) -> None:
    """Have the Pod on its node, or not.

    A Pod that has moved on since stays as it is.
    """
    if not there:
        cache.remove(pod.uid)
    elif cache.pod(pod.uid) is None:
        cache.assume(pod, pod.node_name)
