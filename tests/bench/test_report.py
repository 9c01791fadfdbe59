"""What the report writes into the page and the README."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.results import Comparison, Run

from bench import report, results

PARTS = [
    "measured",
    "throughput",
    "quality",
    "latency",
    "missed",
    "core-machine",
    "core",
    "core-nodes",
    "core-placed",
    "soak",
]


def run(pods_per_s: float, cpu_ms: float = 1.0, **more: object) -> Run:
    figures = {"kubernetes": "v1.37.1", "bound": 9, "total": 9, "rss_mib": 100.0, **more}
    return Run(pods_per_s=pods_per_s, cpu_ms=cpu_ms, **figures)  # type: ignore[arg-type]


def comparison(workload: str, theirs: list[Run], ours: list[Run], arrival: float = 0) -> Comparison:
    runs = {"kube-scheduler": theirs, "bayplan": ours}
    return Comparison(workload, 10, 0, 9, arrival, "", "a machine", "today", runs)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page and a README with a place for everything, and an empty folder of results."""
    path, readme = tmp_path / "page.md", tmp_path / "README.md"
    path.write_text("".join(f"<!-- {name} -->\nold {name}\n<!-- end -->\n" for name in PARTS))
    readme.write_text("before\n<!-- speed -->\nold\n<!-- end -->\nafter\n")
    monkeypatch.setattr(report, "PAGE", path)
    monkeypatch.setattr(report, "README", readme)
    monkeypatch.setattr(report, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    return path


def part(page: Path, name: str) -> str:
    """What stands in the place of that name."""
    return page.read_text().partition(f"<!-- {name} -->\n")[2].partition("\n<!-- end -->")[0]


def test_without_results_everything_stays(page: Path) -> None:
    before = page.read_text()
    report.main()
    assert page.read_text() == before


def test_figures_come_from_the_results_and_other_tables_stay(page: Path) -> None:
    basic = comparison("SchedulingBasic", [run(100), run(300), run(200)], [run(500, 0.2)])
    gangs = comparison("GangScheduling", [run(100)], [run(90, 0.5)])
    basic.save()
    gangs.save()
    report.main()
    assert "| SchedulingBasic | 10 | 0 | 9 | 1 | 200 | 500 | 2.50 | 1.7 |" in part(
        page, "throughput"
    )
    assert part(page, "missed").splitlines() == [
        "- GangScheduling: Pods/s 0.90 times kube-scheduler's; aimed for 4",
        "- GangScheduling: CPU per Pod 0.50 times kube-scheduler's; aimed for 0.33",
    ]
    measured = part(page, "measured")
    assert "kube-scheduler v1.37.1" in measured
    assert measured.endswith("found no fault")
    assert part(page, "latency") == "old latency"
    assert part(page, "core") == "old core"
    said = "On 2 workloads bayplan bound 0.9 to 2.5 times as many Pods a second"
    assert f"\n{said} as kube-scheduler v1.37.1.\n" in report.README.read_text()


def test_workloads_that_were_not_measured_again_keep_their_rows(page: Path) -> None:
    slow = {"others_share": 0.25}
    comparison("GangScheduling", [run(100, **slow)], [run(90, 0.2)]).save()
    comparison("SchedulingBasic", [run(100)], [run(150, 0.5)]).save()
    report.main()
    for file in results.FOLDER.iterdir():
        file.unlink()
    comparison("SchedulingBasic", [run(100)], [run(400, 0.2, faults=["twice bound"])]).save()
    comparison("OwnSizes", [run(100)], [run(110, 0.2)]).save()
    report.main()
    rows = part(page, "throughput").splitlines()[2:]
    assert [row.split()[1] for row in rows] == ["SchedulingBasic", "OwnSizes", "GangScheduling"]
    assert "| 400 | 4.00 |" in rows[0]
    assert rows[2].endswith("| 25% | today |")
    assert part(page, "missed").splitlines() == [
        "- OwnSizes: Pods/s 1.10 times kube-scheduler's; aimed for 3",
        "- GangScheduling: Pods/s 0.90 times kube-scheduler's; aimed for 4",
    ]
    assert part(page, "measured").endswith("- SchedulingBasic, bayplan: twice bound")
    assert "On 3 workloads bayplan bound 0.9 to 4.0 times" in report.README.read_text()


def test_a_workload_at_another_size_replaces_what_was_said_of_that_size(page: Path) -> None:
    for pods_per_s, faults in ((90, ["twice bound"]), (80, [])):
        found = comparison("GangScheduling", [run(100)], [run(pods_per_s, 0.2, faults=faults)])
        found.variant = "-pods9"
        found.save()
        report.main()
    assert part(page, "missed").splitlines() == [
        "- GangScheduling pods9: Pods/s 0.80 times kube-scheduler's; aimed for 4"
    ]
    assert part(page, "measured").endswith("found no fault")


def test_a_run_that_broke_counts_in_no_figure_and_is_named(page: Path) -> None:
    broken = Run(total=9, faults=["StartError: no port"])
    comparison("SchedulingBasic", [run(100), broken], [run(200, 0.2), run(200, 0.2)]).save()
    report.main()
    assert "| 100 | 200 | 2.00 |" in part(page, "throughput")
    assert part(page, "measured").splitlines()[-2:] == [
        "- the checks at the end of the runs found this:",
        "  - SchedulingBasic, kube-scheduler: StartError: no port",
    ]


def test_workloads_with_arriving_pods_have_a_table_of_their_own(page: Path) -> None:
    late = {"arrived_per_s": 50.0, "p50_ms": 1.0, "events": 9}
    theirs = run(100, p99_ms=10.0, written_per_s=80.0, **late)
    ours = run(300, 0.2, p99_ms=20.0, written_per_s=240.0, **late)
    comparison("Sustained", [theirs], [ours], arrival=1000).save()
    report.main()
    assert "| Sustained | 10 | 0 | 50 | 50 | 80 | 240 | 3.00 |" in part(page, "latency")
    missed = "- Sustained: p99 latency 2.00 times kube-scheduler's; aimed for 1"
    assert part(page, "missed") == missed
