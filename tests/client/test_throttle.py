"""The token bucket behind clientConnection.qps and burst."""

from __future__ import annotations

import pytest

from bayplan.client.throttle import TokenBucket


def taken_at_once(bucket: TokenBucket, now: float) -> int:
    taken = 0
    while bucket.wait(now) == 0 and taken < 1000:
        bucket.take()
        taken += 1
    return taken


def test_a_burst_goes_at_once_and_then_qps_a_second() -> None:
    bucket = TokenBucket(qps=10, burst=5)
    assert taken_at_once(bucket, 100.0) == 5
    assert bucket.wait(100.0) == pytest.approx(0.1)
    assert taken_at_once(bucket, 100.35) == 3


def test_an_idle_time_saves_up_no_more_than_a_burst() -> None:
    bucket = TokenBucket(qps=10, burst=5)
    taken_at_once(bucket, 100.0)
    assert taken_at_once(bucket, 1000.0) == 5


@pytest.mark.parametrize("qps", [0.0, -1.0])
def test_there_is_no_limit_without_qps(qps: float) -> None:
    assert taken_at_once(TokenBucket(qps, 1), 1.0) == 1000


def test_a_burst_of_zero_still_lets_one_go() -> None:
    assert taken_at_once(TokenBucket(1, 0), 1.0) == 1
