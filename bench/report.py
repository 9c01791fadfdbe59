"""Writes the tables of docs/performance.md from the files in bench/results/.

    python -m bench.report

What stands between `<!-- NAME -->` and `<!-- end -->` is replaced, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bench.results import (
    FOLDER,
    Comparison,
    CoreFigures,
    CoreResult,
    comparisons,
    core_results,
)
from bench.schedulers import BAYPLAN, KUBE_SCHEDULER
from bench.soak import SoakResult
from bench.tables import markdown, ratio
from bench.workloads import Catalog, load_catalog

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
NOTHING = "No results yet."

THROUGHPUT = (
    "workload", "nodes", "Pods before", "Pods", "rounds",
    "kube-scheduler Pods/s", "bayplan Pods/s", "ratio", "aim", "all bound after, s", "bayplan",
    "CPU ms/Pod", "bayplan", "ratio", "API server + etcd CPU ms/Pod", "bayplan",
)  # fmt: skip
QUALITY = (
    "workload", "start to first binding, s", "bayplan", "peak RSS, MiB", "bayplan",
    "nodes evaluated", "bayplan", "std. dev. of requested CPU, m", "bayplan",
    "nodes used", "bayplan",
)  # fmt: skip
LATENCY = (
    "workload", "nodes", "Pods/s arriving", "p50, ms", "bayplan", "p99, ms", "bayplan", "ratio p99",
    "CPU ms/Pod", "bayplan",
)  # fmt: skip
CORE = ("workload", "nodes", "Pods before", "Pods/s", "us/Pod", "us, first of a signature")


def main() -> None:
    """Fill in the page."""
    catalog = load_catalog()
    found = sorted(comparisons(), key=lambda c: (bool(c.variant), _order(catalog, c.workload)))
    batch = [c for c in found if not c.arrival]
    core = sorted(core_results(), key=lambda r: _order(catalog, r.workload))
    parts = {
        "machine": "\n".join(f"- {m}" for m in _machines(found, core)) or NOTHING,
        "throughput": _table(THROUGHPUT, (_throughput(catalog, c) for c in batch)),
        "quality": _table(QUALITY, (_quality(c) for c in batch)),
        "latency": _table(LATENCY, (_latency(c) for c in found if c.arrival)),
        "core": _table(CORE, (_core(r.workload, r.sizes[0]) for r in core if r.sizes)),
        "core-nodes": _growth(core, "nodes"),
        "core-placed": _growth(core, "placed"),
        "soak": _soak(),
    }
    text = PAGE.read_text()
    for name, part in parts.items():
        pattern = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise LookupError(f"{PAGE.name} must have one place for {name}")
        text = pattern.sub(lambda _, part=part: part, text)  # type: ignore[misc]
    PAGE.write_text(text)


def _machines(found: list[Comparison], core: list[CoreResult]) -> list[str]:
    return sorted({c.machine for c in found} | {r.machine for r in core})


def _order(catalog: Catalog, workload: str) -> int:
    return list(catalog.workloads).index(workload)


def _table(head: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    lines = list(rows)
    return markdown(head, lines) if lines else NOTHING


def _throughput(catalog: Catalog, found: Comparison) -> list[str]:
    rounds = min(len(runs) for runs in found.runs.values())
    return [
        found.workload,
        *(f"{n:,}" for n in (found.nodes, found.placed, found.measured)),
        str(rounds),
        *_both(found, "pods_per_s", 0),
        _ratio(found, "pods_per_s"),
        f"{catalog.workloads[found.workload].aim:g}",
        *_both(found, "last_bind_s", 1),
        *_both(found, "cpu_ms", 2),
        _ratio(found, "cpu_ms"),
        *_both(found, "server_cpu_ms", 2),
    ]


def _quality(found: Comparison) -> list[str]:
    return [
        f"{found.workload}{found.variant.replace('-', ' ')}",
        *_both(found, "first_bind_s", 2),
        *_both(found, "rss_mib", 0),
        *_both(found, "evaluated", 0),
        *_both(found, "cpu_spread_m", 1),
        *_both(found, "nodes_used", 0),
    ]


def _latency(found: Comparison) -> list[str]:
    return [
        found.workload,
        f"{found.nodes:,}",
        f"{found.arrival:g}",
        *_both(found, "p50_ms", 1),
        *_both(found, "p99_ms", 1),
        _ratio(found, "p99_ms"),
        *_both(found, "cpu_ms", 2),
    ]


def _both(found: Comparison, figure: str, digits: int) -> list[str]:
    values = [found.median(name, figure) for name in (KUBE_SCHEDULER, BAYPLAN)]
    return ["" if value is None else f"{value:,.{digits}f}" for value in values]


def _ratio(found: Comparison, figure: str) -> str:
    return ratio(found.median(KUBE_SCHEDULER, figure), found.median(BAYPLAN, figure))


def _core(workload: str, size: CoreFigures) -> list[str]:
    return [
        workload,
        *(f"{n:,}" for n in (size.nodes, size.placed)),
        f"{size.pods_per_s:,.0f}",
        f"{size.next_us:,.0f}",
        f"{size.first_us:,.0f}",
    ]


def _growth(results: list[CoreResult], column: str) -> str:
    """One row a workload: cost of a Pod (of the first of a signature), by nodes or placed Pods."""
    by_workload = {r.workload: _sizes(r, column) for r in results}
    columns = sorted({value for sizes in by_workload.values() for value in sizes})
    rows = [
        [name, *(_cell(sizes[value]) if value in sizes else "" for value in columns)]
        for name, sizes in by_workload.items()
    ]
    return _table(("us/Pod (first)", *(f"{value:,}" for value in columns)), rows)


def _sizes(result: CoreResult, column: str) -> dict[int, CoreFigures]:
    """The sizes that differ in that column; those of the other column are left out."""
    base, varied = result.sizes[0], result.sizes[1:]
    same = [size for size in varied if size.nodes == base.nodes]
    chosen = same if column == "placed" else [base, *(s for s in varied if s not in same)]
    return {getattr(size, column): size for size in chosen}


def _cell(size: CoreFigures) -> str:
    return f"{size.next_us:,.0f} ({size.first_us:,.0f})" if size.measured else "-"


def _soak() -> str:
    file = FOLDER / "soak" / "soak.json"
    if not file.exists():
        return NOTHING
    result = msgspec.json.decode(file.read_bytes(), type=SoakResult)
    last = result.samples[-1]
    wrong = "; ".join(result.complaints()) or "nothing was wrong"
    return (
        f"{result.minutes:g} minutes: {last.created:,} Pods created, memory grew by "
        f"{result.growth_mib:.1f} MiB to {last.rss:.0f} MiB; {wrong}."
    )


if __name__ == "__main__":
    main()
