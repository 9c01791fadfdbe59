"""Tally: sums of verdicts since the start, and the last of them. Memory is bounded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator

import msgspec

from bayplan.measures import Measures
from bayplan.shadow.verdict import AGREED, NotCompared, Outcome, Verdict

MOST_OWNERS = 2_000
"""Owners that are told apart; those that come later are one."""
OTHERS = "(others)"
MOST_MEASURES = 7 * 24 * 60
"""Minutes whose measures are kept: a week."""
MOST_DIFFERENCES = 200
"""Of the last verdicts, differences that a report shows."""


class OfPlugin(msgspec.Struct):
    """What a plugin has to do with differences.

    Attributes:
        prefers: decisions of which it makes most of the difference in the scores.
        points: by how much it rates our nodes higher than theirs, over all differences.
        rejects: decisions in which it rejects their node.
    """

    prefers: int = 0
    points: int = 0
    rejects: int = 0


class Skipped(msgspec.Struct):
    """Decisions in a row that were not compared, for one reason.

    Attributes:
        since: when the first was seen, seconds since the epoch.
        until: when the last was.
        first: the first Pod.
        last: the last Pod.
    """

    reason: NotCompared
    since: float
    until: float
    count: int
    first: str
    last: str


class Tally:
    """See the module's docstring. Scheduling thread only; counters may be read by any.

    Args:
        remembered: how many verdicts are kept.
        now: seconds since the epoch.

    Attributes:
        started: when the counting began.
        outcomes: decisions by what came of the comparison.
        not_compared: decisions that count for nothing, by reason.
        owners: by owner, the outcomes of its Pods that count.
        plugins: by name.
        difference: the sum of what our nodes score more.
        skipped: decisions that were passed over.
        measures: once a minute: the time, and the state of the cluster.
    """

    def __init__(self, remembered: int, now: Callable[[], float]) -> None:
        self._now = now
        self.started = now()
        self.outcomes: Counter[Outcome] = Counter()
        self.not_compared: Counter[NotCompared] = Counter()
        self.owners: dict[str, Counter[Outcome]] = {}
        self.plugins: dict[str, OfPlugin] = {}
        self.difference = 0
        self.skipped: deque[Skipped] = deque(maxlen=MOST_DIFFERENCES)
        self.measures: deque[tuple[float, bytes]] = deque(maxlen=MOST_MEASURES)
        self._last: deque[Verdict] = deque(maxlen=remembered)
        self._differences: deque[Verdict] = deque(maxlen=min(remembered, MOST_DIFFERENCES))

    def add(self, verdict: Verdict) -> None:
        """Count a decision that was compared."""
        self._last.append(verdict)
        if verdict.excused is not None:
            self.not_compared[verdict.excused] += 1
            return
        self.outcomes[verdict.outcome] += 1
        owner = verdict.owner
        if owner not in self.owners and len(self.owners) >= MOST_OWNERS:
            owner = OTHERS
        self.owners.setdefault(owner, Counter())[verdict.outcome] += 1
        if verdict.agreed:
            return
        self._differences.append(verdict)
        self.difference += verdict.difference
        for plugin, (ours, theirs) in verdict.scores.items():
            self._plugin(plugin).points += ours - theirs
        if verdict.plugin:
            of = self._plugin(verdict.plugin)
            if verdict.outcome is Outcome.BETTER:
                of.prefers += 1
            else:
                of.rejects += 1

    def skip(self, pod: str, reason: NotCompared) -> None:
        """Count a decision that was not compared."""
        self.not_compared[reason] += 1
        now, last = self._now(), self.skipped[-1] if self.skipped else None
        if last is not None and last.reason is reason and now - last.until < 60:
            last.until, last.last = now, pod
            last.count += 1
        else:
            self.skipped.append(Skipped(reason, now, now, 1, pod, pod))

    def measure(self, measures: Measures) -> None:
        """Remember the state of the cluster."""
        self.measures.append((self._now(), msgspec.json.encode(measures)))

    def of_pod(self, key: str) -> list[Verdict]:
        """What is remembered of the Pods of that ``namespace/name``, the newest first."""
        return [one for one in reversed(self._last) if key == one.pod or key in one.members]

    def differences(self) -> Iterator[Verdict]:
        """The last ones, the newest first."""
        return reversed(self._differences)

    @property
    def agreed(self) -> int:
        """How many decisions are alike."""
        return sum(count for outcome, count in self.outcomes.items() if outcome in AGREED)

    @property
    def compared(self) -> int:
        """How many decisions were compared."""
        return self.outcomes.total()

    def _plugin(self, name: str) -> OfPlugin:
        return self.plugins.setdefault(name, OfPlugin())
