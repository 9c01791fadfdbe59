"""Instruments: nothing that is reported gets lost on the way to several."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from bayplan.telemetry.instrument import Instrument, Instruments

REPORTS = [name for name, _ in inspect.getmembers(Instrument, inspect.isfunction)]


class Recording(Instrument):
    """Remembers what it is told."""

    def __init__(self, *, times: bool) -> None:
        self.times_plugins = self.times_calls = times
        self.told: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattribute__(self, name: str) -> Any:
        if name not in REPORTS:
            return super().__getattribute__(name)
        return lambda *args, **kwargs: self.told.append((name, args, kwargs))


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_reaches_every_part_as_it_is(name: str) -> None:
    parts = Recording(times=False), Recording(times=False)
    parameters = list(inspect.signature(getattr(Instrument, name)).parameters.values())[1:]
    args = [object() for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    kwargs = {p.name: object() for p in parameters if p.kind is p.KEYWORD_ONLY}
    getattr(Instruments(*parts), name)(*args, **kwargs)
    told = (name, tuple(args), kwargs)
    assert [part.told for part in parts] == [[told], [told]]


@pytest.mark.parametrize("times", [True, False])
def test_calls_are_timed_where_one_part_wants_it(times: bool) -> None:
    both = Instruments(Recording(times=False), Recording(times=times))
    assert (both.times_plugins, both.times_calls) == (times, times)
