"""Run: a whole recording through a `ReplayedCluster`, with samples at regular times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.api.kinds import CORE_KINDS
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.recordings.file import RecordingReader, lines_of
from bayplan.recordings.lines import Type, by_id
from bayplan.replay.cluster import ReplayedCluster
from bayplan.replay.lives import Lives, lives_of
from bayplan.replay.outcome import OutcomeFile, Sample, Summary, means_of, waits_of
from bayplan.replay.surroundings import SeededTieBreak
from bayplan.simulation.name_order import NameOrder

SAMPLES = 240
"""About how many samples there are where nobody says how often."""
SHORTEST = 60.0


@dataclass(frozen=True)
class Options:
    """How to replay.

    Attributes:
        seed: of the choice among equally good nodes; None for the first by name.
        every: seconds between two samples; None for about `SAMPLES` in all.
        adopts: see `ReplayedCluster`.
        result: where the outcome goes; None for nowhere.
    """

    seed: int | None = None
    every: float | None = None
    adopts: str | None = None
    result: Path | None = None


@dataclass
class Outcome:
    """What came of a replay.

    Attributes:
        pending: the Pods that wait at the end, with what was said of them last.
        digest: of all that happened: two outcomes with the same one are the same.
        notes: what is doubtful.
    """

    summary: Summary
    samples: list[Sample]
    pending: dict[str, str]
    digest: str
    notes: list[str] = field(default_factory=list)


class Recording:
    """The parts of a recording, and what one look at all of it says.

    Raises:
        RecordingError: it cannot be read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.readers = [RecordingReader(path) for path in paths]
        self.header = self.readers[0].header
        self.lives: Lives = lives_of(lines_of(self.readers))
        self.notes = [note for reader in self.readers for note in reader.notes]

    def missing(self, config: EffectiveConfig, registry: Registry) -> list[str]:
        """Kinds that the plugins of a configuration read and the recording does not have."""
        there = {kind.id for kind in self.header.kinds if not kind.unreadable}
        needed = by_id(kind for kind in registry.kinds(config) if kind not in CORE_KINDS)
        return sorted(needed.keys() - there)


def replay(
    recording: Recording,
    config: EffectiveConfig,
    registry: Registry,
    options: Options,
    progress: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Replay a recording with a configuration.

    Args:
        recording: what happened.
        config: who schedules.
        registry: its plugins.
        options: how.
        progress: called now and then with the number of lines that are done.

    Raises:
        ConfigError: see `bayplan.app.assembly.build`.
        RecordingError: see `lines_of`.
        OSError: the result cannot be written.
    """
    lives = recording.lives
    every = options.every or max(SHORTEST, round((lives.end - lives.start) / SAMPLES))
    tie_break = NameOrder() if options.seed is None else SeededTieBreak(options.seed)
    cluster = ReplayedCluster(config, registry, lives, tie_break, options.adopts)
    said = {"recording": recording.header.id, "seed": options.seed, "every": every}
    file = OutcomeFile(options.result, said)
    samples: list[Sample] = []

    def drain() -> None:
        for line in cluster.happened:
            file.write(line)
        cluster.happened.clear()

    def sample() -> None:
        drain()
        samples.append(cluster.sample())
        file.write({"sample": samples[-1]})

    now, due, ready = lives.start, lives.start + every, False
    for number, line in enumerate(lines_of(recording.readers)):
        while due <= line.at and ready:
            cluster.advance(due)
            sample()
            due += every
        if line.at > now and ready and cluster.is_news(line):
            now = line.at
            cluster.advance(now)
        ready = ready or line.type is Type.READY
        cluster.apply(line)
        if not number % 1000:
            drain()
            progress(number)
    cluster.advance(lives.end)
    sample()
    pending = dict(cluster.waiting())
    for name, message in pending.items():
        file.write({"pending": name, "message": message})
    summary = Summary(
        round(lives.end - lives.start, 3),
        cluster.arrived,
        len(cluster.waits),
        cluster.pending,
        cluster.ended,
        cluster.evicted,
        cluster.attempts,
        waits_of(cluster.waits),
        means_of(samples),
    )
    file.write({"summary": summary})
    digest = file.close()
    progress(lives.lines)
    notes = [*recording.notes]
    if missing := recording.missing(config, registry):
        notes.append(f"the recording has no {', '.join(missing)}: there are none in the replay")
    return Outcome(summary, samples, pending, digest, notes)
