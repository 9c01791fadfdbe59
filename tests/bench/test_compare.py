"""Comparing the core of two revisions."""

import math
from pathlib import Path

import pytest
from bench.compare import LAID_OVER, ROOT, CompareError, Ratio, compare, unpacked
from bench.workloads import Workload, load_catalog

BASIC = load_catalog().select("SchedulingBasic")[0]


def test_both_trees_are_measured_and_the_ratio_is_printed() -> None:
    said: list[str] = []
    (ratio,) = compare("HEAD", [BASIC.sized(nodes=5, pods=5)], 1, said.append)
    assert ratio.workload == "SchedulingBasic"
    assert math.isfinite(ratio.ratio)
    assert said[0] == str(ratio)
    assert said[1].startswith("mean ratio to HEAD: ")


def test_a_workload_that_the_other_revision_cannot_run_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(tree: Path, workload: Workload) -> tuple[float, float]:
        if tree != ROOT and workload is BASIC:
            raise CompareError("failed", tree)
        return 1.0, 2.0

    monkeypatch.setattr("bench.compare._measured", measured)
    said: list[str] = []
    other = BASIC.sized(nodes=5)
    ratios = compare("HEAD", [BASIC, other], 1, said.append)
    assert [ratio.ratio for ratio in ratios] == [1.0]
    assert said[0] == "SchedulingBasic: HEAD cannot place these Pods"


def test_a_ratio_is_now_by_then() -> None:
    ratio = Ratio("Some", base_next=100, next=150, base_first=400, first=200)
    assert (ratio.ratio, ratio.ratio_first) == (1.5, 0.5)


def test_the_other_revision_gets_todays_workloads() -> None:
    with unpacked("HEAD") as tree:
        for name in LAID_OVER:
            assert (tree / name).read_bytes() == (ROOT / name).read_bytes()
        assert (tree / "src/bayplan").is_dir()
    assert not tree.exists()


def test_an_unknown_revision_is_an_error() -> None:
    with pytest.raises(CompareError), unpacked("no-such-revision"):
        pass


@pytest.mark.parametrize("name", LAID_OVER[:2])
def test_workloads_import_nothing_of_the_code_that_is_measured(name: str) -> None:
    imports = [line for line in (ROOT / name).read_text().splitlines() if "import " in line]
    assert not [line for line in imports if "bayplan" in line]
