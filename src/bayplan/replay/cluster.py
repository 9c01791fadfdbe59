"""ReplayedCluster: a recording as it would have gone with another configuration.

Nodes and all other objects come, change and go as recorded. A Pod that the recorded scheduler was
to place, and that a profile of this configuration is responsible for, arrives as recorded; then it
is placed, waits, is tried again, evicts and is evicted as the configuration has it. It leaves as
`bayplan.replay.lives` says. An evicted Pod that a controller makes again arrives again at once.
All other Pods are where they were.

Time passes from line to line, and in between from timer to timer; decisions take none.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.api.pod import Pod, PodStatus, WirePod
from bayplan.api.workloads import NOT_MADE_AGAIN
from bayplan.app.assembly import Ports, build
from bayplan.app.follow import NoEvents
from bayplan.attempt.selection import TieBreak
from bayplan.cache.requests import pod_requests
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Changed, Removed, WatchMessage
from bayplan.measures import measures_of
from bayplan.recordings.lines import Line, Type, by_id, kind_id
from bayplan.recordings.recorder import Meta, meta_of
from bayplan.replay.api_server import VirtualApiServer, VirtualStatuses
from bayplan.replay.lives import Lives
from bayplan.replay.outcome import Sample
from bayplan.replay.surroundings import Clock, InlineExecutor
from bayplan.telemetry.instrument import Instrument

CHORES = 5.0
"""Seconds between two looks at what plugins do from time to time, while Pods wait."""
_PODS = kind_id(POD)
_decode_pod = msgspec.json.Decoder(WirePod).decode


@dataclass(slots=True)
class Mine:
    """A Pod for the scheduler.

    Attributes:
        pod: as it is shown.
        arrived: when.
        recorded: the uid that the recording knows it by.
        again: how often it was made again.
    """

    pod: Pod
    arrived: float
    recorded: str
    again: int = 0


class _Counts(Instrument):
    """Counts attempts."""

    def __init__(self) -> None:
        self.attempts = 0

    def attempt(self, pod: Pod, profile: str, result: str, seconds: float) -> None:  # noqa: ARG002
        self.attempts += 1


class ReplayedCluster:
    """See the module's docstring.

    Args:
        lives: of the same recording.
        adopts: the profile that is responsible for every Pod, whatever its schedulerName; None for
            the profile of the schedulerName.

    Attributes:
        happened: since it was last emptied, lines for the outcome: bindings and evictions.
        waits: seconds from arrival to binding, in the order of the bindings.

    Raises:
        ConfigError: see `bayplan.app.assembly.build`.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        registry: Registry,
        lives: Lives,
        tie_break: TieBreak,
        adopts: str | None = None,
    ) -> None:
        self._clock = Clock(lives.start)
        self._start, self._lives, self._adopts = lives.start, lives, adopts
        self._inbox, self._echo = Inbox(), list[WatchMessage]()
        self._counts = _Counts()
        self._server = VirtualApiServer(self._tell, lambda uid: uid in self._mine)
        self._server.on_bound = self._bound
        self._server.on_evicted = self._evicted
        self._server.on_nominated = self._nominated
        self._statuses = VirtualStatuses(self._server)
        ports = Ports(
            events=NoEvents(),
            writer=self._server,
            statuses=self._statuses,
            inbox=self._inbox,
            instrument=self._counts,
            binding_workers=InlineExecutor(),
            tie_break=tie_break,
            clock=self._clock,
            now=self._clock,
        )
        self.core = build(config, registry, ports)
        self._scheduler = self.core.scheduler
        self._scheduler.active = True
        self._kinds: dict[str, Kind[Any]] = by_id(registry.kinds(config))
        self._mine: dict[str, Mine] = {}
        self._others: dict[str, str] = {}
        """By the uid of Pods that are not for the scheduler, their namespace/name."""
        self._departures: list[tuple[float, int, str]] = []
        self._number = 0
        self.happened: list[dict[str, Any]] = []
        self.waits: list[float] = []
        self.arrived = self.ended = self.evicted = 0

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._clock.time - self._start

    @property
    def attempts(self) -> int:
        """How many decisions were made."""
        return self._counts.attempts

    @property
    def pending(self) -> int:
        """How many Pods for the scheduler wait for a node."""
        return self.arrived - len(self.waits) - self.ended

    # Time

    def advance(self, until: float) -> None:
        """Let everything happen that is due up to ``until``, seconds since the epoch."""
        while True:
            self._schedule()
            due = self._next()
            if due > until:
                break
            self._clock.time = max(due, self._clock.time)
            while self._departures and self._departures[0][0] <= self._clock.time:
                self._depart(heapq.heappop(self._departures)[2])
            self._scheduler.take_in(wait=False)
        self._clock.time = max(until, self._clock.time)

    def _next(self) -> float:
        """When the next thing happens by itself."""
        timer = self._scheduler.next_timer()
        due = [] if timer is None else [self._clock.time + max(min(timer, CHORES), 0.01)]
        if self._departures:
            due.append(self._departures[0][0])
        return min(due, default=float("inf"))

    def _schedule(self) -> None:
        """Scheduling cycles until no Pod is ready."""
        pop = self.core.world.queue.pop
        while True:
            if self._inbox:
                self._scheduler.take_in(wait=False)
            self._apply_echo()
            queued = pop()
            if queued is not None:
                self._scheduler.schedule_one(queued)
            elif not self._inbox:
                return

    def _tell(self, message: WatchMessage) -> None:
        self.core.world.handlers.apply(message)

    def _apply_echo(self) -> None:
        while self._echo:
            echo, self._echo = self._echo, []
            for message in echo:
                self._tell(message)

    # Lines

    def is_news(self, line: Line) -> bool:
        """Whether the cluster has to be as at the time of the line for `apply`.

        A Pod that ends by itself has its own time to do so.
        """
        if line.type is not Type.DELETED or line.kind != _PODS:
            return line.type is not Type.BOUND
        uid = meta_of(line.object).uid
        return uid not in self._mine or uid not in self._lives.runs

    def apply(self, line: Line) -> None:
        """Apply a line, at the present time."""
        kind = self._kinds.get(line.kind)
        if kind is None or line.type is Type.BOUND:
            return
        if kind is POD:
            self._apply_pod(line)
        elif line.type is not Type.DELETED:
            self._server.show(kind, bytes(line.object))
        else:
            self._hide(kind, meta_of(line.object))

    def _hide(self, kind: Kind[Any], meta: Meta) -> None:
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        cache = self.core.world.cache
        known = cache.node(key) if kind is NODE else cache.objects.get(kind, key)
        if known is not None:
            self._server.hide(kind, known)

    def _apply_pod(self, line: Line) -> None:
        if line.type is Type.DELETED:
            meta = meta_of(line.object)
            if meta.uid not in self._mine:
                self._drop_other(meta.uid)
            elif meta.uid not in self._lives.runs:
                self._depart(meta.uid)
            return
        pod = self._decoded(line.object)
        mine = self._mine.get(pod.uid)
        if mine is not None:
            self._change(mine, pod)
        elif self._is_mine(pod, line.type):
            self._arrive(Mine(pod, self._clock.time, pod.uid))
        else:
            self._others[pod.uid] = pod.key
            self._tell(Changed(POD, pod))

    def _decoded(self, data: msgspec.Raw) -> Pod:
        wire = _decode_pod(data)
        if self._adopts is not None and wire.spec.scheduler_name != self._adopts:
            spec = msgspec.structs.replace(wire.spec, scheduler_name=self._adopts)
            wire = msgspec.structs.replace(wire, spec=spec)
        return Pod(wire)

    def _is_mine(self, pod: Pod, type_: Type) -> bool:
        """Whether it is new and without a node, and a profile is responsible."""
        return (
            not pod.node_name
            and type_ is not Type.MODIFIED
            and pod.spec.scheduler_name in self.core.profiles
        )

    def _drop_other(self, uid: str) -> None:
        key = self._others.pop(uid, None)
        pod = None if key is None else self.core.world.handlers.pods.get(key)
        if pod is not None and pod.uid == uid:
            self._tell(Removed(POD, pod))

    # Pods for the scheduler

    def _arrive(self, mine: Mine) -> None:
        self._mine[mine.recorded] = mine
        self.arrived += 1
        if mine.pod.status.nominated_node_name:
            mine.pod = _with_status(mine.pod, mine.pod.status, "")
        self._tell(Changed(POD, mine.pod))

    def _change(self, mine: Mine, recorded: Pod) -> None:
        """What others than the scheduler have changed: labels, gates, resources, its deletion."""
        old = mine.pod
        new = _named_like(old, recorded)
        same = new.shape is old.shape and new.deleted == old.deleted
        if same and (not old.node_name or pod_requests(new).amounts == pod_requests(old).amounts):
            return
        nominated = old.status.nominated_node_name
        mine.pod = _with_status(new.on_node(old.node_name), recorded.status, nominated)
        self._tell(Changed(POD, mine.pod))

    def _bound(self, pod: Pod) -> None:
        mine = self._of(pod)
        self._echo.append(Changed(POD, pod))
        if mine is None:
            return
        mine.pod = pod
        pod.status = msgspec.structs.replace(
            pod.status, start_time=datetime.fromtimestamp(self._clock.time, UTC)
        )
        waited = self._clock.time - mine.arrived
        self.waits.append(waited)
        line = {"at": round(self.now, 3), "bound": pod.key, "node": pod.node_name}
        self.happened.append({**line, "waited": round(waited, 3)})
        self._statuses.messages.pop(pod.uid, None)
        run = self._lives.runs.get(mine.recorded)
        if run is not None:
            self._number += 1
            due = self._clock.time + run
            heapq.heappush(self._departures, (due, self._number, mine.recorded))

    def _nominated(self, pod: Pod, node: str) -> None:
        mine = self._of(pod)
        if mine is not None and not mine.pod.node_name:
            mine.pod = _with_status(mine.pod, mine.pod.status, node)
            self._echo.append(Changed(POD, mine.pod))

    def _of(self, pod: Pod) -> Mine | None:
        """The Pod for the scheduler that ``pod`` is a version of."""
        recorded = pod.uid.partition(_AGAIN)[0]
        mine = self._mine.get(recorded)
        return mine if mine is not None and mine.pod.uid == pod.uid else None

    def _depart(self, recorded: str) -> None:
        mine = self._mine.pop(recorded, None)
        if mine is None:
            return
        self.ended += not mine.pod.node_name
        self._statuses.messages.pop(mine.pod.uid, None)
        self._tell(Removed(POD, mine.pod))
        self._server.release(mine.pod.uid)

    def _evicted(self, pod: Pod) -> None:
        self.evicted += 1
        self.happened.append({"at": round(self.now, 3), "evicted": pod.key, "node": pod.node_name})
        recorded = pod.uid.partition(_AGAIN)[0]
        mine = self._mine.pop(recorded, None)
        self._departures = [one for one in self._departures if one[2] != recorded]
        heapq.heapify(self._departures)
        self._others.pop(pod.uid, None)
        self._echo.append(Removed(POD, pod))
        self._server.release(pod.uid)
        if mine is not None and not mine.pod.node_name:
            self.ended += 1
        kind = pod.controller[0].rpartition("/")[2]
        if kind not in NOT_MADE_AGAIN:
            times = 1 if mine is None else mine.again + 1
            again = _made_again(pod, recorded, times)
            self._mine[recorded] = Mine(again, self._clock.time, recorded, times)
            self.arrived += 1
            self._echo.append(Changed(POD, again))

    # What there is to say

    def sample(self) -> Sample:
        """The cluster as it is now."""
        cache = self.core.world.cache
        measures = measures_of(cache.nodes, cache.pods())
        at = round(self.now, 3)
        return Sample(at, self.pending, len(self.waits), self.evicted, measures)

    def waiting(self) -> Iterator[tuple[str, str]]:
        """The Pods that wait, by name, and what was said of each last."""
        pods = (mine.pod for mine in self._mine.values() if not mine.pod.node_name)
        for pod in sorted(pods, key=lambda pod: pod.key):
            yield pod.key, self._statuses.messages.get(pod.uid, "")


_AGAIN = "~"
"""In the uid of a Pod that was made again; no uid of an API server has it."""


def _made_again(pod: Pod, recorded: str, times: int) -> Pod:
    again = _with_status(pod.on_node(""), PodStatus(), "")
    again.deleted = None
    again.uid = f"{recorded}{_AGAIN}{times}"
    again.name = _again_name(pod.name, times)
    return again


def _again_name(name: str, times: int) -> str:
    return f"{name.partition(_AGAIN)[0]}{_AGAIN}{times}"


def _named_like(old: Pod, recorded: Pod) -> Pod:
    """``recorded`` as the same Pod as ``old``, which may have been made again."""
    if old.uid == recorded.uid:
        return recorded
    new = recorded.on_node("")
    new.uid, new.name = old.uid, old.name
    return new


def _with_status(pod: Pod, status: PodStatus, nominated: str) -> Pod:
    copy = pod.on_node(pod.node_name)
    copy.status = msgspec.structs.replace(status, nominated_node_name=nominated)
    return copy
