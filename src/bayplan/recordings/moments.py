"""Moments: what there was at one time of a recording, and what happened in all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.kinds import POD, Kind
from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET
from bayplan.recordings.file import RecordingError, RecordingReader, lines_of
from bayplan.recordings.lines import Line, Type, kind_id
from bayplan.recordings.recorder import Known, take
from bayplan.view.timeline import MOMENTS, History

_PODS = kind_id(POD)


class _Meta(msgspec.Struct):
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    conditions: tuple[Condition, ...] = ()


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Pod).decode


class Moment:
    """What there was at one time.

    Attributes:
        at: seconds since the epoch.
    """

    def __init__(self, at: float, known: Known, missing: Callable[[str], None]) -> None:
        self.at, self._known, self._missing = at, known, missing

    def objects(self, kinds: Iterable[Kind[Any]]) -> Iterator[tuple[Kind[Any], msgspec.Raw]]:
        """All objects of these kinds, as they are recorded."""
        for kind in kinds:
            objects = self._known.get(kind_id(kind))
            if objects is None:
                self._missing(kind.name)
            for one in () if objects is None else objects.values():
                yield kind, msgspec.Raw(one.body)


class Moments:
    """A recording, any time of which can be looked at.

    Args:
        paths: its parts in their order.

    Attributes:
        history: bindings, Pods that wait and evictions; and from when until when there is a state.
        notes: what is wrong with the files, and which kinds that were asked for they do not have.

    Raises:
        RecordingError: it cannot be read, or its list is not complete.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._readers = [RecordingReader(path) for path in paths]
        header = self._readers[0].header
        self._kinds = [kind.id for kind in header.kinds if not kind.unreadable]
        history = _history(lines_of(self._readers))
        if history is None:
            raise RecordingError(f"{paths[0]}: ends before its list is complete")
        self.history = history
        self.notes = [note for reader in self._readers for note in reader.notes]

    def at(self, time: float) -> Moment:
        """What there was at ``time``, in seconds since the epoch; before the first, the first."""
        known: Known = {kind: {} for kind in self._kinds}
        ready = False
        for line in lines_of(self._readers):
            if ready and line.at > time:
                break
            ready = ready or line.type is Type.READY
            if line.kind in known:
                take(known, line)
        return Moment(time, known, self._lacks)

    def _lacks(self, kind: str) -> None:
        note = f"the recording has no {kind}: there are none in the picture"
        if note not in self.notes:
            self.notes.append(note)


def _history(lines: Iterable[Line]) -> History | None:
    """What happened in ``lines``; None where the list at their beginning is not complete."""
    seconds: dict[int, list[int]] = {}
    pods = _Pods()
    since: int | None = None
    until = 0
    for line in lines:
        if line.type is Type.READY and since is None:
            since = math.floor(line.at)
            pods.bound = pods.evicted = 0
        until = max(math.ceil(line.at), (since or 0) + 1)
        pods.take(line)
        if since is not None:
            bound, _, evicted = seconds.get(until, (0, 0, 0))
            seconds[until] = [bound + pods.bound, len(pods.waiting), evicted + pods.evicted]
            pods.bound = pods.evicted = 0
    return None if since is None else History(since, until, _shortened(seconds, since, until))


def _shortened(seconds: dict[int, list[int]], since: int, until: int) -> list[list[int]]:
    """At most `MOMENTS` moments at which something changed: bindings and evictions are sums."""
    step = math.ceil((until - since) / MOMENTS)
    moments: list[list[int]] = []
    for second, (bound, waiting, evicted) in seconds.items():
        at = min(since + math.ceil((second - since) / step) * step, until)
        if moments and moments[-1][0] == at:
            last = moments[-1]
            moments[-1] = [at, last[1] + bound, waiting, last[3] + evicted]
        elif not moments or bound or evicted or waiting != moments[-1][2]:
            moments.append([at, bound, waiting, evicted])
    return moments


class _Pods:
    """Pods as lines show them; counts of bindings and evictions, until somebody sets these to 0."""

    def __init__(self) -> None:
        self.waiting, self._placed, self._leaving = set[str](), set[str](), set[str]()
        self.bound = self.evicted = 0

    def take(self, line: Line) -> None:
        """Take in a line of any kind."""
        if line.kind != _PODS:
            return
        pod = _decode(line.object)
        uid = pod.metadata.uid
        if line.type is Type.BOUND:
            self.bound += 1
        elif line.type is Type.DELETED:
            for those in (self.waiting, self._placed, self._leaving):
                those.discard(uid)
        elif not pod.spec.node_name:
            self.waiting.add(uid)
        else:
            self.waiting.discard(uid)
            self.bound += uid not in self._placed
            self._placed.add(uid)
            if uid not in self._leaving and _is_evicted(pod):
                self._leaving.add(uid)
                self.evicted += 1


def _is_evicted(pod: _Pod) -> bool:
    return any(c.type == DISRUPTION_TARGET and c.status == "True" for c in pod.status.conditions)
