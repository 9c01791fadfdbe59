"""Outcomes of replays as tables: one of them, or two side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from bayplan.cli.offline import age
from bayplan.measures import shown
from bayplan.replay.outcome import Sample, Summary, numbers
from bayplan.replay.run import Outcome

ROWS = 12
"""Samples that are shown."""
PENDING = 10
"""Pods that are shown of those that wait."""


def print_outcome(console: Console, outcome: Outcome) -> None:
    """What came of one replay."""
    table = Table("", "", box=None, pad_edge=False)
    for name, value in figures(outcome.summary):
        table.add_row(name, value)
    console.print(table)
    console.print()
    console.print(_over_time(outcome.samples))
    print_pending(console, outcome.pending)


def print_pending(console: Console, pending: dict[str, str]) -> None:
    """The Pods that wait at the end."""
    if not pending:
        return
    console.print()
    table = Table("waits at the end", "why", box=None, pad_edge=False)
    for name, message in list(pending.items())[:PENDING]:
        table.add_row(name, message)
    console.print(table)
    if len(pending) > PENDING:
        console.print(f"and {len(pending) - PENDING:,} more")


def figures(summary: Summary) -> Iterator[tuple[str, str]]:
    """The numbers of a summary, with their names."""
    waits = summary.waits
    yield "time", age(summary.seconds)
    yield "Pods arrived", f"{summary.arrived:,}"
    yield "bound", f"{summary.bound:,}"
    yield "pending at the end", f"{summary.pending:,}"
    yield "left before they were bound", f"{summary.ended:,}"
    yield "evicted", f"{summary.evicted:,}"
    yield "attempts", f"{summary.attempts:,}"
    yield "seconds until bound, mean", f"{waits.mean:,.1f}"
    yield "p50, p90, p99", f"{waits.p50:,.1f}, {waits.p90:,.1f}, {waits.p99:,.1f}"
    yield "longest", f"{waits.longest:,.1f}"
    for name, value in summary.means.items():
        yield name, text_of(name, value)


def text_of(name: str, value: float) -> str:
    """A number of `bayplan.replay.outcome.numbers` as text."""
    return f"{value:,.1f}" if name.startswith("Pods") else shown(name, value)


def _over_time(samples: Sequence[Sample]) -> Table:
    step = max(1, len(samples) // ROWS)
    chosen = [*samples[step - 1 : -1 : step], *samples[-1:]]
    names = list(dict.fromkeys(name for sample in chosen for name in numbers(sample)))
    table = Table("after", box=None, pad_edge=False)
    for name in ("bound", "evicted", *names):
        table.add_column(name, justify="right")
    for sample in chosen:
        values = numbers(sample)
        table.add_row(
            age(sample.at),
            f"{sample.bound:,}",
            f"{sample.evicted:,}",
            *(text_of(name, values[name]) if name in values else "-" for name in names),
        )
    return table
