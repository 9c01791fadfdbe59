"""InFlight: what was under way when the other scheduler decided, and what that explains.

Which orders of decisions are tried, and why, says `bayplan.shadow.moves`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

from bayplan.api import kinds
from bayplan.api.pod import Pod
from bayplan.inbox.messages import Changed
from bayplan.shadow.follows import Follows
from bayplan.shadow.moves import (
    MOST,
    SECONDS,
    Move,
    Moves,
    Rank,
    imagined,
    in_question,
    others,
)
from bayplan.shadow.prior import Written
from bayplan.shadow.shown import Seen
from bayplan.shadow.verdict import NotCompared
from bayplan.world import World

SHARE = 0.1
"""Of the time, at most, in which other orders are tried."""
SAVED_SECONDS = 1.0
"""The most of that time that is saved up."""
MOST_MOVES = 64
"""Moves after a decision that are looked at."""


class InFlight:
    """See the module's docstring. Scheduling thread only.

    Args:
        world: the state.
        follows: whose decisions may have been made in another order.
        waiting: the messages to come.
        clock: monotonic seconds.

    Attributes:
        ages: by uid of a Pod without a node, the number of the message that showed it first.
        tried: uids of Pods without a node that were refused one.
    """

    def __init__(
        self,
        world: World,
        follows: Follows,
        waiting: Iterable[Seen],
        clock: Callable[[], float],
    ) -> None:
        self._cache, self._pods = world.cache, world.handlers.pods
        self._follows, self._waiting, self._clock = follows, waiting, clock
        self._moves = Moves()
        self.ages: dict[str, int] = {}
        self.tried: set[str] = set()
        self._saved, self._saved_at = SAVED_SECONDS, clock()

    def came(self, seen: Seen, pod: Pod, written: tuple[Written, ...] = ()) -> None:
        """``pod`` has its node now; this was written before."""
        rank = None
        if pod.uid in self.ages and self._follows.is_theirs(pod):
            rank = self._rank(pod)
        self._moves.add(Move(seen.number, seen.at, pod, True, rank, written))

    def left(self, seen: Seen, pod: Pod) -> None:
        """``pod`` has left its node."""
        self._moves.add(Move(seen.number, seen.at, pod, came=False))

    def forget(self, pod: Pod) -> None:
        """``pod`` does not wait any more."""
        self.ages.pop(pod.uid, None)
        self.tried.discard(pod.uid)

    def explains(
        self,
        pod: Pod,
        uids: Collection[str],
        agrees: Callable[[], bool],
        rows: frozenset[int] | None,
        at: float,
    ) -> NotCompared | None:
        """Whether a difference may be a matter of what was in flight.

        Args:
            pod: that was decided; of a group, the first one.
            uids: all Pods that were decided.
            agrees: whether both decide alike, in the state as it is.
            rows: the nodes where a Pod more or less might change that; None for all.
            at: when the message came, seconds of the clock.
        """
        self._moves.forget(at)
        # What came before the Pod itself in the watch was no news to them.
        age = self.ages.get(pod.uid, -1)
        before = [move for move in self._moves.latest() if move.number > age]
        after = list(islice(self._coming(uids, at + SECONDS), MOST_MOVES))
        rank = self._rank(pod)
        before, after = in_question(before, after, rank)

        def matters(move: Move) -> bool:
            return rows is None or self._cache.nodes.row(move.pod.node_name) in rows

        most = max(sum(map(matters, before)), sum(map(matters, after)))
        if not most:
            return None
        if self._balance() <= 0:
            return NotCompared.NOT_CHECKED
        began = time.perf_counter()
        try:
            for other in others(before, after, rank, matters):
                with imagined(self._cache, other):
                    if agrees():
                        return NotCompared.IN_FLIGHT
        finally:
            self._saved -= time.perf_counter() - began
        return NotCompared.NOT_CHECKED if most > MOST else None

    def _coming(self, but: Collection[str], until: float) -> Iterator[Move]:
        """Their bindings to come, but those of these Pods, the next one first.

        Only these may have been decided before: all else they cannot have known yet.
        """
        for number, at, message in self._waiting:
            if at > until:
                return
            match message:
                case Changed(kind=kinds.POD, object=new) if self._follows.is_theirs(new):
                    old = self._pods.get(new.key)
                    if old is None or old.uid != new.uid or new.uid in but:
                        continue
                    if new.node_name and not old.node_name:
                        yield Move(number, at, new, True, self._rank(new))

    def _rank(self, pod: Pod) -> Rank:
        return Rank(-pod.priority, self.ages.get(pod.uid, -1), pod.uid in self.tried)

    def _balance(self) -> float:
        """Seconds that may be spent on other orders."""
        now = self._clock()
        self._saved = min(self._saved + (now - self._saved_at) * SHARE, SAVED_SECONDS)
        self._saved_at = now
        return self._saved
