"""`make bench-core`: the workloads through cache, queue and framework, with no API server.

    python -m bench.core --workload SchedulingBasic --nodes 50000 --profile
    python -m bench.core --workload SchedulingBasic --base v0.1.0

Every size has its own cluster. A few Pods warm it up, then Pods of signatures never seen before
are timed one by one (`first`), then the measured Pods all together (`next`). What is timed is all
that the scheduling thread does for a Pod: queue, decision, assume, Reserve to Bind, the outcome and
the confirmation; not the decoding of the confirmation, nor any write.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bayplan.cli import GC_THRESHOLDS
from bayplan.config import EffectiveConfig, parse_config
from bayplan.config.feature_gates import parse_feature_gates
from bayplan.engine.registry import Registry
from bench.compare import CompareError, compare
from bench.objects import Objects
from bench.recording import CoreWorld
from bench.results import CoreFigures, CoreResult, machine, now
from bench.schedulers import CONFIG
from bench.workloads import Catalog, Workload, load_catalog

NODES = (500, 5_000, 15_000, 50_000)
PLACED = (0, 50_000, 150_000)
WARM_PODS = 20
FRESH_PODS = 7
MOST_PODS = 5_000
SECONDS = 10.0
"""Longest time that the measured Pods of one size are timed for."""
PROFILE_LINES = 30

console = Console()


def main(
    workload: Annotated[
        str, typer.Option(envvar="WORKLOAD", help='Comma-separated names, or "all".')
    ] = "all",
    nodes: Annotated[
        int | None, typer.Option(envvar="NODES", min=1, help="This size only.")
    ] = None,
    placed: Annotated[
        int | None, typer.Option(envvar="PLACED", min=0, help="This size only.")
    ] = None,
    config: Annotated[Path | None, typer.Option(envvar="CONFIG")] = None,
    base: Annotated[
        str | None, typer.Option(envvar="BASE", help="Compare with this revision's code.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(envvar="ROUNDS", min=1, help="Rounds of a comparison.")
    ] = 3,
    *,
    profile: Annotated[
        bool, typer.Option(envvar="PROFILE", help="Print where the time of `next` goes.")
    ] = False,
) -> None:
    """Measure decisions per second, and how their cost grows with nodes and placed Pods."""
    catalog = load_catalog()
    try:
        chosen = catalog.select(workload)
    except LookupError as exc:
        raise typer.BadParameter(str(exc)) from None
    if base:
        _compare(base, [each.sized(nodes, placed=placed) for each in chosen], rounds)
        return
    bench = CoreBench(catalog, config.read_text() if config else CONFIG, profile=profile)
    for each in chosen:
        if nodes is not None or placed is not None:
            _say(each.name, bench.measure(each.sized(nodes, placed=placed)))
            continue
        result = CoreResult(each.name, machine(), now(), [])
        for size in _sizes(each):
            result.sizes.append(bench.measure(size))
            _say(each.name, result.sizes[-1])
        result.save()
        console.print(_table(result))


def _compare(base: str, workloads: Sequence[Workload], rounds: int) -> None:
    try:
        compare(base, workloads, rounds, lambda text: console.print(text, soft_wrap=True))
    except CompareError as exc:
        raise SystemExit(f"BASE={base}: {exc}") from None


def _sizes(workload: Workload) -> Iterator[Workload]:
    """As it is, then other numbers of nodes, then other numbers of placed Pods."""
    yield workload
    if any(not group.name for group in workload.nodes):
        for nodes in NODES:
            if nodes != workload.node_count:
                yield workload.sized(nodes)
    for placed in PLACED:
        yield workload.sized(placed=placed)


class CoreBench:
    """Measures one size after the other."""

    def __init__(self, catalog: Catalog, config: str, *, profile: bool) -> None:
        self._catalog = catalog
        self._registry = Registry()
        self._config = config
        self._profile = profile

    def measure(self, workload: Workload) -> CoreFigures:
        """A fresh world of that size; no Pods per second where nothing could be placed."""
        measured = min(workload.measured.count, MOST_PODS)
        workload = workload.sized(pods=measured)
        objects = Objects(self._catalog, workload)
        world = CoreWorld(self._parsed(workload), self._registry, workload, objects)
        warm = Objects(self._catalog, workload.sized(pods=min(WARM_PODS, measured)))
        with quiet_collector():
            world.feed(warm.measured(prefix="warm-"))
            world.place(WARM_PODS, SECONDS)
            first = self._first(world, objects)
            world.feed(objects.measured())
            with self._profiled():
                placing = world.place(measured, SECONDS)
        return CoreFigures(
            nodes=workload.node_count,
            placed=workload.placed_count,
            measured=placing.pods,
            pods_per_s=placing.pods / placing.seconds,
            next_us=placing.cpu / placing.pods * 1e6 if placing.pods else 0.0,
            first_us=first,
        )

    def _parsed(self, workload: Workload) -> EffectiveConfig:
        gates = parse_feature_gates([f"{gate}=true" for gate in workload.gates])
        return parse_config(self._config, self._registry.known, gates=gates)

    def _first(self, world: CoreWorld, objects: Objects) -> float:
        times = []
        for number in range(FRESH_PODS):
            world.feed(objects.fresh(number))
            placing = world.place(1, SECONDS)
            if not placing.pods:
                return 0.0
            times.append(placing.cpu)
        return statistics.median(times) * 1e6

    @contextmanager
    def _profiled(self) -> Iterator[None]:
        if not self._profile:
            yield
            return
        with cProfile.Profile() as profile:
            yield
        pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILE_LINES)


@contextmanager
def quiet_collector() -> Iterator[None]:
    """The garbage collector as a process has it once its caches are filled."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def _say(name: str, figures: CoreFigures) -> None:
    console.print(
        f"{name}: {figures.nodes:,} nodes, {figures.placed:,} placed: "
        f"{figures.pods_per_s:,.0f} Pods/s, {figures.next_us:,.0f} us a Pod, "
        f"first of a signature {figures.first_us:,.0f} us",
        soft_wrap=True,
    )


def _table(result: CoreResult) -> Table:
    table = Table(title=result.workload, title_justify="left")
    for name in CoreFigures.__struct_fields__:
        table.add_column(name, justify="right")
    for size in result.sizes:
        table.add_row(*(f"{value:,.0f}" for value in msgspec.structs.astuple(size)))
    return table


if __name__ == "__main__":
    typer.run(main)
