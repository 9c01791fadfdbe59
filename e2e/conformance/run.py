"""A conformance run: cases through the oracle and through bayplan, compared and counted."""

from __future__ import annotations

import json
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.conformance.compare import (
    Difference,
    compare_explanations,
    compare_simulations,
)
from e2e.conformance.generator import (
    Case,
    Size,
    generate,
    generate_with_composites,
    generate_with_groups,
    generate_with_quotas,
)
from e2e.conformance.oracle import Oracle, OracleError, write_case
from e2e.conformance.reach import Reach
from e2e.conformance.shrink import Shrinker
from e2e.provider.golang import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CASES = ROOT / "tests" / "conformance" / "cases"
"""Where shrunk cases are kept as regression tests."""


@dataclass(frozen=True)
class Plan:
    """What a run does with each seed.

    With ``quotas``, to a cluster for CapacityScheduling; with ``groups``, to one with PodGroups of
    Kubernetes; with ``composites``, to one with CompositePodGroups as well.
    """

    size: Size
    quotas: bool = False
    groups: bool = False
    composites: bool = False
    simulate: bool = False
    reach_only: bool = False
    shrink: bool = False


@dataclass
class Findings:
    """What a run, or a part of it, found."""

    reach: Reach = field(default_factory=Reach)
    differences: list[tuple[str, Difference]] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    saved: list[Path] = field(default_factory=list)


def explain_with_bayplan(
    cluster: Path, config: Path | None, running: str = "", gates: str = ""
) -> list[dict[str, Any]]:
    """What ``bayplan explain -o json`` prints, for all pending Pods and then for ``running``."""
    answer = _bayplan("explain", gates, cluster, config)
    return answer + (_bayplan("explain", gates, cluster, config, running) if running else [])


def simulate_with_bayplan(
    cluster: Path, config: Path | None, gates: str = ""
) -> list[dict[str, Any]]:
    """What ``bayplan simulate -o json`` prints."""
    return _bayplan("simulate", gates, cluster, config)


def _bayplan(
    command: str, gates: str, cluster: Path, config: Path | None, *pod: str
) -> list[dict[str, Any]]:
    """Call the command; imported late, for --reach does without bayplan."""
    from tests.simulation.answers import answers  # noqa: PLC0415

    flag = ",".join(f"{gate}=true" for gate in gates.split(",") if gate)
    only = ["--pod", *pod] if pod else []
    return answers(command, cluster, config, "--feature-gates", flag, *only)


class Run:
    """Judges cases one after the other with one oracle process."""

    def __init__(self, oracle: Oracle, plan: Plan, folder: Path) -> None:
        self._oracle = oracle
        self._plan = plan
        self._folder = folder
        self._shrunk: set[tuple[str, str]] = set()
        self.findings = Findings()

    def judge(self, seed: int) -> None:
        """Generate the case of a seed, judge it, and keep it small where it fails."""
        make = generate_with_quotas if self._plan.quotas else generate
        if self._plan.groups:
            make = generate_with_groups
        if self._plan.composites:
            make = generate_with_composites
        case = make(seed, self._plan.size)
        cluster, config = write_case(case, self._folder)
        complaints = self._oracle.ask("validate", cluster, config, gates=case.gates)
        self.findings.invalid += [f"{case.name}: {complaint}" for complaint in complaints]
        expected = self._expected(case, cluster, config)
        differences: list[Difference] = []
        if not self._plan.reach_only:
            differences = self._differences(expected, case, cluster, config)
        self.findings.reach.count(case, expected, differences)
        self.findings.differences += [(case.name, difference) for difference in differences]
        if self._plan.shrink:
            for difference in differences:
                self._keep(case, difference)
        for path in (cluster, config):
            if path:
                path.unlink()

    def _expected(self, case: Case, cluster: Path, config: Path | None) -> list[Any]:
        """kube-scheduler's word on all pending Pods, and on one that runs."""
        answer = self._oracle.ask("explain", cluster, config, gates=case.gates)
        running = case.running
        if running:
            answer += self._oracle.ask("explain", cluster, config, running, case.gates)
        return answer

    def _differences(
        self, expected: list[Any], case: Case, cluster: Path, config: Path | None
    ) -> list[Difference]:
        found = guarded(
            lambda: compare_explanations(
                expected, explain_with_bayplan(cluster, config, case.running, case.gates)
            )
        )
        if self._plan.simulate:
            steps = self._oracle.ask("simulate", cluster, config, gates=case.gates)
            found += guarded(
                lambda: compare_simulations(
                    steps, simulate_with_bayplan(cluster, config, case.gates)
                )
            )
        return found

    def _keep(self, case: Case, difference: Difference) -> None:
        """Shrink the case to the difference and save it, once for every kind of difference."""
        if difference.kind in self._shrunk:
            return
        self._shrunk.add(difference.kind)
        latest = [difference]

        def fails(smaller: Case) -> bool:
            cluster, config = write_case(smaller, self._folder)
            try:
                if self._oracle.ask("validate", cluster, config, gates=smaller.gates):
                    return False
                expected = self._expected(smaller, cluster, config)
            except OracleError:
                return False
            found = self._differences(expected, smaller, cluster, config)
            alike = [other for other in found if other.kind == difference.kind]
            latest[:] = alike[:1] or latest
            return bool(alike)

        small = Shrinker(fails).shrink(case, difference.pod)
        self.findings.saved.append(self.save(small, latest[0]))

    def save(self, case: Case, difference: Difference | None = None) -> Path:
        """Write a case with kube-scheduler's answer, so that a test can repeat it without Go."""
        cluster, config = write_case(case, self._folder)
        expected = self._expected(case, cluster, config)
        about = [*difference.kind] if difference else ["fixed"]
        name = "-".join(part for part in (case.name, *about) if part).replace(".", "-")
        path = CASES / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "about": str(difference) if difference else f"the whole cluster of {case.name}",
            "config": case.config,
            "items": case.items,
            "expected": expected,
        }
        path.write_text(json.dumps(document, indent=1) + "\n")
        return path


def guarded(compare: Callable[[], list[Difference]]) -> list[Difference]:
    """The differences, one of which is that bayplan did not answer at all."""
    try:
        return compare()
    except Exception as fault:  # noqa: BLE001 - whatever bayplan raises is a finding
        where = traceback.extract_tb(fault.__traceback__)[-1]
        actual = f"{type(fault).__name__}: {fault} ({Path(where.filename).name}:{where.lineno})"
        return [Difference("", "crash", None, actual, plugin=f"{where.name}")]


def run(program: Path, seeds: range, plan: Plan) -> Iterator[tuple[int, Findings]]:
    """Judge the seeds; after each, yield it with the findings so far."""
    with tempfile.TemporaryDirectory() as folder, Oracle(program) as oracle:
        judge = Run(oracle, plan, Path(folder))
        for seed in seeds:
            judge.judge(seed)
            yield seed, judge.findings
