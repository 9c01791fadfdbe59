"""A plan of moves as text."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bayplan import measures
from bayplan.cli import asking


def show(console: Console, answer: dict[str, Any]) -> None:
    """Print a plan, or what stands against it."""
    console.print(answer["sentence"], style="bold")
    for line in asking.standby(answer):
        console.print(f"  {line}")
    for line in answer.get("against", ()):
        console.print(f"  {line}", soft_wrap=True)
    if moves := answer.get("moves"):
        table = Table("step", "pod", "from", "to", "why", box=None, pad_edge=False)
        for move in moves:
            table.add_row(str(move["step"]), move["pod"], move["from"], move["to"], _why(move))
        console.print()
        console.print(table)
    if placed := answer.get("placed"):
        table = Table("then", "to", box=None, pad_edge=False)
        for pod, node in placed.items():
            table.add_row(pod, node)
        console.print()
        console.print(table)
    if moves:
        console.print()
        console.print(_measures(answer["before"], answer["after"]))
        console.print(f"\nPods that start anew: {answer['restarts']}; token {answer['token']}")


def _why(move: dict[str, Any]) -> str:
    if "fits" not in move:
        return "with its group"
    nodes = f"{move['fits']} node{'s fit' if move['fits'] > 1 else ' fits'}"
    if move["rank"] == 1:
        return f"{nodes}, this one is the scheduler's choice"
    return f"{nodes}, this one is number {move['rank']}"


def _measures(before: dict[str, float], after: dict[str, float]) -> Table:
    """The measures with another value afterwards."""
    table = Table("measure", box=None, pad_edge=False)
    for title in ("before", "after"):
        table.add_column(title, justify="right")
    for name, value in before.items():
        texts = [measures.shown(name, one) for one in (value, after.get(name, value))]
        if texts[0] != texts[1]:
            table.add_row(name, *texts)
    return table
