"""The benchmark of plans, small: each of its goals is reached."""

from __future__ import annotations

import pytest
from bench.improve import main


def test_each_goal_is_reached(capsys: pytest.CaptureFixture[str]) -> None:
    main(nodes=24, running=120, questions=2)
    said = " ".join(capsys.readouterr().out.split())
    assert "for a Pod: median" in said
    assert said.count("2 of 2 reached") >= 2
