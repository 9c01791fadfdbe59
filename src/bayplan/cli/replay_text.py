"""The outcome of a replay as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bayplan.cli.offline import age
from bayplan.replay.outcome import Sample, figures, numbers, text_of
from bayplan.replay.run import Outcome

ROWS = 12
"""Samples that are shown."""
PENDING = 10
"""Pods that are shown of those that wait."""


def print_outcome(console: Console, outcome: Outcome) -> None:
    """What came of one replay."""
    table = Table("", "", box=None, pad_edge=False)
    table.add_row("time", age(outcome.summary.seconds))
    for name, text in figures(outcome.summary):
        table.add_row(name, text)
    for name, value in outcome.summary.means.items():
        table.add_row(name, text_of(name, value))
    console.print(table)
    console.print()
    console.print(_over_time(outcome.samples))
    _print_pending(console, outcome.pending)


def _print_pending(console: Console, pending: dict[str, str]) -> None:
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
