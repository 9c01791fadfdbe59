"""The scenarios of `bench.million`, small."""

from __future__ import annotations

import pytest
from bench.million import SCENARIOS, Million
from bench.workloads import load_catalog
from rich.progress import Progress

from bayplan.engine.row_answers import blocks, joined


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_pods_are_placed_and_kept_answers_are_fresh(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 8)
    monkeypatch.setattr(joined, "MANY", 16)
    scenario = SCENARIOS[name]
    with Progress(disable=True) as progress:
        figures = Million(load_catalog(), scenario, 60, progress).measure(150, 60.0)
    assert figures.first > 0
    assert figures.pods == (0 if scenario.full else 150)
    assert scenario.full or figures.checks > 0


def test_labels_of_nodes_change_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.million.LABELS_PER_SECOND", 10_000)
    monkeypatch.setattr("bench.million.CHUNK", 10)
    with Progress(disable=True) as progress:
        many = Million(load_catalog(), SCENARIOS["labels"], 60, progress)
        many.measure(150, 60.0)
    assert any("bench.example/changed" in labels for labels in many.labels())
