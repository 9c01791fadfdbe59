"""`make bench-core BASE=<revision>`: the code of two revisions in turns, in one run.

    make bench-core BASE=v0.1.0 WORKLOAD=SchedulingBasic NODES=500 ROUNDS=5

The code of BASE is unpacked into a temporary folder and run by the same Python. Both measure the
same objects: today's workloads, and the code that makes objects of them, are laid over BASE. (So
`bench.objects` and `bench.workloads` import nothing of bayplan.) Who goes first changes from round
to round. Other programs on the machine can only add to a figure, so the lowest one counts.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.workloads import Workload

ROOT = Path(__file__).parent.parent
LAID_OVER = ("bench/objects.py", "bench/workloads.py", "bench/workloads.yaml")
"""What BASE gets from today's tree, so that both place the same Pods on the same nodes."""
_FIGURES = re.compile(r"([\d,]+) us a Pod, first of a signature ([\d,]+) us")


class CompareError(Exception):
    """A revision could not be unpacked, or a benchmark failed."""

    def __init__(self, message: str, tree: Path | None = None) -> None:
        super().__init__(message)
        self.tree = tree


@dataclass(frozen=True)
class Ratio:
    """One workload: microseconds of CPU, the lowest of all rounds; `first` of a signature."""

    workload: str
    base_next: float
    next: float
    base_first: float
    first: float

    @property
    def ratio(self) -> float:
        """Now divided by then, for each placed Pod: below 1 is faster."""
        return self.next / self.base_next

    @property
    def ratio_first(self) -> float:
        """`ratio` of the first Pod of a signature."""
        return self.first / self.base_first

    def __str__(self) -> str:
        return (
            f"{self.workload}: {self.base_next:,.0f} -> {self.next:,.0f} us a Pod, "
            f"ratio {self.ratio:.2f}; first of a signature {self.base_first:,.0f} -> "
            f"{self.first:,.0f} us, ratio {self.ratio_first:.2f}"
        )


def compare(
    base: str, workloads: Sequence[Workload], rounds: int, say: Callable[[str], None]
) -> list[Ratio]:
    """Measure every workload in both trees and ``say`` each ratio, then their geometric mean.

    Raises:
        CompareError: BASE is no revision, or a benchmark failed.
    """
    ratios = []
    with unpacked(base) as tree:
        for workload in workloads:
            times: dict[Path, list[tuple[float, float]]] = {tree: [], ROOT: []}
            try:
                for number in range(rounds):
                    for folder in (tree, ROOT) if number % 2 == 0 else (ROOT, tree):
                        times[folder].append(_measured(folder, workload))
            except CompareError as exc:
                if exc.tree != tree:
                    raise
                say(f"{workload.name}: {base} cannot place these Pods")
                continue
            lowest = [min(column) for side in times.values() for column in zip(*side, strict=True)]
            before, before_first, now, now_first = lowest
            if not all(lowest):
                say(f"{workload.name}: no Pod was placed in time; give fewer NODES")
                continue
            ratios.append(Ratio(workload.name, before, now, before_first, now_first))
            say(str(ratios[-1]))
    if not ratios:
        return ratios
    mean = statistics.geometric_mean(each.ratio for each in ratios)
    mean_first = statistics.geometric_mean(each.ratio_first for each in ratios)
    say(f"mean ratio to {base}: {mean:.2f}; first of a signature {mean_first:.2f}")
    return ratios


@contextmanager
def unpacked(base: str) -> Iterator[Path]:
    """A temporary folder with the code of revision ``base``, and today's workloads."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", base, "src", "bench", "e2e"],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        raise CompareError(archive.stderr.decode().strip())
    with tempfile.TemporaryDirectory(prefix="bench-core-") as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for name in LAID_OVER:
            shutil.copy(ROOT / name, Path(folder, name))
        yield Path(folder)


def _measured(tree: Path, workload: Workload) -> tuple[float, float]:
    """Microseconds a Pod, and for the first of a signature, by the code in ``tree``; 0: none."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "src")]),
        "WORKLOAD": workload.name,
        "NODES": str(workload.reference),
        "PLACED": str(workload.placed_count),
    }
    if config := os.environ.get("CONFIG"):
        environment["CONFIG"] = str(Path(config).resolve())
    command = [sys.executable, "-m", "bench.core"]
    run = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    figures = _FIGURES.search(run.stdout)
    if run.returncode or figures is None:
        raise CompareError(f"{workload.name} failed in {tree}: {run.stdout}{run.stderr}", tree)
    following, first = (float(text.replace(",", "")) for text in figures.groups())
    return following, first
