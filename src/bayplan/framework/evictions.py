"""Evictions: which Pods are leaving because this scheduler has decided so, and for whom.

There is one registry for all profiles and plugins, and a reload does not change it. The cache holds
a victim as terminating from the decision on (`bayplan.cache.cache.Cache.evict`), so whoever looks
at Pods sees that it leaves; the registry says for whom.

::

    decided --- its deletion is seen ---> terminating --- it is gone ---> (absent)
       |
       +------- a call has failed ------> counts as before

The preemptor is held back (`Eviction.hold`) until the API server shows that every victim is gone or
terminating; the events of their deletion wake it. The answer of the API server is not enough:
events of victims of other preemptors could then wake the Pod before there is room. If a call fails,
nothing holds the preemptor back, because no event would wake it.

A new leader knows what the API server shows: that a Pod is terminating and has the condition
DisruptionTarget (`Pod.is_preempted`). It decides again about evictions that had not been sent.

The reasons: docs/decisions/0027-evictions-are-assumed.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET, Pod
from bayplan.cache.cache import Cache
from bayplan.framework.preemptor import GROUP, SINGLE, Preemptor
from bayplan.framework.status import Status

_LEAST_SWEEP = 256
"""Preemptors and victims that are kept before those are forgotten that are gone."""
_WORDS = {SINGLE: "pod", GROUP: "pod group"}


class Eviction:
    """The victims of one preemption, and what is known of their end.

    Scheduling thread, but for `answered`.

    Attributes:
        preemptor: for whom.
        victims: the Pods that are deleted, by uid.
        failed: whether a call has failed, so that the preemptor need not wait any longer.
    """

    def __init__(
        self, preemptor: Preemptor, plugin: str, victims: Sequence[Pod], cache: Cache
    ) -> None:
        self.preemptor = preemptor
        text = f"waiting for the preemption for this {_WORDS[preemptor.kind]} to be finished"
        self._held = Status.unresolvable(text).by(plugin)
        self.victims = {victim.uid: victim for victim in victims}
        self.failed = False
        self._cache = cache
        # Calls are sent in the order of the victims, so the last one is looked at first.
        self._staying = list(victims)
        self._there = list(victims)
        self._lock = threading.Lock()
        self._unanswered = {victim.uid for victim in victims}
        self._any_error = False

    def spare(self, victim: Pod) -> None:
        """The victim was not bound yet, and need not be deleted."""
        del self.victims[victim.uid]
        self._staying.remove(victim)
        self._there.remove(victim)

    def answered(self, victim: Pod, *, ok: bool) -> bool | None:
        """Nothing more is to be sent for ``victim``. Any thread.

        Returns:
            Whether all went well; None while the answer for another victim is missing.
        """
        with self._lock:
            self._any_error = self._any_error or not ok
            self._unanswered.discard(victim.uid)
            if self._unanswered:
                return None
            self.failed = self._any_error
            return not self.failed

    def hold(self) -> Status | None:
        """See `bayplan.framework.room.Leaving`; None as soon as a call has failed, too.

        The cache is changed before the event wakes Pods. So when the deletion of the last victim
        wakes a preemptor, that victim is no longer in the cache, and nothing holds it back.
        """
        while self._staying and not self._stays(self._staying[-1]):
            self._staying.pop()
        return None if self.failed or not self._staying else self._held

    def continues_after(self, pod: Pod) -> bool:
        """See `bayplan.framework.room.Leaving`; not where a call has failed."""
        return pod.uid in self.victims and not self.failed and not self.over

    @property
    def over(self) -> bool:
        """Whether all victims are gone."""
        while self._there and not self._is_there(self._there[-1]):
            self._there.pop()
        return not self._there

    @property
    def leaving(self) -> list[Pod]:
        """The victims still on a node, as the cache has them."""
        pods = map(self._cache.pod, self.victims)
        return [pod for pod in pods if pod is not None]

    @property
    def since(self) -> datetime | None:
        """Since when the first of `leaving` has to go; None where it is not known."""
        times = map(_left_at, self.leaving)
        return min((at for at in times if at is not None), default=None)

    def _stays(self, victim: Pod) -> bool:
        return self._cache.is_eviction_assumed(victim.uid) and self._is_there(victim)

    def _is_there(self, victim: Pod) -> bool:
        row = self._cache.nodes.row(victim.node_name)
        return row is not None and victim.uid in self._cache.nodes.pods[row]


def _left_at(pod: Pod) -> datetime | None:
    """When the Pod was to go: an assumed eviction counts as a deletion."""
    conditions = (c for c in pod.status.conditions if c.type == DISRUPTION_TARGET)
    at = next((c.last_transition_time for c in conditions), None)
    return pod.deleted if at is None else at


class Evictions:
    """All evictions in flight. Scheduling thread only.

    Args:
        cache: holds victims as terminating.
        leaves: called with each victim that counts as terminating from now on.
        stays: called with each victim whose eviction has failed.
    """

    def __init__(
        self,
        cache: Cache,
        leaves: Callable[[Pod], object] = lambda _: None,
        stays: Callable[[Pod], object] = lambda _: None,
    ) -> None:
        self._cache = cache
        self._leaves, self._stays = leaves, stays
        self._by_preemptor: dict[str, Eviction] = {}
        self._victims: set[str] = set()
        self._sweep = _LEAST_SWEEP

    def begin(self, preemptor: Preemptor, plugin: str, victims: Sequence[Pod]) -> Eviction:
        """The decision of ``plugin`` that ``victims`` leave for ``preemptor``."""
        eviction = Eviction(preemptor, plugin, victims, self._cache)
        self._by_preemptor[preemptor.uid] = eviction
        self._victims.update(eviction.victims)
        if len(self._by_preemptor) + len(self._victims) > self._sweep:
            self._forget_gone()
        return eviction

    def _forget_gone(self) -> None:
        running = self._by_preemptor.items()
        self._by_preemptor = {uid: each for uid, each in running if not each.over}
        self._victims = {uid for uid in self._victims if self._cache.pod(uid) is not None}
        self._sweep = _LEAST_SWEEP + 2 * (len(self._by_preemptor) + len(self._victims))

    def assume(self, victim: Pod, condition: Condition, now: float) -> None:
        """``victim`` counts as terminating from now on (seconds since the epoch)."""
        self._cache.evict(victim.uid, condition, datetime.fromtimestamp(now, UTC))
        self._leaves(victim)

    def spare(self, eviction: Eviction, victim: Pod) -> None:
        """The victim was not bound yet: it goes back to the queue, and need not be deleted."""
        self._victims.discard(victim.uid)
        eviction.spare(victim)

    def failed(self, victim: Pod) -> None:
        """A call has failed: ``victim`` stays, as far as the API server shows."""
        self._victims.discard(victim.uid)
        self._cache.keep(victim.uid)
        if (pod := self._cache.pod(victim.uid)) is not None and not self._cache.is_assumed(pod.uid):
            self._stays(pod)

    def leaving(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Uids of Pods with a decided eviction: no search counts on these Pods to stay."""
        if not self._victims and not self._cache.any_eviction_assumed:
            return frozenset()
        assumed = self._cache.is_eviction_assumed
        return frozenset(p.uid for p in pods if p.uid in self._victims or assumed(p.uid))

    def eviction(self, uid: str) -> Eviction | None:
        """The last eviction for the preemptor, while victims may still be there."""
        return self._by_preemptor.get(uid)

    def running(self) -> list[Eviction]:
        """The evictions with victims that are still there."""
        return [each for each in self._by_preemptor.values() if not each.over]

    def hold(self, uid: str) -> Status | None:
        """Why the preemptor must wait, see `Eviction.hold`; None if there is no need to wait."""
        eviction = self._by_preemptor.get(uid)
        return None if eviction is None else eviction.hold()
