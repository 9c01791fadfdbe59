"""``python -m e2e.conformance``: random clusters through kube-scheduler and through bayplan."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import traceback
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from e2e.conformance.generator import Size
from e2e.conformance.oracle import OracleError
from e2e.conformance.run import Findings, Plan, run
from e2e.provider.golang import BuildError
from e2e.provider.programs import ORACLE

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from pathlib import Path

SHOWN = 40


def bounds(text: str) -> tuple[int, int]:
    """Read ``20-200`` or ``20``."""
    least, _, most = text.partition("-")
    return int(least), int(most or least)


def main() -> int:
    """Run, and print what was reached and where bayplan differs; 1 if it does."""
    parser = argparse.ArgumentParser(prog="python -m e2e.conformance", description=__doc__)
    parser.add_argument("--clusters", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the first one's seed")
    parser.add_argument("--nodes", type=bounds, default=(20, 200), help="how many nodes: 20-200")
    parser.add_argument("--pods", type=bounds, default=(20, 200), help="how many pending Pods")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with its oracle")
    parser.add_argument("--quotas", action="store_true", help="clusters with ElasticQuotas")
    parser.add_argument("--groups", action="store_true", help="clusters with PodGroups")
    parser.add_argument("--composites", action="store_true", help="with CompositePodGroups")
    parser.add_argument("--simulate", action="store_true", help="compare simulate as well")
    parser.add_argument("--shrink", action="store_true", help="shrink and keep what fails")
    parser.add_argument(
        "--features", action="store_true", help="print all features, not those with disagreements"
    )
    parser.add_argument("--reach", action="store_true", help="ask kube-scheduler alone")
    asked = parser.parse_args()
    size = Size(asked.nodes, asked.pods)
    plan = Plan(
        size,
        asked.quotas,
        asked.groups,
        asked.composites,
        asked.simulate or asked.groups or asked.composites,
        reach_only=asked.reach,
        shrink=asked.shrink,
    )
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        findings = collect(console, ORACLE.binary(), asked.seed, asked.clusters, asked.jobs, plan)
    except (BuildError, OracleError) as fault:
        console.print(str(fault), markup=False)
        return 2
    report(console, findings, asked.features)
    return 1 if findings.differences or findings.invalid else 0


def collect(
    console: Console, program: Path, first: int, count: int, jobs: int, plan: Plan
) -> Findings:
    """Run the seeds in that many processes, showing progress, and add up what they find."""
    queue: Queue[int | Findings | OracleError] = multiprocessing.Queue()
    parts = [range(first + part, first + count, jobs) for part in range(jobs)]
    workers = [
        multiprocessing.Process(target=work, args=(queue, program, part, plan), daemon=True)
        for part in parts
    ]
    for worker in workers:
        worker.start()
    total, ended = Findings(), 0
    with Progress(console=console, disable=not sys.stdout.isatty()) as progress:
        task = progress.add_task("clusters", total=count)
        while ended < len(workers):
            news = queue.get()
            if isinstance(news, OracleError):
                raise news
            if isinstance(news, Findings):
                add(total, news)
                ended += 1
            else:
                progress.advance(task)
    return total


def work(
    queue: Queue[int | Findings | OracleError], program: Path, seeds: range, plan: Plan
) -> None:
    """A worker process: tells each seed that is done, then everything it found."""
    findings = Findings()
    try:
        for seed, found in run(program, seeds, plan):
            findings = found
            queue.put(seed)
        queue.put(findings)
    except Exception as fault:  # noqa: BLE001 - the parent waits for an answer, whatever happens
        told = str(fault) if isinstance(fault, OracleError) else traceback.format_exc()
        queue.put(OracleError(told))


def add(total: Findings, part: Findings) -> None:
    """Add what one worker found."""
    total.reach.merge(part.reach)
    total.differences += part.differences
    total.invalid += part.invalid
    total.saved += part.saved


def report(console: Console, findings: Findings, features: bool) -> None:
    """Print reach, then what is wrong."""
    findings.reach.print(console, features)
    for complaint in findings.invalid[:SHOWN]:
        console.print(f"invalid: {complaint}", markup=False)
    for case, difference in findings.differences[:SHOWN]:
        console.print(f"{case}: {difference}", markup=False, soft_wrap=True)
    kinds = Counter(difference.kind for _, difference in findings.differences)
    for (what, plugin), count in kinds.most_common():
        console.print(f"{count} differences: {what} {plugin}", markup=False)
    for path in findings.saved:
        console.print(f"kept {path}", markup=False)
    wrong = {(case, difference.pod) for case, difference in findings.differences}
    console.print(f"{len(wrong)} of {findings.reach.verdicts} Pods differ", markup=False)


if __name__ == "__main__":
    sys.exit(main())
