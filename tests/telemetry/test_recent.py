"""What the metrics have counted in the last minute."""

from __future__ import annotations

from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.recent import PluginRecord, Recent
from bayplan.testing import make_pod


class Watched:
    """Metrics, and a look at these every second of a clock that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0
        self.metrics = Metrics()
        self.recent = Recent(self.metrics, lambda: self.now)

    def later(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.recent.look()

    def attempts(self, result: str, number: int) -> None:
        for _ in range(number):
            self.metrics.attempt(make_pod("p").obj(), "bayplan", result, 0.001)


def test_rates_are_of_the_last_minute() -> None:
    watched = Watched()
    watched.attempts("scheduled", 600)
    watched.later(20)
    assert watched.recent.rates()["scheduled"] == 30.0
    watched.later(80)
    watched.attempts("scheduled", 120)
    watched.attempts("error", 30)
    rates = watched.recent.rates()
    assert rates == {"seconds": 60, "scheduled": 2.0, "unschedulable": 0.0, "error": 0.5}


def test_a_plugin_that_fails_is_named_for_ever_and_what_is_new_of_it() -> None:
    watched = Watched()
    watched.metrics.plugin_failed("Bad", "Filter")
    watched.later(100)
    watched.metrics.plugin_failed("Bad", "Filter")
    watched.metrics.plugin_failed("Worse", "Score")
    assert watched.recent.plugins() == [
        PluginRecord("Bad", "Filter", 2, 1, 0, 0.0),
        PluginRecord("Worse", "Score", 1, 1, 0, 0.0),
    ]


def test_a_plugin_is_slow_by_the_calls_of_the_last_minute() -> None:
    watched = Watched()
    for _ in range(1000):
        watched.metrics.plugin_called("Slow", "Filter", "bayplan", 0.001)
    watched.later(100)
    assert watched.recent.plugins() == []
    for number in range(100):
        seconds = 0.3 if number < 2 else 0.001
        watched.metrics.plugin_called("Slow", "Filter", "bayplan", seconds)
    (slow,) = watched.recent.plugins()
    assert (slow.plugin, slow.failures, slow.calls) == ("Slow", 0, 100)
    assert 0.1 < slow.over <= 0.3
    watched.metrics.plugin_called("Stuck", "Score", "bayplan", 600)
    assert watched.recent.plugins()[1].over > 10, "above all bounds, and still a number"
