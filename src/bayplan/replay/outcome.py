"""Outcome: what came of a replay, and its file (``bayplan-replay`` version 1, zstd JSON lines).

The first line says what was replayed; then come, as they happen, a line of measures at regular
times (``sample``) and one for each Pod that was bound or evicted; then the Pods that still wait,
with what was said of them last; the last line is the summary. The file holds no time of the replay
itself and no path: the same recording, configuration and seed give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bayplan.measures import Measures, named, shown
from bayplan.recordings.file import RecordingWriter
from bayplan.recordings.lines import encode

FORMAT = "bayplan-replay"
VERSION = 1


class Waits(msgspec.Struct, frozen=True):
    """Seconds from a Pod's arrival to its binding; all 0 where none was bound."""

    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    longest: float = 0.0


class Sample(msgspec.Struct, frozen=True):
    """The cluster at one moment.

    Attributes:
        at: seconds since the beginning of the recording.
        pending: Pods that wait for a node.
        bound: bindings since the beginning.
        evicted: evictions since the beginning.
        measures: see `bayplan.measures`.
    """

    at: float
    pending: int
    bound: int
    evicted: int
    measures: Measures


class Summary(msgspec.Struct, frozen=True):
    """A replay in numbers.

    Attributes:
        seconds: from the beginning of the recording to its end.
        arrived: Pods for the scheduler; those that are made again after an eviction count, too.
        bound: bindings.
        pending: Pods that wait at the end.
        ended: Pods that left before they got a node.
        evicted: Pods that were evicted.
        attempts: decisions, of Pods and of groups.
        waits: of the Pods that were bound.
        means: of all samples, what `numbers` gives of each.
    """

    seconds: float
    arrived: int
    bound: int
    pending: int
    ended: int
    evicted: int
    attempts: int
    waits: Waits
    means: dict[str, float]


def waits_of(seconds: Iterable[float]) -> Waits:
    """The waiting times of Pods, summed up."""
    values = np.array(list(seconds), np.float64)
    if not len(values):
        return Waits()
    p50, p90, p99 = np.percentile(values, (50, 90, 99))
    parts = (values.mean(), p50, p90, p99, values.max())
    return Waits(*(round(float(part), 3) for part in parts))


def numbers(sample: Sample) -> dict[str, float]:
    """The numbers of a sample, by the names for readers."""
    return {"Pods pending": sample.pending, **named(sample.measures)}


def text_of(name: str, value: float) -> str:
    """A number of `numbers` as text."""
    return f"{value:,.1f}" if name.startswith("Pods") else shown(name, value)


def figures(summary: Summary) -> Iterator[tuple[str, str]]:
    """The counts and times of a summary as text, with their names."""
    waits = summary.waits
    yield "Pods arrived", f"{summary.arrived:,}"
    yield "bound", f"{summary.bound:,}"
    yield "pending at the end", f"{summary.pending:,}"
    yield "left before they were bound", f"{summary.ended:,}"
    yield "evicted", f"{summary.evicted:,}"
    yield "attempts", f"{summary.attempts:,}"
    yield "seconds until bound, mean", f"{waits.mean:,.1f}"
    yield "p50, p90, p99", f"{waits.p50:,.1f}, {waits.p90:,.1f}, {waits.p99:,.1f}"
    yield "longest", f"{waits.longest:,.1f}"


def means_of(samples: Iterable[Sample]) -> dict[str, float]:
    """The mean of each number, over the samples with such a number."""
    sums: dict[str, list[float]] = {}
    for sample in samples:
        for name, value in numbers(sample).items():
            sums.setdefault(name, []).append(value)
    return {name: round(sum(values) / len(values), 6) for name, values in sums.items()}


class OutcomeFile:
    """Writes the lines of an outcome; without a path they are dropped.

    Raises:
        OSError: from every method: the file cannot be written.
    """

    def __init__(self, path: Path | None, header: Mapping[str, Any]) -> None:
        self._writer = None if path is None else RecordingWriter(path.open("wb"))
        self._digest = hashlib.sha256()
        self.write({"replay": FORMAT, "version": VERSION, **header})

    def write(self, line: Any) -> None:
        """One line."""
        text = encode(line)
        self._digest.update(text)
        if self._writer is not None:
            self._writer.write(text)

    def close(self) -> str:
        """End the file; returns a digest of all lines."""
        if self._writer is not None:
            self._writer.close()
        return self._digest.hexdigest()
