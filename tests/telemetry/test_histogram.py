"""A histogram that counts in batches serves what prometheus_client's own would."""

from __future__ import annotations

import random
import threading

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

from bayplan.telemetry.histogram import BATCH, Histogram

BOUNDS = [0.001, 0.5, 1.0, 16.0]


def served(family: Histogram) -> str:
    registry = CollectorRegistry()
    registry.register(family)
    return generate_latest(registry).decode()


@pytest.mark.parametrize("count", [0, 1, BATCH - 1, BATCH, 3 * BATCH + 7])
@pytest.mark.parametrize("labels", [(), ("result", "profile")])
def test_it_serves_what_an_unbatched_one_serves(labels: tuple[str, ...], count: int) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    other = prometheus_client.Histogram(
        "seconds", "Text.", labels, registry=registry, buckets=BOUNDS
    )
    mine = Histogram("seconds", "Text.", labels, BOUNDS)
    draw = random.Random(count)
    # Powers of two add up exactly, in any order; some lie on a bound.
    for value in draw.choices([2.0**n for n in range(-12, 6)], k=count):
        values = draw.choices("ab", k=len(labels))
        mine.labels(*values).observe(value)
        (other.labels(*values) if labels else other).observe(value)
    assert served(mine) == generate_latest(registry).decode()


def test_nothing_is_lost_or_counted_twice_while_threads_observe_and_scrape() -> None:
    family = Histogram("seconds", "Text.", (), BOUNDS)
    observations = family.labels()

    def observe() -> None:
        for _ in range(5 * BATCH):
            observations.observe(1.0)

    threads = [threading.Thread(target=observe) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        observations.totals()
    assert observations.totals() == ([0, 0, 20 * BATCH, 20 * BATCH, 20 * BATCH], 20.0 * BATCH)
