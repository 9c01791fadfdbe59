"""Tables of results: one list of figures, for the terminal and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from bench.results import Comparison
from bench.schedulers import BAYPLAN, KUBE_SCHEDULER


@dataclass(frozen=True)
class Figure:
    """A row of the table.

    Attributes:
        name: the field of `Run`.
        digits: after the decimal point.
    """

    title: str
    name: str
    digits: int = 0


FIGURES = (
    Figure("Pods/s", "pods_per_s"),
    Figure("bound Pods", "bound"),
    Figure("start to first binding, s", "first_bind_s", 2),
    Figure("start to last binding, s", "last_bind_s", 2),
    Figure("start to last event written, s", "written_s", 2),
    Figure("Pods/s, up to the last event", "written_per_s"),
    Figure("Pods/s arriving", "arrived_per_s"),
    Figure("creation to binding p50, ms", "p50_ms", 1),
    Figure("creation to binding p99, ms", "p99_ms", 1),
    Figure("scheduler CPU, ms/Pod", "cpu_ms", 3),
    Figure("API server + etcd CPU, ms/Pod", "server_cpu_ms", 2),
    Figure("scheduler CPU up to first binding, s", "start_cpu_s", 2),
    Figure("peak RSS, MiB", "rss_mib"),
    Figure("nodes evaluated per attempt", "evaluated"),
    Figure("requested CPU per node, std. dev., m", "cpu_spread_m", 1),
    Figure("nodes used", "nodes_used"),
    Figure("events written", "events"),
    Figure("benchmark's own CPU, ms/Pod", "bench_cpu_ms", 3),
    Figure("CPU used by other programs, share", "others_share", 2),
)


def rich_table(comparison: Comparison) -> Table:
    """Both schedulers, figure by figure, and the ratio."""
    table = Table(title=title(comparison), title_justify="left")
    table.add_column("median of the rounds")
    for name in (KUBE_SCHEDULER, BAYPLAN, "ratio"):
        table.add_column(name, justify="right")
    for figure in FIGURES:
        cells = row(comparison, figure)
        if any(cells):
            table.add_row(figure.title, *cells)
    return table


def title(comparison: Comparison) -> str:
    """Workload and size."""
    arrival = f", {comparison.arrival:g} Pods/s arriving" if comparison.arrival else ""
    return (
        f"{comparison.workload}: {comparison.nodes:,} nodes, {comparison.placed:,} placed and "
        f"{comparison.measured:,} measured Pods{arrival}"
    )


def row(comparison: Comparison, figure: Figure) -> list[str]:
    """kube-scheduler's value, bayplan's, and their ratio; empty where there is none."""
    theirs = comparison.median(KUBE_SCHEDULER, figure.name)
    ours = comparison.median(BAYPLAN, figure.name)
    return [_number(theirs, figure.digits), _number(ours, figure.digits), ratio(theirs, ours)]


def ratio(theirs: float | None, ours: float | None) -> str:
    """Ours divided by theirs; empty where one is missing."""
    return f"{ours / theirs:.2f}" if ours is not None and theirs else ""


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))
