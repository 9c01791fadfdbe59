"""HeldPods: Pods held back by limits, and which Pods are woken when there is room again.

When a Pod of a queue with 10,000 held ones ends, there is room for one, not for 10,000. So for each
event as many are woken as fit within the limits together, beside nominated Pods, for which others
may just have been evicted (`bayplan.plugins.fair_share.promised`). The others are not forgotten: a
Pod that was woken, fits within the limits and then fits on no node leaves that room to others under
those limits (`after`); so does a group, which is woken where one of its Pods fits within the
limits. What happens to a woken Pod otherwise (it is bound, or its binding fails) is an event again;
one that is deleted before its turn leaves the room until the next event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from bayplan.api.pod import Pod
from bayplan.cache.amounts import Charge, Rows, add_amounts
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree, Structure
from bayplan.cache.queue_tree.kinds import NO_KIND
from bayplan.cache.queue_tree.limits import excess
from bayplan.plugins.fair_share.promised import Promised

_Users = tuple[str, ...]
_LEAST_SWEEP = 1024
"""Pods that are held anew before those are forgotten that are gone."""
_LOOKED_AT = 16
"""Held Pods of one user that are looked at for one that fits into the room that was left."""


class HeldPods:
    """See the module's docstring."""

    def __init__(self, queues: QueueTree, promised: Promised) -> None:
        self._queues, self._promised = queues, promised
        self._held: dict[str, dict[_Users, dict[str, Pod]]] = defaultdict(dict)
        """By the name of the queue, and by users who have a limit there."""
        self._added = 0
        self._event: tuple[object, object, int] = (None, None, -1)
        self._woken: Rows = {}

    def add(self, pod: Pod) -> None:
        """A limit holds the Pod back."""
        queue, users = self._of(pod)
        held = self._held[queue].setdefault(users, {})
        held[pod.uid] = pod
        self._added += 1
        if self._added > _LEAST_SWEEP + len(held):
            self._added = 0
            gone = [uid for uid in held if not self._queues.waits(uid)]
            for uid in gone:
                del held[uid]

    def __contains__(self, pod: Pod) -> bool:
        """Whether a limit holds the Pod back, as far as is known."""
        if not self._held:
            return False
        queue, users = self._of(pod)
        return pod.uid in self._held.get(queue, {}).get(users, ())

    def discard(self, pod: Pod) -> None:
        """No limit does."""
        queue, users = self._of(pod)
        held = self._held.get(queue, {}).get(users, {})
        held.pop(pod.uid, None)
        if not held and queue in self._held:
            self._held[queue].pop(users, None)

    def is_woken(self, pod: Pod, old: Pod, new: Pod | None) -> bool:
        """Whether the Pod fits together with Pods woken by the same event (``old`` became ``new``).

        A nominated one has to fit beside the Pods on nodes only: if somebody else is to get the
        room that was made for it, it may make room once more.
        """
        queues = self._queues
        charge = queues.charge(pod)
        if charge is None:
            return True
        if self._event[0] is not old or self._event[1] is not new or self._is_outdated():
            self._event = old, new, queues.version
            self._woken = queues.sums.zeros()
        if self._promised.to(pod):
            return self._fitting(pod, charge) is not None
        kind: int | None = None
        if pod not in self and not charge.users and not charge.sums.structure.limits_above(charge):
            kind = queues.kinds.of(old.node_name)  # what holds the Pod back is on some nodes
        fitting = self._fitting(pod, charge, self._woken, self._promised.besides([pod]), kind)
        if fitting is None:
            return False
        add_amounts(self._woken, charge.links, fitting.requests)
        return True

    def _fitting(
        self,
        pod: Pod,
        charge: Charge[Structure],
        others: Rows | None = None,
        promised: Rows | None = None,
        kind: int | None = None,
    ) -> Charge[Structure] | None:
        """What the Pod would count for, within all limits; None if they are in the way everywhere.

        Args:
            pod: the Pod.
            charge: what it counts for while it waits.
            others: see `QueueTree.excess`.
            promised: see `QueueTree.excess`.
            kind: of nodes, the only one that is looked at; None for all where the Pod may go.
        """
        queues = self._queues
        charges: Iterable[Charge[Structure]] = [charge]
        if charge.sums.structure.by_kind:
            possible = queues.possible_kinds(pod) or [NO_KIND]
            charges = (queues.charge_on(pod, k) for k in possible if kind in (None, k))
        within = (c for c in charges if excess(c, c.requests, others, promised) is None)
        return next(within, None)

    def _is_outdated(self) -> bool:
        return self._event[2] != self._queues.version

    def after(self, pod: Pod) -> list[Pod]:
        """Held Pods in place of one that fits on no node: as many as fit within limits together.

        Of its queue first, then of those that are under a limit with it. Of each queue and user, so
        many are looked at.
        """
        queues = self._queues
        row = queues.leaf(pod)
        if not self._held or row == NO_QUEUE:
            return []
        woken, chosen = queues.sums.zeros(), []
        for held in self._under_limits_with(row):
            for other in list(islice(held.values(), _LOOKED_AT)):
                charge, promised = queues.charge(other), self._promised.besides([other])
                if charge is None or not queues.waits(other.uid):
                    del held[other.uid]
                elif (fitting := self._fitting(other, charge, woken, promised)) is not None:
                    del held[other.uid]
                    chosen.append(other)
                    add_amounts(woken, fitting.links, fitting.requests)
        return chosen

    def _under_limits_with(self, row: int) -> Iterator[dict[str, Pod]]:
        structure = self._queues.structure
        yield from self._held.get(structure.name(row), {}).values()
        limited = {link for link, _, _ in structure.limits[row]} - {row}
        for leaf in structure.leaves if limited else ():
            if leaf != row and not limited.isdisjoint(structure.links[leaf]):
                yield from self._held.get(structure.name(leaf), {}).values()

    def _of(self, pod: Pod) -> tuple[str, _Users]:
        charge = self._queues.charge(pod)
        if charge is None:
            return "", ()
        name = self._queues.structure.name(charge.row)
        return name, tuple([user.name for user in charge.users])
