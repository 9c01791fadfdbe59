"""A recording as the source of a picture: which moment is shown, and the cluster then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer

from bayplan.cli.supposing import Loaded
from bayplan.recordings.file import RecordingError
from bayplan.recordings.moments import Moment, Moments
from bayplan.view.board import Board, RefusedError


class Recorded:
    """The moment of a recording that is shown.

    Args:
        paths: the parts of the recording in their order.
        at: the moment as users give it; None for the end.

    Attributes:
        history: see `Moments`.
        moment: what there was then.

    Raises:
        RecordingError: the recording cannot be read, or has no such moment.
    """

    def __init__(self, paths: Sequence[Path], at: str | None) -> None:
        self._moments = Moments(paths)
        self.history = self._moments.history
        self._told = 0
        self._lock = threading.Lock()
        time = self.history.until if at is None else self._seconds(at)
        self.moment: Moment = self._moments.at(time)

    def _seconds(self, text: str) -> float:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            raise RecordingError(f"--at {text} is no time such as {shown(self.history.until)}")
        since, until = self.history.since, self.history.until
        if not since <= time.timestamp() <= until:
            span = f"{shown(since)} to {shown(until)}"
            raise RecordingError(f"--at {text} is not in the recording, which is of {span}")
        return time.timestamp()

    def print_notes(self) -> None:
        """Print what is new to be said of the files, on stderr."""
        notes = self._moments.notes
        for note in notes[self._told :]:
            typer.echo(note, err=True)
        self._told = len(notes)

    def turning(self, board: Board, load: Callable[[], Loaded]) -> Callable[[float], None]:
        """A function that lets ``board`` show another moment, in seconds since the epoch."""

        def turn(at: float) -> None:
            if not self.history.since <= at <= self.history.until:
                raise RefusedError(400, "this moment is not in the recording")
            with self._lock:
                before = self.moment
                try:
                    self.moment = self._moments.at(at)
                    _, core = load()
                except RecordingError as error:
                    raise RefusedError(502, str(error)) from None
                except typer.Exit:
                    self.moment = before
                    why = "the configuration cannot be read; bayplan view has printed why"
                    raise RefusedError(502, why) from None
                board.show(core, at)

        return turn


def shown(seconds: float) -> str:
    """A time as `--at` takes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
