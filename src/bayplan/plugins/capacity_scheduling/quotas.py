"""Quotas: the ElasticQuotas, and what the namespaces use.

What a namespace uses is the sum over its Pods in the cache, assumed ones included; it is kept for
every namespace, so a quota that is made after its Pods is right at once. `recount` proves the sums.
Pods that a scheduler has preempted are in the sums until they are gone, and in sums of their own:
what will be used (`Quota.staying`) is what decides who is evicted.

One quota counts in a namespace: the oldest, of equally old ones the first by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from bayplan.api.kinds import ELASTIC_QUOTA
from bayplan.api.pod import Pod
from bayplan.api.quantity import QuantityError
from bayplan.api.scheduling import ElasticQuota
from bayplan.cache.counted_pods import CountedPods
from bayplan.cache.objects import ObjectStore
from bayplan.framework.services import ObjectFault
from bayplan.plugins.capacity_scheduling.amounts import (
    UNLIMITED,
    Amounts,
    add,
    exceeds,
    request,
    room,
    without,
)
from bayplan.plugins.shared.effective_resources import counted
from bayplan.plugins.shared.resource_names import CORE

_EPOCH = datetime.fromtimestamp(0, UTC)
_BOUNDS_KEPT = 4096
_Sums = defaultdict[str, dict[str, int]]
"""Amounts by namespace."""


class Quota:
    """The quota of one namespace.

    Attributes:
        namespace: whose Pods it counts.
        minimum: what they are guaranteed.
        maximum: the most that they may use.
        used: what they use; the live sum, read only.
        leaving: what of that preempted Pods use; likewise.
    """

    def __init__(
        self, namespace: str, minimum: Amounts, maximum: Amounts, used: Amounts, leaving: Amounts
    ) -> None:
        self.namespace = namespace
        self.minimum = minimum
        self.maximum = maximum
        self.used = used
        self.leaving = leaving

    @property
    def staying(self) -> Amounts:
        """The usage after all leaving Pods are gone."""
        return without(self.used, self.leaving)

    def room_below_maximum(self, more: Amounts) -> dict[str, int]:
        """What may come on top of ``more``; a resource that the maximum does not name is free.

        What is leaving does not count.
        """
        return room(self.maximum, self.staying, more, UNLIMITED)

    def exceeds_minimum_with(self, more: Amounts) -> bool:
        """Whether the namespace would be above its minimum with ``more``, without what leaves."""
        return exceeds(self.minimum, self.staying, more, 0)

    def exceeds_minimum(self, used: Amounts) -> bool:
        """Whether the namespace would be above its minimum with a usage of ``used``."""
        return exceeds(self.minimum, {}, used, 0)


class Bounds:
    """What may be in use at most, so that a Pod, or several together, are within the limits.

    Attributes:
        own: of its namespace, by resource.
        total: of all namespaces with a quota together, for everything that these use.
    """

    def __init__(self, quotas: Quotas, quota: Quota, own: Amounts, total: Amounts) -> None:
        names = dict.fromkeys(quotas.total_used, 0)
        self.own = tuple(room(quota.maximum, {}, own, UNLIMITED).items())
        self.total = tuple(room(quotas.total_minimum, {}, {**names, **total}, 0).items())
        self.names = len(names)


class Quotas:
    """All quotas, and what namespaces use. Scheduling thread only.

    Attributes:
        by_namespace: the quota that counts in each namespace that has one.
        total_minimum: what all namespaces with a quota are guaranteed together.
        total_used: what they use together.
        total_leaving: what of that preempted Pods use.
        faults: what is wrong with the objects; replaced, never changed.
    """

    def __init__(self, pods: CountedPods, objects: ObjectStore) -> None:
        self.by_namespace: dict[str, Quota] = {}
        self.total_minimum: dict[str, int] = {}
        self.total_used: dict[str, int] = {}
        self.total_leaving: dict[str, int] = {}
        self.faults: Sequence[ObjectFault] = ()
        self._faults: dict[str, list[ObjectFault]] = {}
        self._pods = pods
        self._objects: defaultdict[str, dict[str, ElasticQuota]] = defaultdict(dict)
        self._bounds: dict[tuple[str, int], Bounds] = {}
        """By namespace and `SpecPart.id` of the requests."""
        self._used, self._leaving = self._sums()
        pods.listen(self)
        objects.on_change(ELASTIC_QUOTA, self._changed)

    @property
    def total_staying(self) -> Amounts:
        """The usage of all namespaces after all leaving Pods are gone."""
        return without(self.total_used, self.total_leaving)

    def recount(self) -> dict[str, str]:
        """What differed from a sum over all Pods, by namespace; empty when all is well.

        From now on the fresh sums count.
        """
        differences: dict[str, str] = {}
        for kept, fresh, word in zip(
            (self._used, self._leaving), self._sums(), ("used", "leaving"), strict=True
        ):
            for namespace in sorted({*fresh, *kept}):
                was, due = kept[namespace], fresh[namespace]
                if _nonzero(was) != _nonzero(due):
                    differences[namespace] = f"{word} {_nonzero(was)}, but its Pods take {due}"
                was.clear()
                was.update(due)
        before = self.total_used, self.total_leaving
        self._set_totals()
        after = self.total_used, self.total_leaving
        if [*map(_nonzero, before)] != [*map(_nonzero, after)] and not differences:
            differences["*"] = f"used and leaving {before}, but all quotas together {after}"
        self._bounds.clear()
        return differences

    def bounds(self, pod: Pod) -> Bounds:
        """Those of one Pod, whose namespace has a quota."""
        shape = pod.shape
        key = shape.namespace, shape.requests.id
        bounds = self._bounds.get(key)
        if bounds is None or bounds.names != len(self.total_used):
            if len(self._bounds) >= _BOUNDS_KEPT:
                self._bounds.clear()
            amounts = request(pod)
            bounds = Bounds(self, self.by_namespace[shape.namespace], amounts, amounts)
            self._bounds[key] = bounds
        return bounds

    # Pods

    def pod_counted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        self._count(pod, 1)

    def pod_uncounted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        namespace = pod.shape.namespace
        amounts, counts = request(pod), namespace in self.by_namespace
        add(self._used[namespace], amounts, sign)
        if counts:
            add(self.total_used, amounts, sign)
        if pod.deleted is not None and pod.is_preempted:
            add(self._leaving[namespace], amounts, sign)
            if counts:
                add(self.total_leaving, amounts, sign)

    def _sums(self) -> tuple[_Sums, _Sums]:
        used, leaving = _Sums(dict), _Sums(dict)
        for pod in self._pods.pods():
            add(used[pod.namespace], request(pod))
            if pod.is_preempted:
                add(leaving[pod.namespace], request(pod))
        return used, leaving

    # Quotas

    def _changed(self, old: ElasticQuota | None, new: ElasticQuota | None) -> None:
        if old is not None:
            del self._objects[old.namespace][old.name]
        if new is not None:
            self._objects[new.namespace][new.name] = new
        self._choose((new or old).namespace)  # type: ignore[union-attr]

    def _choose(self, namespace: str) -> None:
        """Find the quota that counts in ``namespace`` now."""
        self.by_namespace.pop(namespace, None)
        self._bounds.clear()
        oldest_first = sorted(self._objects[namespace].values(), key=_age)
        faults = self._adopt(oldest_first[0]) if oldest_first else []
        for younger in oldest_first[1:]:
            text = f"only the oldest ElasticQuota of a namespace counts: {oldest_first[0].name}"
            faults.append(ObjectFault(ELASTIC_QUOTA.reference(younger), "Ignored", text))
        if self._faults.get(namespace, []) != faults:
            self._faults[namespace] = faults
            self.faults = [fault for some in self._faults.values() for fault in some]
        self.total_minimum = {}
        for quota in self.by_namespace.values():
            add(self.total_minimum, quota.minimum)
        self._set_totals()

    def _adopt(self, quota: ElasticQuota) -> list[ObjectFault]:
        """Count the quota from now on, if valid; returns the faults."""
        spec, namespace, about = quota.spec, quota.namespace, ELASTIC_QUOTA.reference(quota)
        try:
            minimum = counted(spec.min or {})
            maximum = dict.fromkeys(CORE, UNLIMITED) if spec.max is None else counted(spec.max)
        except QuantityError as error:
            text = f"the ElasticQuota is ignored: {error}"
            return [ObjectFault(about, "InvalidAmount", text)]
        sums = self._used[namespace], self._leaving[namespace]
        self.by_namespace[namespace] = Quota(namespace, minimum, maximum, *sums)
        left = room(maximum, {}, minimum, UNLIMITED)
        if more := sorted(name for name in left if left[name] < 0):
            text = f"spec.min is more than spec.max: {', '.join(more)}"
            return [ObjectFault(about, "MinAboveMax", text)]
        return []

    def _set_totals(self) -> None:
        self.total_used, self.total_leaving = {}, {}
        for quota in self.by_namespace.values():
            add(self.total_used, quota.used)
            add(self.total_leaving, quota.leaving)


def _age(quota: ElasticQuota) -> tuple[datetime, str]:
    return quota.metadata.creation_timestamp or _EPOCH, quota.name


def _nonzero(amounts: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
