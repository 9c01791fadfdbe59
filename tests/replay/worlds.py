"""Recordings for tests: events at times, written as a recorder does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from bayplan.api.kinds import KINDS
from bayplan.recordings.lines import kind_id
from bayplan.recordings.recorder import Recorder, header_of
from bayplan.recordings.stripped import stripping
from bayplan.testing import Builder, NodeBuilder, make_node

START = 1_000_000.0


class Story:
    """A recording that a test writes, event by event.

    Args:
        path: the file.
        there: what is there at the beginning.
        kinds: what is recorded.
    """

    def __init__(self, path: Path, *there: Builder[object], kinds: Iterable[str] = KINDS) -> None:
        self.path = path
        self._time = START
        header = header_of((KINDS[kind] for kind in kinds), START)
        self._recorder = Recorder(path, header, lambda: self._time)
        for builder in there:
            self._set(builder)
        self._recorder.ready()

    def at(self, second: float) -> Story:
        """What comes now happens then."""
        self._time = START + second
        return self

    def add(self, *builders: Builder[object]) -> Story:
        """These are new or have changed."""
        for builder in builders:
            self._set(builder)
        return self

    def remove(self, *builders: Builder[object]) -> Story:
        """These are gone, as they are."""
        for builder in builders:
            stripped = stripping(builder.kind).decode(msgspec.json.encode(builder.json))
            self._recorder.remove(kind_id(builder.kind), stripped)
        return self

    def end(self, second: float) -> Path:
        """Nothing more happens until then: a node without room comes."""
        self.at(second)._set(make_node("end"))
        self._recorder.close()
        return self.path

    def _set(self, builder: Builder[object]) -> None:
        stripped = stripping(builder.kind).decode(msgspec.json.encode(builder.json))
        self._recorder.set(kind_id(builder.kind), stripped)


def nodes(count: int, cpu: int = 4) -> Iterable[NodeBuilder]:
    """Nodes n1, n2, ... of that size."""
    for number in range(1, count + 1):
        yield make_node(f"n{number}").capacity(cpu=str(cpu), memory="16Gi", pods="20")
