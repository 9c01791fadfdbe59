"""The collector pauses, and goes on as it was."""

from __future__ import annotations

import gc

import pytest

from bayplan.support.collector import collector_paused


def test_the_collector_pauses_and_goes_on_also_after_an_error() -> None:
    def broken() -> None:
        with collector_paused():
            assert not gc.isenabled()
            raise ValueError("broken")

    assert gc.isenabled()
    with pytest.raises(ValueError, match="broken"):
        broken()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
