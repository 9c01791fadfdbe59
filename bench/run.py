"""`make bench`: kube-scheduler and bayplan, one after the other, alternating, on a real API server.

    python -m bench.run --workload SchedulingBasic,TopologySpreading --nodes 1000 --rounds 3

Writes JSON and a plot into bench/results/, and prints a table with both and the ratio.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.plot import plot
from bench.results import Comparison, Run, machine, now
from bench.schedulers import SCHEDULERS
from bench.tables import rich_table
from bench.trial import Plan, Trial
from bench.workloads import Workload, load_catalog

console = Console()


def main(
    workload: Annotated[
        str, typer.Option(envvar="WORKLOAD", help='Comma-separated names, or "all".')
    ] = "SchedulingBasic",
    nodes: Annotated[int | None, typer.Option(envvar="NODES", min=1)] = None,
    pods: Annotated[int | None, typer.Option(envvar="PODS", min=2, help="Measured Pods.")] = None,
    placed: Annotated[
        int | None, typer.Option(envvar="PLACED", min=0, help="Pods that have nodes before.")
    ] = None,
    rounds: Annotated[int, typer.Option(envvar="ROUNDS", min=1)] = 3,
    arrival: Annotated[
        float, typer.Option(envvar="ARRIVAL", min=0, help="Pods created a second; 0: all before.")
    ] = 0.0,
    config: Annotated[
        Path | None, typer.Option(envvar="CONFIG", help="A configuration for both schedulers.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(envvar="ONLY", help="Run this scheduler alone.")
    ] = None,
) -> None:
    """Run workloads with both schedulers and compare them."""
    catalog = load_catalog()
    try:
        chosen = catalog.select(workload)
    except LookupError as exc:
        raise typer.BadParameter(str(exc)) from None
    variant = _variant(nodes, pods, placed, arrival)
    for each in chosen:
        plan = Plan(catalog, each.sized(nodes, pods, placed), arrival, config)
        _compare(plan, rounds, variant, [only] if only else list(SCHEDULERS))


def _variant(nodes: int | None, pods: int | None, placed: int | None, arrival: float) -> str:
    """What a file's name says of how a run differs from the workload as written."""
    given = {"nodes": nodes, "pods": pods, "placed": placed, "arrival": arrival or None}
    return "".join(f"-{key}{value:g}" for key, value in given.items() if value is not None)


def _compare(plan: Plan, rounds: int, variant: str, names: list[str]) -> None:
    runs: dict[str, list[Run]] = {name: [] for name in names}
    comparison = _comparison(plan, variant, runs)
    with _progress() as progress:
        for number in range(rounds):
            # Who goes first changes, in case the machine gets slower or faster meanwhile.
            for name in names if number % 2 == 0 else names[::-1]:
                heading = f"{plan.workload.name} {number + 1}/{rounds}"
                run = Trial(plan, name, progress).run()
                runs[name].append(run)
                console.print(_line(heading, name, run), soft_wrap=True)
                comparison.finished = now()
                comparison.save()
    console.print(rich_table(comparison))
    console.print(f"written: {comparison.file}, {plot(comparison)}", highlight=False)


def _comparison(plan: Plan, variant: str, runs: dict[str, list[Run]]) -> Comparison:
    workload: Workload = plan.workload
    return Comparison(
        workload.name,
        workload.node_count,
        workload.placed_count,
        workload.measured.count,
        plan.arrival,
        variant,
        machine(),
        now(),
        runs,
    )


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _line(heading: str, name: str, run: Run) -> str:
    missing = f" [red]{run.total - run.bound} not bound[/]" if run.bound < run.total else ""
    return (
        f"{heading} {name}: {run.pods_per_s:.0f} Pods/s, first after {run.first_bind_s:.2f} s, "
        f"{run.cpu_ms:.2f} ms/Pod, API server {run.server_cpu_ms:.2f} ms/Pod, "
        f"{run.rss_mib:.0f} MiB{missing}"
    )


if __name__ == "__main__":
    typer.run(main)
