"""Results: what a run measured, and the JSON files that keep it."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil

FOLDER = Path(__file__).with_name("results")


class Run(msgspec.Struct):
    """One scheduler on one fresh cluster.

    Attributes:
        kubernetes: the version of the API server, which is kube-scheduler's.
        bound: how many of the `total` measured Pods got a node.
        pods_per_s: from the first to the last binding, or as the workload says from the start.
        first_bind_s: from the start of the process to the first binding; `last_bind_s` to the last.
        cpu_ms: CPU of the scheduler per Pod, from the first binding until it had nothing to do.
        server_cpu_ms: that of API server and etcd together; `bench_cpu_ms` of the benchmark.
        others_share: part of the machine that other programs used meanwhile; noise, if not small.
        start_cpu_s: CPU of the scheduler up to the first binding.
        rss_mib: peak resident memory of the scheduler.
        written_s: from the start of the process to the last event written, at most 0.5 s more.
        written_per_s: Pods from the first binding to the last event written.
        arrived_per_s: Pods created a second while it placed others; only with a rate of arrival.
        p50_ms: from the creation of a Pod to its binding, median, of those that arrived.
        evaluated: nodes looked at per attempt, as the scheduler counts them.
        events: Event objects in the API at the end.
        cpu_spread_m: standard deviation of the CPU requested on a node, milli-CPU.
        nodes_used: nodes with a measured Pod.
        points_us: what the scheduler says of its extension points.
        timeline: (seconds since the start of the process, Pods bound by then).
        faults: what must not be: see `bench.placement.survey`.
    """

    kubernetes: str = ""
    bound: int = 0
    total: int = 0
    pods_per_s: float = 0.0
    first_bind_s: float = 0.0
    last_bind_s: float = 0.0
    cpu_ms: float = 0.0
    server_cpu_ms: float = 0.0
    bench_cpu_ms: float = 0.0
    others_share: float = 0.0
    start_cpu_s: float = 0.0
    rss_mib: float = 0.0
    written_s: float = 0.0
    written_per_s: float = 0.0
    arrived_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    attempts: int = 0
    evaluated: float | None = None
    events: int = 0
    cpu_spread_m: float = 0.0
    nodes_used: int = 0
    points_us: dict[str, float] = {}
    timeline: list[tuple[float, int]] = []
    faults: list[str] = []


class Comparison(msgspec.Struct):
    """All runs of a workload at one size."""

    workload: str
    nodes: int
    placed: int
    measured: int
    arrival: float
    variant: str
    machine: str
    finished: str
    runs: dict[str, list[Run]]
    waiting: int = 0

    @property
    def faults(self) -> list[str]:
        """What must not be, of all runs."""
        return [
            f"{name}: {fault}"
            for name, runs in self.runs.items()
            for r in runs
            for fault in r.faults
        ]

    @property
    def file(self) -> Path:
        """Where it is kept; another run of the same replaces it."""
        return FOLDER / f"{self.workload}{self.variant}.json"

    def save(self) -> Path:
        """Write it."""
        FOLDER.mkdir(exist_ok=True)
        self.file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        return self.file

    def median(self, scheduler: str, figure: str) -> float | None:
        """The median of a figure over the rounds; None where nobody measured it."""
        values = [getattr(run, figure) for run in self.runs.get(scheduler, ()) if run.pods_per_s]
        known = [v for v in values if v is not None]
        return float(statistics.median(known)) if known else None


class CoreFigures(msgspec.Struct):
    """The core at one size.

    Attributes:
        pods_per_s: Pods placed per second.
        next_us: microseconds of CPU per placed Pod; on an idle machine the inverse of `pods_per_s`.
        first_us: microseconds of CPU for the first Pod of a signature, median of several.
    """

    nodes: int
    placed: int
    measured: int
    pods_per_s: float
    next_us: float
    first_us: float


class CoreResult(msgspec.Struct):
    """The core over all sizes of one workload."""

    workload: str
    machine: str
    finished: str
    sizes: list[CoreFigures]

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return FOLDER / "core" / f"{self.workload}.json"

    def save(self) -> Path:
        """Write it."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        return self.file


def comparisons() -> Iterator[Comparison]:
    """All that are kept."""
    for file in sorted(FOLDER.glob("*.json")):
        yield msgspec.json.decode(file.read_bytes(), type=Comparison)


def core_results() -> Iterator[CoreResult]:
    """All that are kept."""
    for file in sorted((FOLDER / "core").glob("*.json")):
        yield msgspec.json.decode(file.read_bytes(), type=CoreResult)


def machine() -> str:
    """The machine in one line."""
    memory = round(psutil.virtual_memory().total / 2**30)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{cores} cores ({_processor()}), {memory} GiB, {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def now() -> str:
    """This moment, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
