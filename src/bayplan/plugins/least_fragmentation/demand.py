"""Demands: Pods by what is asked for, and the typical ones of a cluster.

Every Pod that comes into the queue counts: 1 as long as it waits, then half of that after each half
life. Only the ratios matter, so the counts of Pods that have left are not made smaller as time goes
on: what comes later weighs more (`_History`). Pods that ran before the first question count by
their age.

Typical are the demands that most Pods have: the most frequent ones, up to a share of all Pods. Of
whole devices nearly all are, as rare Pods that want many at once are those that are turned away. Of
parts of devices more kinds make the measure less sharp, so fewer are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import msgspec

from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.requests import nonzero_requests, spec_requests, units
from bayplan.cache.shape_cache import SHAPES_KEPT
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.shared.device_classes import DeviceClasses
from bayplan.plugins.shared.device_tracker import DeviceTracker
from bayplan.plugins.shared.pod_claims import ClaimNotReadyError, pod_claims

SHARE_OF_WHOLE, SHARE_OF_PARTS = 0.99, 0.95
"""What part of all Pods is typical, where Pods take whole devices and where they take parts."""
MOST_TYPES = 64
"""So many demands for devices count as typical at most."""
_FEWEST_NEW = 32
_NEW_SHARE = 0.25
"""Which demands are typical is found out again after so many new Pods, and this share of all."""
_MOVED = 0.05
"""By so much of all Pods the mix has to differ; else what is kept of nodes stays as it is."""
_FORGOTTEN = 1e-6
_MOST_HALF_LIVES = 64.0
_NONE = Fraction(0)


Capacity = tuple[tuple[str, str], ...]
"""(name, amount) of what is asked of a device, where a claim names amounts; else all of it."""


class DeviceDemand(NamedTuple):
    """Devices of one resource, and what is asked of each."""

    number: int = 0
    capacity: Capacity = ()


class Demand(NamedTuple):
    """What a Pod asks for.

    Attributes:
        cpu: milli-CPU, with 100 for a container that names none.
        devices: of each resource that counts, in the order of the args.
    """

    cpu: int
    devices: tuple[DeviceDemand, ...]

    @property
    def scarce(self) -> bool:
        """Whether the Pod asks for a device."""
        return any(devices.number for devices in self.devices)


class TypicalPod(NamedTuple):
    """A demand, with where such Pods may run: the encoded `_place`, empty without devices."""

    demand: Demand
    place: bytes


class DemandReader:
    """What Pods ask for of some resources, by themselves or in claims."""

    def __init__(
        self, resources: Iterable[str], classes: DeviceClasses, tracker: DeviceTracker
    ) -> None:
        self._resources = tuple(resources)
        self._classes = classes
        self._tracker = tracker
        self._requested = lru_cache(SHAPES_KEPT)(self._of_requests)

    def of(self, pod: Pod) -> Demand:
        """What ``pod`` asks for; claims that have their devices ask for none."""
        demand = self._requested(pod.shape.requests)
        return self._with_claims(pod, demand) if pod.spec.resource_claims else demand

    def _of_requests(self, requests: SpecPart) -> Demand:
        exact = requests.memo(spec_requests)
        cpu = max(each.get("cpu", _NONE) for each in (exact, requests.memo(nonzero_requests)))
        devices = (units(name, exact.get(name, _NONE)) for name in self._resources)
        return Demand(units("cpu", cpu), tuple([DeviceDemand(count) for count in devices]))

    def _with_claims(self, pod: Pod, demand: Demand) -> Demand:
        try:
            claims = pod_claims(pod, self._tracker.claim)
        except ClaimNotReadyError:
            return demand
        devices = list(demand.devices)
        open_claims = [claim for claim in claims if claim.status.allocation is None]
        for shape in self._tracker.fleet.shapes(open_claims) if open_claims else ():
            for alternatives in shape.requests:
                request = alternatives[0]
                for i, name in enumerate(self._resources):
                    behind = self._classes.behind(name)
                    if behind is None or behind is not request.device_class or request.admin_access:
                        continue
                    capacity = tuple(sorted((n, str(a)) for n, a in request.capacity.items()))
                    before = devices[i]
                    devices[i] = DeviceDemand(
                        before.number + (0 if request.take_all else request.count),
                        before.capacity or capacity,
                    )
        return Demand(demand.cpu, tuple(devices))


class _Place(msgspec.Struct):
    """Where Pods may run."""

    selector: dict[str, str]
    affinity: object
    tolerations: object


def _place(constraints: SpecPart) -> bytes:
    """For ``constraints.memo``: equal for Pods that may run on the same nodes."""
    spec = constraints.spec
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required if node_affinity else None
    selector = dict(sorted(spec.node_selector.items()))
    return msgspec.json.encode(_Place(selector, required, spec.tolerations))


class TypicalPods:
    """Counts the Pods of a cluster; see the module's docstring.

    Args:
        half_life: seconds.
        share: what part of all Pods is to be typical; None for `SHARE_OF_WHOLE` or
            `SHARE_OF_PARTS`.

    Attributes:
        types: the typical Pods that ask for devices, with their share of all typical Pods.
        version: changes with `types`.
    """

    def __init__(
        self, reader: DemandReader, handle: InTreeHandle, half_life: float, share: float | None
    ) -> None:
        self.types: dict[TypicalPod, float] = {}
        self.version = 0
        self._reader = reader
        self._handle = handle
        self._half_life = half_life
        self._share = share
        self._started = False
        self._places: dict[bytes, SpecPart] = {}
        self._waiting: dict[str, TypicalPod] = {}
        self._left: dict[TypicalPod, float] = {}
        self._zero = 0.0
        """When a Pod that leaves weighs 1 in `_left`; later it weighs more."""
        self._new = 0
        self._due = 0.0
        self._mix: dict[TypicalPod, float] = {}

    def update(self) -> None:
        """Find out what is typical now, if enough Pods have come since the last time."""
        if not self._started:
            self._start()
        if self._new < self._due:
            return
        counts = Counter(self._waiting.values())
        scale = self._weight(self._handle.now())
        total: dict[TypicalPod, float] = dict(counts)
        for typical, weight in self._left.items():
            total[typical] = total.get(typical, 0.0) + weight / scale
        every = sum(total.values())
        self._new, self._due = 0, max(_FEWEST_NEW, _NEW_SHARE * every)
        self._forget(scale, every)
        mix = self._most_frequent(total, every)
        moved = sum(abs(mix.get(t, 0.0) - self._mix.get(t, 0.0)) for t in mix.keys() | self._mix)
        if moved / 2 >= _MOVED:
            self._mix = mix
            self.types = {t: weight for t, weight in mix.items() if t.demand.scarce}
            self.version += 1

    def constraints(self, typical: TypicalPod) -> SpecPart:
        """Where such Pods may run."""
        return self._places[typical.place]

    def _most_frequent(
        self, total: dict[TypicalPod, float], every: float
    ) -> dict[TypicalPod, float]:
        chosen: dict[TypicalPod, float] = {}
        covered, scarce, share = 0.0, 0, self._share
        if share is None:
            parts = any(devices.capacity for t in total for devices in t.demand.devices)
            share = SHARE_OF_PARTS if parts else SHARE_OF_WHOLE
        for typical in sorted(total, key=lambda t: (-total[t], t)):
            if covered >= share * every or scarce >= MOST_TYPES:
                break
            chosen[typical] = total[typical]
            covered += total[typical]
            scarce += typical.demand.scarce
        return {typical: weight / covered for typical, weight in chosen.items()}

    def _forget(self, scale: float, every: float) -> None:
        """Drop what weighs nothing any more, and keep the weights from growing for ever."""
        least = _FORGOTTEN * every
        self._left = {t: w / scale for t, w in self._left.items() if w / scale > least}
        self._zero = self._handle.now()
        used = {t.place for t in (*self._left, *self._waiting.values(), *self._mix)}
        self._places = {place: part for place, part in self._places.items() if place in used}

    def _weight(self, when: float) -> float:
        """What a Pod that leaves at ``when`` weighs."""
        lives = (when - self._zero) / self._half_life
        return float(2.0 ** min(max(lives, -_MOST_HALF_LIVES), _MOST_HALF_LIVES))

    def _start(self) -> None:
        self._started = True
        self._zero = now = self._handle.now()
        self._subscription = self._handle.queued.listen(self)
        for pod in self._handle.queued.waiting_pods():
            self.pod_waits(pod)
        for pod in self._handle.pods.pods():
            if pod.uid not in self._waiting:
                created = pod.created.timestamp() if pod.created else now
                self._add(self._typical(pod), self._weight(min(created, now)))

    def _typical(self, pod: Pod) -> TypicalPod:
        demand = self._reader.of(pod)
        if not demand.scarce:
            return TypicalPod(demand, b"")
        place = pod.shape.constraints.memo(_place)
        self._places.setdefault(place, pod.shape.constraints)
        return TypicalPod(demand, place)

    def _add(self, typical: TypicalPod, weight: float) -> None:
        self._left[typical] = self._left.get(typical, 0.0) + weight

    def pod_waits(self, pod: Pod) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        self._new += pod.uid not in self._waiting
        self._waiting[pod.uid] = self._typical(pod)

    def pod_left(self, uid: str) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        typical = self._waiting.pop(uid, None)
        if typical is not None:
            self._add(typical, self._weight(self._handle.now()))
