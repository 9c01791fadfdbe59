"""Clusters on which bayplan differed from kube-scheduler, or would without a feature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e.conformance.compare import compare_explanations
from e2e.conformance.generator import Case
from e2e.conformance.oracle import write_case
from e2e.conformance.run import explain_with_bayplan

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_bayplan_decides_as_kube_scheduler_did(path: Path, tmp_path: Path) -> None:
    kept = json.loads(path.read_text())
    case = Case("case", kept["items"], kept["config"])
    cluster, config = write_case(case, tmp_path)
    judged = {verdict["pod"] for verdict in kept["expected"]}
    actual = explain_with_bayplan(cluster, config, case.running if case.running in judged else "")
    differences = compare_explanations(kept["expected"], actual)
    assert not differences, "\n".join(map(str, differences))
