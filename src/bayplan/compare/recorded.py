"""Recorded: the decisions of a recorded scheduler beside ours, on the same state.

A `bayplan.shadow.shadow.Shadow` follows the recording on a virtual clock: no state drifts apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.api.kinds import POD, Kind
from bayplan.api.pod import Pod, decode_pod
from bayplan.app.assembly import Ports, build
from bayplan.app.follow import NoEvents
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.inbox.messages import Changed, Removed, WatchMessage
from bayplan.measures import measures_of
from bayplan.recordings.file import lines_of
from bayplan.recordings.lines import Line, Type, by_id
from bayplan.recordings.recorder import meta_of
from bayplan.replay.run import Recording
from bayplan.replay.surroundings import Clock
from bayplan.shadow.follows import Follows, judging
from bayplan.shadow.report import Document, report
from bayplan.shadow.shadow import Settings, Shadow
from bayplan.shadow.tally import Tally
from bayplan.simulation.name_order import NameOrder

REMEMBERED = 1_000
"""Verdicts that are kept."""
MINUTE = 60.0


class _Followed:
    """The objects of a recording, given to a shadow when they are due."""

    def __init__(
        self, recording: Recording, config: EffectiveConfig, registry: Registry, scheduler: str
    ) -> None:
        self._clock = Clock(recording.lives.start)
        judge = judging(config, scheduler)
        ports = Ports(
            events=NoEvents(),
            tie_break=NameOrder(),
            exhaustive=True,
            clock=self._clock,
            now=self._clock,
        )
        self._core = build(judge, registry, ports)
        self._kinds: dict[str, Kind[Any]] = by_id(registry.kinds(judge))
        self._objects: dict[tuple[str, str], Any] = {}
        """The last version of each object, by kind and uid."""
        self._ready = False
        self._sampled = self._clock.time
        self.shadow = Shadow(
            self._core.world,
            self._core.profiles,
            self._core.placers,
            Follows(scheduler),
            Tally(REMEMBERED, self._clock),
            Settings(),
            self._clock,
            self._clock,
        )

    def apply(self, line: Line) -> None:
        """Give what a line says to the shadow; lines of the list, to the world."""
        if line.type is Type.READY:
            self._ready = True
            self.shadow.begin()
            return
        self.advance(line.at)
        kind = self._kinds.get(line.kind)
        message = None if kind is None else self._message(kind, line)
        if message is None:
            return
        if self._ready:
            self.shadow.take(message)
        else:
            self._core.world.handlers.apply(message)

    def advance(self, until: float) -> None:
        """Let the shadow judge what is due up to then."""
        while (wait := self.shadow.next_in()) is not None and self._clock.time + wait <= until:
            self._clock.time += wait
            self.shadow.step()
            if self._clock.time >= self._sampled + MINUTE:
                self._sample()
        self._clock.time = max(self._clock.time, until)

    def _sample(self) -> None:
        self._sampled = self._clock.time
        cache = self._core.world.cache
        self.shadow.tally.measure(measures_of(cache.nodes, cache.pods()))

    def report(self) -> Document:
        """All that was found out."""
        while self.shadow.next_in() is not None:
            self.advance(self._clock.time + 1.0)
        self._sample()
        return report(self.shadow, self._clock.time)

    def _message(self, kind: Kind[Any], line: Line) -> WatchMessage | None:
        if line.type in (Type.GAP, Type.BOUND):
            return None
        if line.type is Type.DELETED:
            uid = meta_of(line.object).uid
            gone = self._objects.pop((line.kind, uid), None)
            return None if gone is None else Removed(kind, gone)
        obj = decode_pod(line.object) if kind is POD else kind.decode(line.object)
        self._objects[line.kind, obj.uid] = obj
        assert isinstance(obj, Pod) or kind is not POD
        return Changed(kind, obj)


def compare_recorded(
    recording: Recording,
    config: EffectiveConfig,
    registry: Registry,
    scheduler: str,
    progress: Callable[[int], None] = lambda _: None,
) -> Document:
    """Judge each recorded decision of ``scheduler`` by a configuration.

    Returns:
        The report of a shadow (`bayplan.shadow.report`).

    Raises:
        ConfigError: see `bayplan.shadow.follows.judging`.
        RecordingError: see `lines_of`.
    """
    followed = _Followed(recording, config, registry, scheduler)
    for number, line in enumerate(lines_of(recording.readers)):
        followed.apply(line)
        if not number % 1000:
            progress(number)
    return followed.report()
