"""``bayplan simulate --replan``: all Pods placed anew, and the measures before and after."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from bayplan.app.assembly import Core
from bayplan.cli import offline
from bayplan.cli.offline import Form
from bayplan.measures import Measures, measures_of, named, shown
from bayplan.simulation import LoadedCluster, simulate
from bayplan.simulation.offline import judged
from bayplan.simulation.replan import movable, take_off
from bayplan.simulation.simulate import Result


def replan(cluster: LoadedCluster, core: Core, output: Form, *, evict: bool) -> None:
    """Place all Pods of ``cluster`` anew, and print what comes of it.

    Raises:
        typer.Exit: see `bayplan.cli.offline.end`.
    """
    before = _measured(core)
    was = {pod.key: pod.node_name for pod in movable(core)}
    pending = judged(cluster, core)
    placements = simulate(core, [*pending, *take_off(core)], evict=evict)
    for placement in placements:
        if placement["pod"] in was:
            placement["was"] = was[placement["pod"]]
    offline.print_notes(cluster)
    after = _measured(core)
    if not output.is_data:
        with offline.printing(output, "bayplan simulate --replan") as console:
            _print(console, placements, before, after)
    else:
        measured = msgspec.to_builtins({"before": before, "after": after}, str_keys=True)
        offline.print_data({**measured, "placements": placements}, output)
    offline.end(cluster, placements)


def _measured(core: Core) -> Measures:
    return measures_of(core.world.cache.nodes, core.world.handlers.pods.values())


def _print(
    console: Console, placements: Sequence[Result], before: Measures, after: Measures
) -> None:
    ran = [placement for placement in placements if "was" in placement]
    stay = sum(placement["node"] == placement["was"] for placement in ran)
    lost = [placement for placement in ran if placement["node"] is None]
    console.print(
        f"{len(ran)} Pods that run are placed anew: {stay} on the same node, "
        f"{len(ran) - stay - len(lost)} on another one, {len(lost)} on none",
        style="bold",
    )
    if len(placements) > len(ran):
        placed = sum(one["node"] is not None for one in placements if "was" not in one)
        console.print(f"{placed} of {len(placements) - len(ran)} pending Pods are placed with them")
    console.print()
    console.print(_measures(before, after))
    if lost:
        console.print()
        table = Table("finds no node again", "why", box=None, pad_edge=False)
        for placement in lost:
            table.add_row(placement["pod"], placement["message"])
        console.print(table)


def _measures(before: Measures, after: Measures) -> Table:
    table = Table("", box=None, pad_edge=False)
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    old, new = named(before), named(after)
    for name in dict.fromkeys((*old, *new)):
        values = (shown(name, side[name]) if name in side else "-" for side in (old, new))
        table.add_row(name, *values)
    for resource, devices in before.devices.items():
        rooms = devices.by_room, after.devices[resource].by_room
        for size in sorted({size for room in rooms for size in room}):
            counts = (str(room.get(size, 0)) for room in rooms)
            table.add_row(f"{resource}, free where {size} are", *counts)
    return table
