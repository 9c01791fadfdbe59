"""What ``bayplan simulate --add`` and the page say of nodes that are added."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bayplan.simulation.growth import Gain, Growth


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def growth_sentence(growth: Growth, gain: Gain) -> str:
    """What fits with the new nodes that did not before."""
    nodes, pods = counted(len(growth.nodes), "node"), counted(len(growth.pods), "Pod")
    theirs = f", with {pods} of DaemonSets or static ones" if growth.pods else ""
    less = f", no longer placed: {len(gain.no_longer)}" if gain.no_longer else ""
    return f"{nodes} like {growth.like} added{theirs}: placed in addition: {len(gain.fits)}{less}"


def growth_data(growth: Growth, gain: Gain) -> dict[str, Any]:
    """The same for programs."""
    return {
        "like": growth.like,
        "nodes": list(growth.nodes),
        "pods": list(growth.pods),
        "fits": dict(gain.fits),
        "noLonger": list(gain.no_longer),
    }


def print_growth(console: Console, growth: Growth, gain: Gain) -> None:
    """The same for people."""
    console.print(f"{growth_sentence(growth, gain)}\n", style="bold")
    if gain.fits:
        table = Table("placed in addition", "on", box=None, pad_edge=False)
        for pod, node in gain.fits.items():
            table.add_row(pod, node)
        console.print(table)
        console.print()
    if gain.no_longer:
        console.print(f"no longer placed: {', '.join(gain.no_longer)}\n")
