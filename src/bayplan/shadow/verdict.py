"""Verdicts: what became of a Pod there, at the other scheduler, and what would have become here."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from bayplan.api.pod import Pod

Scores = dict[str, tuple[int, int]]
"""By plugin, the weighted score of our node and of theirs."""


class Outcome(StrEnum):
    """How the two decisions compare."""

    SAME = "same"
    """Their node is the only best one here."""
    EQUAL = "equal"
    """Their node is one of several best ones here."""
    BETTER = "better"
    """Their node fits here, and another one scores more."""
    NOMINATED = "nominated"
    """The Pod would take the node that is nominated for it, which they did not take."""
    INFEASIBLE = "infeasible"
    """Their node does not fit here; another one does."""
    PENDING_HERE = "pendingHere"
    """They placed the Pod; here it would wait."""
    PLACED_HERE = "placedHere"
    """There the Pod waits; here it would have a node."""
    SAME_MESSAGE = "sameMessage"
    """The Pod waits there and here, with the same message."""
    OTHER_MESSAGE = "otherMessage"
    """The Pod waits there and here, with another message."""
    SAME_EVICTIONS = "sameEvictions"
    """The Pod evicts others there and here: as good as theirs are none."""
    OTHER_EVICTIONS = "otherEvictions"
    """The Pod evicts others there and here, on another node or other ones."""
    EVICTS_HERE = "evictsHere"
    """There the Pod waits; here it would evict others."""
    EVICTS_THERE = "evictsThere"
    """There the Pod evicts others; here it would wait."""


AGREED = frozenset({Outcome.SAME, Outcome.EQUAL, Outcome.SAME_MESSAGE, Outcome.SAME_EVICTIONS})


class NotCompared(StrEnum):
    """Why a decision was not compared, or why what came of it counts for nothing."""

    IN_FLIGHT = "inFlight"
    """It would be the same had their decisions been in another order than their bindings."""
    NOT_CHECKED = "notChecked"
    """It was not found out whether it is a matter of the order: no time, or too much in flight."""
    BEHIND = "behind"
    """The shadow was too far behind."""
    NOT_WATCHED = "notWatched"
    """The Pod was bound while the watch was broken."""
    GROUP = "group"
    """A group that has a topology went to other nodes: there is no telling which are as good."""
    ERROR = "error"
    """One of the two failed: a SchedulerError."""


class Theirs(msgspec.Struct, frozen=True):
    """What the other scheduler has decided about a Pod.

    Attributes:
        node: where it goes; "" where it waits.
        message: why it waits.
        nominated: where it waits for others to leave.
        victims: names of the Pods that leave for it.
    """

    node: str = ""
    message: str = ""
    nominated: str = ""
    victims: frozenset[str] = frozenset()


class Ours(msgspec.Struct, frozen=True):
    """What would have become of the Pod here.

    Attributes:
        node: the best one by name; where others would have to leave, that one; "" for none.
        best: how many are as good.
        message: why it would wait.
        victims: names of the Pods that would leave.
    """

    node: str = ""
    best: int = 0
    message: str = ""
    victims: frozenset[str] = frozenset()


class Verdict(msgspec.Struct, frozen=True):
    """One decision, there and here: about a Pod, or about Pods of a group.

    Attributes:
        pod: ``namespace/name`` of the Pod, or of the group.
        owner: ``namespace/kind/name`` of the controlling owner; of the Pod where it has none.
        at: when their decision was seen, seconds since the epoch.
        outcome: how the two compare.
        plugin: which of ours makes the difference; "" where none does.
        difference: how much more our node scores.
        scores: of both nodes, where they score differently.
        reasons: why our plugin rejects their node.
        excused: why it does not count; None where it does.
        members: of a group, the Pods.
    """

    pod: str
    owner: str
    at: float
    outcome: Outcome
    theirs: Theirs
    ours: Ours
    plugin: str = ""
    difference: int = 0
    scores: Scores = {}
    reasons: tuple[str, ...] = ()
    excused: NotCompared | None = None
    members: tuple[str, ...] = ()

    @property
    def agreed(self) -> bool:
        """Whether both decide alike."""
        return self.outcome in AGREED

    @property
    def differs(self) -> bool:
        """Whether both decide differently, for all we know."""
        return not self.agreed and self.excused is None


def owner_of(pod: Pod) -> str:
    """``namespace/kind/name`` of what the Pod belongs to."""
    kind, name = pod.controller
    kind = kind.rpartition("/")[2]
    return f"{pod.namespace}/{kind or 'Pod'}/{name or pod.name}"


def sentence(verdict: Verdict) -> str:
    """What a person is told of it."""
    text = _sentence(verdict)
    match verdict.excused:
        case NotCompared.IN_FLIGHT:
            return f"{text} It is no difference: another order of decisions in flight explains it."
        case NotCompared.NOT_CHECKED:
            return f"{text} It may be a matter of decisions in flight, which was not found out."
    return text


def _sentence(verdict: Verdict) -> str:
    theirs, ours = verdict.theirs, verdict.ours
    group = f", {len(verdict.members)} Pods" if verdict.members else ""
    return _TEXTS[verdict.outcome].format(
        pod=f"{verdict.pod}{group}",
        there=theirs.node or theirs.nominated,
        here=ours.node,
        best=ours.best,
        more=verdict.difference,
        by=f" ({verdict.plugin})" if verdict.plugin else "",
        why=", ".join(verdict.reasons),
        said=theirs.message,
        ours=ours.message,
        leave_there=len(theirs.victims),
        leave_here=len(ours.victims),
    )


_TEXTS = {
    Outcome.SAME: "{pod}: {there} there and here.",
    Outcome.EQUAL: "{pod}: {there} there, one of {best} nodes that are as good here.",
    Outcome.BETTER: "{pod}: {there} there, {here} here, which scores {more} more{by}.",
    Outcome.NOMINATED: "{pod}: {there} there, the nominated node {here} here.",
    Outcome.INFEASIBLE: "{pod}: {there} there, where it does not fit here{by}: {why}. {here} here.",
    Outcome.PENDING_HERE: "{pod}: {there} there, waits here{by}: {ours}",
    Outcome.PLACED_HERE: "{pod}: waits there: {said} Here: {here}.",
    Outcome.SAME_MESSAGE: "{pod}: waits there and here: {said}",
    Outcome.OTHER_MESSAGE: "{pod}: waits there: {said} Here: {ours}",
    Outcome.SAME_EVICTIONS: "{pod}: {leave_there} Pods leave {there} there and here.",
    Outcome.OTHER_EVICTIONS: "{pod}: {leave_there} Pods leave {there} there, "
    "{leave_here} leave {here} here.",
    Outcome.EVICTS_HERE: "{pod}: waits there; here {leave_here} Pods leave {here} for it.",
    Outcome.EVICTS_THERE: "{pod}: {leave_there} Pods leave {there} there; waits here: {ours}",
}
