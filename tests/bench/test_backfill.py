"""The benchmark of reservations reserves, and keeps all Pods off."""

from __future__ import annotations

import pytest

from bench import backfill


def test_all_nodes_are_reserved_and_all_pods_wait(capsys: pytest.CaptureFixture[str]) -> None:
    backfill.main(members=5, waiting=8)
    said = capsys.readouterr().out
    assert said.startswith("5 nodes reserved: attempt ")
    assert "beside 8 waiting Pods" in said
