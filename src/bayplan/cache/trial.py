"""Trial: a hypothetical change of Pods on the live tables, rolled back at the end.

`Cache.trial` begins one. Until it ends, Pods are assumed, forgotten and removed with the usual
methods of the cache, and all readers (Filter plugins, counters, kept answers) see these changes. At
the end everything is rolled back, unless the trial was kept::

    with cache.trial() as trial:
        for victim in victims:
            cache.remove(victim.uid)
        placements = [...]            # attempt, cache.assume, the next attempt, ...
        if fits and not victims:
            trial.keep()

There is one writer, so no other thread sees a trial, and no message is applied during one.

- Trials may be nested. An inner trial that is kept becomes part of the outer one, which may still
  be rolled back. An inner trial that is rolled back does not affect the rest of the outer one.
- If the body raises an exception, the trial is always rolled back.
- Only assumed Pods can be kept. Only the API server removes Pods: if the outermost trial is kept
  with Pods removed in it, that is a ValueError, and it is rolled back.
- A trial covers the cache: nodes, columns, journals, domain counters and the order of the Pods on a
  node, by which ties between victims are broken. It does not cover the state of Reserve plugins
  (claims, devices): undo that with `bayplan.attempt.commit.Commit.undo`.

Costs: without a trial, one comparison per change. In a trial, each change costs as much as assuming
a Pod: one row of the columns, and the counters of its shape. The numbers of nodes and Pods do not
matter. The rollback costs the same once more for each distinct Pod. Each changed row is in the Pod
journal, so only the kept answers of these rows are recomputed. If a trial changes more rows than a
journal holds (65,536), its readers start over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.api.pod import Pod


class Before(NamedTuple):
    """The state of a Pod before the trial: None if it did not count on any node."""

    pod: Pod | None
    assumed: bool


@dataclass
class Trial:
    """One trial, while it lasts.

    Attributes:
        before: by uid, the state of each changed Pod before the trial, in the order of changes.
        orders: by row, the uids of its Pods before the first of them was removed.
        kept: whether the changes stay.
    """

    before: dict[str, Before] = field(default_factory=dict)
    orders: dict[int, tuple[str, ...]] = field(default_factory=dict)
    kept: bool = False

    def keep(self) -> None:
        """Keep the changes, later ones included."""
        self.kept = True
