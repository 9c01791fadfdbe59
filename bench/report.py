"""Writes the figures of docs/performance.md and README.md from the files in bench/results/.

    python -m bench.report

What stands between `<!-- NAME -->` and `<!-- end -->` is replaced, nothing else, and only where
there are results for it. Workloads without results keep their rows: each says when it was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
CPU_AIM = 1 / 3
"""Of kube-scheduler's CPU per Pod, at most."""
MANY_PODS = 50_000
"""Placed Pods from which on the time to the first binding is to be kube-scheduler's, too."""

THROUGHPUT = (
    "workload", "nodes", "Pods before", "Pods", "rounds",
    "kube-scheduler Pods/s", "bayplan Pods/s", "ratio", "aim", "all bound after, s", "bayplan",
    "CPU ms/Pod", "bayplan", "ratio", "API server + etcd CPU ms/Pod", "bayplan",
    "other programs", "measured",
)  # fmt: skip
RATIO = THROUGHPUT.index("ratio")
QUALITY = (
    "workload", "start to first binding, s", "bayplan", "peak RSS, MiB", "bayplan",
    "nodes evaluated", "bayplan", "std. dev. of requested CPU, m", "bayplan",
    "nodes used", "bayplan",
)  # fmt: skip
LATENCY = (
    "workload", "nodes", "Pods waiting before", "Pods/s arriving", "bayplan",
    "Pods/s bound, events written", "bayplan", "ratio", "p50, ms", "bayplan", "p99, ms", "bayplan",
    "ratio p99", "CPU ms/Pod", "bayplan", "events", "bayplan",
)  # fmt: skip
CORE = ("workload", "nodes", "Pods before", "Pods/s", "us/Pod", "us, first of a signature")


def main() -> None:
    """Fill in both files."""
    catalog = load_catalog()
    found = sorted(comparisons(), key=lambda c: (bool(c.variant), _order(catalog, c.workload)))
    batch = [c for c in found if not c.arrival]
    core = sorted(core_results(), key=lambda r: _order(catalog, r.workload))
    page = PAGE.read_text()
    names = {_name(c) for c in found}
    known = catalog.workloads.keys()
    before = (line for line in _part(page, "missed") if _named(line).partition(" ")[0] in known)
    missed = [
        *(f"- {text}" for c in found for text in _missed(catalog, c)),
        *(line for line in before if _named(line) not in names),
    ]
    missed.sort(key=lambda line: _order(catalog, _named(line)))

    def table(name: str, head: tuple[str, ...], rows: list[list[str]]) -> list[list[str]]:
        return _merged(catalog, _part(page, name), head, rows)

    throughput = table("throughput", THROUGHPUT, [_throughput(catalog, c) for c in batch])
    quality = table("quality", QUALITY, [_quality(c) for c in batch])
    latency = table("latency", LATENCY, [_latency(c) for c in found if c.arrival])
    parts = {
        "measured": "\n".join(_measured(found, _part(page, "measured"), names)),
        "missed": "\n".join(missed or ["- none"]) if found else "",
        "throughput": _table(THROUGHPUT, throughput),
        "quality": _table(QUALITY, quality),
        "latency": _table(LATENCY, latency),
        "core-machine": "\n".join(sorted({f"- {r.finished}: {r.machine}" for r in core})),
        "core": _table(CORE, (_core(r.workload, r.sizes[0]) for r in core if r.sizes)),
        "core-nodes": _growth(core, "nodes"),
        "core-placed": _growth(core, "placed"),
        "soak": _soak(),
    }
    _fill(PAGE, parts)
    _fill(README, {"speed": _range([row[RATIO] for row in throughput], _versions(batch))})


def _part(text: str, name: str) -> list[str]:
    """The lines that stand in that place."""
    return text.partition(f"<!-- {name} -->\n")[2].partition("\n<!-- end -->")[0].splitlines()


def _named(line: str) -> str:
    """The workload, with its variant, that an item of a list is about."""
    return line.removeprefix("- ").partition(":")[0]


def _merged(
    catalog: Catalog, part: list[str], head: tuple[str, ...], rows: list[list[str]]
) -> list[list[str]]:
    """These rows of a table, and those that it has of other workloads; none without new ones."""
    if not rows:
        return []
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part]
    measured = {row[0] for row in rows}
    kept = [line for line in lines[2:] if line[0] not in measured] if lines[:1] == [[*head]] else []
    return sorted([*rows, *kept], key=lambda row: _order(catalog, row[0]))


def _fill(path: Path, parts: Mapping[str, str]) -> None:
    text = path.read_text()
    for name, part in parts.items():
        if not part:
            continue
        pattern = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise LookupError(f"{path.name} must have one place for {name}")
        text = pattern.sub(lambda _, part=part: part, text)  # type: ignore[misc]
    path.write_text(text)


def _measured(found: list[Comparison], before: list[str], names: set[str]) -> Iterator[str]:
    """Beside what, on what, and what the checks at the end of the runs have found.

    ``before`` stood there, of the same workloads (``names``) and of others.
    """
    if not found:
        return
    yield f"- kube-scheduler {_versions(found)}"
    machines = {line for line in before if line.startswith("- ") and " cores " in line}
    yield from sorted(machines | {f"- {c.machine}" for c in found})
    wrong = [f"  - {_name(c)}, {fault}" for c in found for fault in c.faults]
    wrong += [
        line
        for line in before
        if line.startswith("  - ") and line.removeprefix("  - ").partition(",")[0] not in names
    ]
    yield f"- the checks at the end of the runs found {'this:' if wrong else 'no fault'}"
    yield from wrong


def _missed(catalog: Catalog, found: Comparison) -> Iterator[str]:
    """The aims that a workload does not reach."""
    speed = "written_per_s" if found.arrival else "pods_per_s"
    aim = catalog.workloads[found.workload].aim
    aims = {speed: ("Pods/s", aim), "cpu_ms": ("CPU per Pod", CPU_AIM), "rss_mib": ("memory", 1.0)}
    if found.placed >= MANY_PODS:
        aims["first_bind_s"] = ("time to the first binding", 1.0)
    if found.arrival:
        aims["p99_ms"] = ("p99 latency", 1.0)
    for figure, (title, bound) in aims.items():
        text = _ratio(found, figure)
        if text and (float(text) < bound if figure == speed else float(text) > bound):
            yield f"{_name(found)}: {title} {text} times kube-scheduler's; aimed for {bound:.2g}"


def _range(texts: Iterable[str], versions: str) -> str:
    """The least and the greatest ratio of Pods per second, as a sentence."""
    ratios = sorted(float(text) for text in texts if text)
    if not ratios:
        return ""
    times = f"{ratios[0]:.1f} to {ratios[-1]:.1f} times"
    return (
        f"On {len(ratios)} workloads bayplan bound {times} as many Pods a second as kube-scheduler"
        f" {versions}."
    )


def _versions(found: list[Comparison]) -> str:
    runs = (run for c in found for runs in c.runs.values() for run in runs)
    return ", ".join(sorted({run.kubernetes for run in runs if run.kubernetes}))


def _name(found: Comparison) -> str:
    return f"{found.workload}{found.variant.replace('-', ' ')}"


def _order(catalog: Catalog, name: str) -> int:
    """The place of a workload, with or without its variant."""
    return list(catalog.workloads).index(name.partition(" ")[0])


def _table(head: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    lines = list(rows)
    return markdown(head, lines) if lines else ""


def _throughput(catalog: Catalog, found: Comparison) -> list[str]:
    rounds = min(len(runs) for runs in found.runs.values())
    return [
        _name(found),
        *(f"{n:,}" for n in (found.nodes, found.placed, found.measured)),
        str(rounds),
        *_both(found, "pods_per_s", 0),
        _ratio(found, "pods_per_s"),
        f"{catalog.workloads[found.workload].aim:g}",
        *_both(found, "last_bind_s", 1),
        *_both(found, "cpu_ms", 2),
        _ratio(found, "cpu_ms"),
        *_both(found, "server_cpu_ms", 2),
        f"{max(run.others_share for runs in found.runs.values() for run in runs):.0%}",
        found.finished.partition(" ")[0],
    ]


def _quality(found: Comparison) -> list[str]:
    return [
        _name(found),
        *_both(found, "first_bind_s", 2),
        *_both(found, "rss_mib", 0),
        *_both(found, "evaluated", 0),
        *_both(found, "cpu_spread_m", 1),
        *_both(found, "nodes_used", 0),
    ]


def _latency(found: Comparison) -> list[str]:
    return [
        _name(found),
        f"{found.nodes:,}",
        f"{found.waiting:,}",
        *_both(found, "arrived_per_s", 0),
        *_both(found, "written_per_s", 0),
        _ratio(found, "written_per_s"),
        *_both(found, "p50_ms", 1),
        *_both(found, "p99_ms", 1),
        _ratio(found, "p99_ms"),
        *_both(found, "cpu_ms", 2),
        *_both(found, "events", 0),
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
        return ""
    result = msgspec.json.decode(file.read_bytes(), type=SoakResult)
    last = result.samples[-1]
    wrong = "; ".join(result.complaints()) or "nothing was wrong"
    return (
        f"{result.minutes:g} minutes: {last.created:,} Pods created, memory grew by "
        f"{result.growth_mib:.1f} MiB to {last.rss:.0f} MiB; {wrong}."
    )


if __name__ == "__main__":
    main()
