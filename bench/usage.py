"""What a process has used, and what a scheduler says of itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil
from e2e.provider import Part
from prometheus_client.parser import text_string_to_metric_families

IDLE_SHARE = 0.05
"""Share of a CPU below which a scheduler has nothing left to do."""


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of CPU used so far, ``everything`` by all processes, and of the clock."""

    scheduler: float = 0.0
    server: float = 0.0
    bench: float = 0.0
    everything: float = 0.0
    clock: float = 0.0

    def others_share(self, since: CpuTimes) -> float:
        """The part of the machine that was used by what does not belong to the benchmark."""
        ours = self.scheduler + self.server + self.bench
        ours -= since.scheduler + since.server + since.bench
        capacity = (self.clock - since.clock) * (psutil.cpu_count() or 1)
        return max(0.0, (self.everything - since.everything - ours) / capacity)


class CpuMeter:
    """Reads the CPU time of the scheduler, of API server and etcd, and of the benchmark itself."""

    def __init__(self, scheduler: int, server: Iterable[int]) -> None:
        self._scheduler = psutil.Process(scheduler)
        self._server = [psutil.Process(pid) for pid in server]
        self._bench = psutil.Process()

    def read(self) -> CpuTimes:
        """The times of now."""
        server = sum(_seconds(process) for process in self._server)
        times = psutil.cpu_times()
        everything = sum(times) - times.idle - getattr(times, "iowait", 0.0)
        return CpuTimes(
            _seconds(self._scheduler), server, _seconds(self._bench), everything, time.monotonic()
        )

    def settle(
        self, written: Callable[[], int], timeout: float = 120.0, interval: float = 0.5
    ) -> CpuTimes:
        """Wait until the scheduler has nothing left to do, such as events to send.

        It has when it uses no CPU and when what it has ``written`` does not become more. The clock
        of the result is that moment, up to ``interval`` seconds later.
        """
        deadline = time.monotonic() + timeout
        before, count = self.read(), written()
        while True:
            time.sleep(interval)
            now, more = self.read(), written()
            idle = now.scheduler - before.scheduler < IDLE_SHARE * interval
            if (idle and more == count) or time.monotonic() > deadline:
                return before
            before, count = now, more


def peak_rss(pid: int) -> float:
    """The most memory that a process had resident, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True)
class OwnFigures:
    """From a scheduler's /metrics.

    Attributes:
        attempts: how often it tried to place a Pod.
        evaluated: nodes looked at per attempt.
        points_us: microseconds per attempt spent in each extension point; of kube-scheduler a
            sample, of bayplan all attempts.
    """

    attempts: int
    evaluated: float | None
    points_us: dict[str, float]


def own_figures(part: Part) -> OwnFigures:
    """Ask a scheduler for its metrics."""
    text = part.endpoint.get("/metrics").decode()
    attempts = 0.0
    filters: dict[str, float] = {}
    evaluated = None
    seconds: dict[str, float] = {}
    counts: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for name, labels, value, *_ in family.samples:
            match name:
                case "scheduler_schedule_attempts_total":
                    attempts += value
                case "scheduler_plugin_evaluation_total" if labels["extension_point"] == "Filter":
                    filters[labels["plugin"]] = filters.get(labels["plugin"], 0) + value
                case "bayplan_evaluated_nodes_total":
                    evaluated = value
                case "scheduler_framework_extension_point_duration_seconds_sum":
                    point = labels["extension_point"]
                    seconds[point] = seconds.get(point, 0) + value
                case "scheduler_framework_extension_point_duration_seconds_count":
                    point = labels["extension_point"]
                    counts[point] = counts.get(point, 0) + value
    total = max(filters.values(), default=evaluated) or None  # bayplan counts none for groups
    return OwnFigures(
        int(attempts),
        None if total is None or not attempts else round(total / attempts, 1),
        {p: round(s / counts[p] * 1e6, 1) for p, s in seconds.items() if counts.get(p)},
    )
