"""Recordings made of workloads and traces, for `bayplan replay` and `compare`.

    python -m bench.recordings day.zst --workload SchedulingBasic --nodes 5000 --pods 500000
    python -m bench.recordings gpus.zst --trace folder       or --trace synthetic

Pods arrive at random, as many in every hour, and run as long as the trace says, or for a time that
is drawn around ``--runs``. The same arguments give the same lines. GPUs are whole ones: a Pod that
asks for a part of a GPU gets one for itself. The times of a trace are cut to a twentieth of the
recording, then stretched by one factor so that there is work for ``--load``. A FILE that ends with
.json becomes a cluster file, in which all these Pods wait.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bayplan.api.kinds import KINDS, POD
from bayplan.recordings.lines import FORMAT, VERSION, Header, kind_id, recorded
from bayplan.recordings.recorder import Recorder
from bayplan.recordings.stripped import Stripped, stripping
from bench import packing_trace
from bench.claims import ClaimController
from bench.objects import Item, Objects
from bench.packing import TraceObjects, pod_item
from bench.workloads import load_catalog

START = 1_767_225_600.0
DAY = 86_400.0
SYNTHETIC = "synthetic"
_STRIPPED = {name: stripping(kind) for name, kind in KINDS.items()}


def main(
    target: Annotated[Path, typer.Argument(metavar="FILE")],
    workload: Annotated[str, typer.Option(help="One of bench/workloads.yaml.")] = "",
    trace: Annotated[
        str, typer.Option(help=f"A folder (see bench.packing_trace), or {SYNTHETIC}.")
    ] = "",
    pods: Annotated[int, typer.Option(min=1, help="How many arrive.")] = 10_000,
    nodes: Annotated[int | None, typer.Option(min=1, help="Of a workload.")] = None,
    placed: Annotated[int | None, typer.Option(min=0, help="Pods of a workload that run.")] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long it takes.")] = DAY,
    runs: Annotated[
        float, typer.Option(min=0.0, help="Mean seconds that Pods of a workload run; 0 for ever.")
    ] = 3600.0,
    load: Annotated[
        float, typer.Option(min=0.01, help="GPUs that Pods of a trace ask for, of those there are.")
    ] = 0.9,
    scheduler: Annotated[
        str, typer.Option(help="schedulerName of the Pods.")
    ] = "default-scheduler",
    seed: int = 1,
) -> None:
    """Make a recording."""
    dice = random.Random(seed)
    if bool(workload) == bool(trace):
        raise typer.BadParameter("needs either --workload or --trace")
    if workload:
        catalog = load_catalog()
        [chosen] = catalog.select(workload)
        objects = Objects(catalog, chosen.sized(nodes, pods, placed))
        coming = (
            (item, dice.expovariate(1 / runs) if runs else None) for item in objects.measured()
        )
    else:
        found = (
            packing_trace.synthetic(seed) if trace == SYNTHETIC else packing_trace.read(Path(trace))
        )
        listed = packing_trace.whole(next(iter(found.pods.values())))
        drawn = [replace(dice.choice(listed), name=f"pod-{i:06}") for i in range(pods)]
        longest = seconds / 20
        work = sum(pod.demand * min(pod.seconds, longest) for pod in drawn)
        stretch = load * found.capacity * seconds / work
        objects = TraceObjects(found.nodes, listed, shares=False)
        coming = (
            (pod_item(pod, shares=False), min(pod.seconds, longest) * stretch) for pod in drawn
        )
    if target.suffix == ".json":
        _dump(target, objects, (item for item, _ in coming), scheduler)
        return
    times = sorted(dice.uniform(0.0, seconds) for _ in range(pods))
    _write(target, objects, zip(times, coming, strict=False), seconds, scheduler, seed)


def _dump(target: Path, objects: Objects, coming: Iterable[Item], scheduler: str) -> None:
    """Everything as one list, but for kinds that need a controller."""
    with target.open("wb") as file:
        file.write(b'{"kind":"List","apiVersion":"v1","items":[')
        items = (*objects.surroundings(), *objects.placed(), *coming)
        for number, item in enumerate(item for item in items if item.kind in KINDS):
            kind, data = KINDS[item.kind], msgspec.json.decode(item.body)
            if kind is POD:
                data["spec"]["schedulerName"] = scheduler
            data |= {"kind": kind.name, "apiVersion": kind.api_version}
            file.write(b",\n" * bool(number) + msgspec.json.encode(data))
        file.write(b"]}")


Shown = list[tuple[str, Stripped]]
"""Objects that were made together, with the ids of their kinds."""


def _write(
    target: Path,
    objects: Objects,
    coming: Iterable[tuple[float, tuple[Item, float | None]]],
    seconds: float,
    scheduler: str,
    seed: int,
) -> None:
    clock = _Clock()
    kinds = tuple(recorded(kind) for kind in KINDS.values())
    header = Header(FORMAT, VERSION, START, "bench", f"{seed:016x}", 1, kinds)
    recorder = Recorder(target, header, clock)
    shows = _Shows(recorder, scheduler)
    for item in (*objects.surroundings(), *objects.placed(), *objects.gated()):
        shows.show(item)
    recorder.ready()
    ends: list[tuple[float, int, Shown]] = []
    for number, (at, (item, runs)) in enumerate(coming):
        while ends and ends[0][0] <= at:
            clock.now, _, gone = heapq.heappop(ends)
            shows.hide(gone)
        clock.now = at
        shown = shows.show(item)
        if runs is not None:
            heapq.heappush(ends, (at + runs, number, shown))
    while ends and ends[0][0] <= seconds:
        clock.now, _, gone = heapq.heappop(ends)
        shows.hide(gone)
    recorder.close()
    size, text = recorder.size
    lines = sum(recorder.counts.values())
    typer.echo(
        f"{target}: {lines:,} lines, {size:,} bytes; {size / lines:.0f} a line, "
        f"{text / lines:.0f} before compression"
    )


class _Shows:
    """Records objects that come and go, Pods with their claims."""

    def __init__(self, recorder: Recorder, scheduler: str) -> None:
        self._recorder, self._scheduler = recorder, scheduler
        self._claims = ClaimController()

    def show(self, item: Item) -> Shown:
        """Record an object; returns it, and what a controller makes for it."""
        shown = []
        for each in self._claims.expanded(item):
            if each.kind in KINDS:
                kind, body = KINDS[each.kind], each.body
                if kind is POD:
                    body = _of_scheduler(body, self._scheduler)
                shown.append((kind_id(kind), _STRIPPED[each.kind].decode(body)))
                self._recorder.set(*shown[-1])
        return shown

    def hide(self, shown: Shown) -> None:
        """These are gone, what was made last first."""
        for kind, obj in reversed(shown):
            self._recorder.remove(kind, obj)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return START + self.now


def _of_scheduler(body: bytes, name: str) -> bytes:
    pod = msgspec.json.decode(body)
    pod["spec"]["schedulerName"] = name
    return msgspec.json.encode(pod)


if __name__ == "__main__":
    typer.run(main)
