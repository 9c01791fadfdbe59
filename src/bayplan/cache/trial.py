"""Trial: what would be if Pods were on these nodes, or gone from them, asked of the live tables.

`Cache.trial` begins one. Until it ends, Pods are assumed, forgotten and removed by the ordinary
methods of the cache, and everything that reads it (Filter plugins, counters, kept answers) sees
the tables as if that were so. At the end everything is put back, unless the trial was kept::

    with cache.trial() as trial:
        for victim in victims:
            cache.remove(victim.uid)
        placements = [...]            # attempt, cache.assume, the next attempt, ...
        if fits and not victims:
            trial.keep()

There is one writer, so nobody can look meanwhile: the cache takes in no message during a trial.

- A trial may contain others. One that is kept becomes part of the one around it, which may still
  put everything back; one that is put back leaves the rest of the outer one alone.
- A body that raises is always put back, whether or not the trial was kept before.
- Only what is assumed can be kept for good. Who leaves is for the API server to say: keeping the
  outermost trial with Pods removed in it is a ValueError, and it is put back.
- It covers what the cache holds, and so nodes, columns, journals and domain counters. What Reserve
  plugins keep (claims, devices) is theirs: undo it by `bayplan.attempt.commit.Commit.undo`.

Costs: the first change of a Pod remembers one tuple, so a cluster without trials pays for one
comparison a change. Every change costs what assuming a Pod costs: its own row of the columns and
the counters that its shape counts in; neither the number of nodes nor of Pods matters. Putting back
costs that once more for each distinct Pod, however often it was moved. Each touched row stands in
the Pod journal, so kept answers are computed again for these rows, and only these, when a shape
is next asked for. A trial that touches more rows than a journal holds (65,536) makes its readers
start over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.api.pod import Pod


class Before(NamedTuple):
    """Where a Pod stood: None where it did not count at all."""

    pod: Pod | None
    assumed: bool


@dataclass
class Trial:
    """One trial, while it lasts.

    Attributes:
        before: by uid, how each changed Pod stood when the trial began, in the order of changes.
        kept: whether the changes stay.
    """

    before: dict[str, Before] = field(default_factory=dict)
    kept: bool = False

    def keep(self) -> None:
        """Let the changes stay, those that are still to come included."""
        self.kept = True
