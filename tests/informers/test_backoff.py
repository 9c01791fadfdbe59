"""How long a reflector waits after failures."""

from __future__ import annotations

from bayplan.informers.backoff import RESET_AFTER, Backoff


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_wait_doubles_up_to_half_a_minute() -> None:
    backoff = Backoff(Clock(), lambda: 0.0)
    assert [backoff.next() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


def test_the_wait_is_spread_up_to_double() -> None:
    assert Backoff(Clock(), lambda: 0.5).next() == 0.8 * 1.5


def test_it_starts_anew_after_two_quiet_minutes() -> None:
    clock = Clock()
    backoff = Backoff(clock, lambda: 0.0)
    backoff.next()
    clock.now += RESET_AFTER
    assert backoff.next() == 1.6
    clock.now += RESET_AFTER + 1
    assert backoff.next() == 0.8
