"""`make bench`: kube-scheduler and bayplan, one after the other, alternating, on a real API server.

    python -m bench.run --workload SchedulingBasic,TopologySpreading --nodes 1000 --rounds 3
    python -m bench.run --workload page --minutes 25

Writes JSON and a plot into bench/results/, and prints tables with both and the ratio. Ends with 1
where a result is not as it must be, such as a Pod without a node or a gang in part.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from e2e.provider import StartError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bayplan.client.errors import ApiError
from bench.plot import plot
from bench.results import Comparison, Run, machine, now
from bench.schedulers import SCHEDULERS
from bench.tables import rich_table
from bench.trial import Plan, Trial
from bench.workloads import Workload, load_catalog

console = Console()


def main(
    workload: Annotated[
        str, typer.Option(envvar="WORKLOAD", help='Comma-separated names, or sets, or "all".')
    ] = "SchedulingBasic",
    nodes: Annotated[int | None, typer.Option(envvar="NODES", min=1)] = None,
    pods: Annotated[int | None, typer.Option(envvar="PODS", min=2, help="Measured Pods.")] = None,
    placed: Annotated[
        int | None, typer.Option(envvar="PLACED", min=0, help="Pods that have nodes before.")
    ] = None,
    rounds: Annotated[int, typer.Option(envvar="ROUNDS", min=1)] = 3,
    minutes: Annotated[
        float | None,
        typer.Option(
            envvar="MINUTES", min=0, help="Begin nothing after that, but for the first round."
        ),
    ] = None,
    arrival: Annotated[
        float,
        typer.Option(envvar="ARRIVAL", min=0, help="Pods created a second; 0: as the workload is."),
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
    names = [only] if only else list(SCHEDULERS)
    comparisons = [
        (plan, _comparison(plan, variant, names))
        for plan in (Plan(catalog, w.sized(nodes, pods, placed), arrival, config) for w in chosen)
    ]
    deadline = time.monotonic() + minutes * 60 if minutes is not None else float("inf")
    with _progress() as progress:
        for number in range(rounds):
            for plan, comparison in comparisons:
                if number == 0 or time.monotonic() < deadline:
                    _round(plan, comparison, number, progress)
    for _, comparison in comparisons:
        console.print(rich_table(comparison))
        console.print(f"written: {comparison.file}, {plot(comparison)}", highlight=False)
    if faults := [f"{c.workload}: {fault}" for _, c in comparisons for fault in c.faults]:
        raise SystemExit("\n".join(faults))


def _variant(nodes: int | None, pods: int | None, placed: int | None, arrival: float) -> str:
    """What a file's name says of how a run differs from the workload as written."""
    given = {"nodes": nodes, "pods": pods, "placed": placed, "arrival": arrival or None}
    return "".join(f"-{key}{value:g}" for key, value in given.items() if value is not None)


def _round(plan: Plan, comparison: Comparison, number: int, progress: Progress) -> None:
    """Run every scheduler once."""
    names = list(comparison.runs)
    # Who goes first changes, in case the machine gets slower or faster meanwhile.
    for name in names if number % 2 == 0 else names[::-1]:
        run = _run(plan, name, progress)
        comparison.runs[name].append(run)
        console.print(_line(f"{plan.workload.name} {number + 1}", name, run), soft_wrap=True)
        comparison.finished = now()
        comparison.save()


def _run(plan: Plan, name: str, progress: Progress) -> Run:
    """One trial; where it breaks, which must not end a run of many, the error is its fault."""
    try:
        return Trial(plan, name, progress).run()
    except (StartError, ApiError, OSError, RuntimeError, TimeoutError) as error:
        fault = f"{type(error).__name__}: {error}"
        return Run(total=plan.workload.measured.count, faults=[fault])


def _comparison(plan: Plan, variant: str, names: list[str]) -> Comparison:
    workload: Workload = plan.workload
    return Comparison(
        workload.name,
        workload.node_count,
        workload.placed_count,
        workload.measured.count,
        plan.arrival or workload.arrival,
        variant,
        machine(),
        now(),
        {name: [] for name in names},
        workload.waiting,
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
    faults = f" [red]{'; '.join(run.faults)}[/]" if run.faults else ""
    return (
        f"{heading} {name}: {run.pods_per_s:.0f} Pods/s, first after {run.first_bind_s:.2f} s, "
        f"{run.cpu_ms:.2f} ms/Pod, API server {run.server_cpu_ms:.2f} ms/Pod, "
        f"{run.rss_mib:.0f} MiB{faults}"
    )


if __name__ == "__main__":
    typer.run(main)
