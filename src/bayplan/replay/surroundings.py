"""What surrounds a scheduler without a cluster: a clock, workers, and chance that is repeatable."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from bayplan.cache.node_table import LiveNodeTable
from bayplan.engine.ties import Ties
from bayplan.simulation.name_order import NameOrder

P = ParamSpec("P")
T = TypeVar("T")


class Clock:
    """Seconds that pass when somebody says so.

    Attributes:
        time: now. It serves as wall clock (seconds since the epoch) and as monotonic clock.
    """

    def __init__(self, time: float = 1_000.0) -> None:
        self.time = time

    def __call__(self) -> float:
        """The time."""
        return self.time


class InlineExecutor(Executor):
    """Runs what it is given at once, in the calling thread.

    Attributes:
        held: whether work is kept until `release` is called instead.
    """

    def __init__(self) -> None:
        self.held = False
        self._later: list[Callable[[], None]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``fn``; like a worker's, its exception ends in the future.

        Raises:
            AssertionError: it raised. Nothing that the scheduler gives to a worker does.
        """
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as exc:  # noqa: BLE001
                future.set_exception(exc)

        if self.held:
            self._later.append(run)
        else:
            run()
            if future.exception() is not None:
                raise AssertionError("a worker broke") from future.exception()
        return future

    def release(self) -> None:
        """Run what was held, and hold no more."""
        self.held, later, self._later = False, self._later, []
        for run in later:
            run()


class SeededTieBreak:
    """Picks among equally good nodes at random, the same ones for the same seed.

    Rows depend on what was there before, so the choice is made by the order of names.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._order = NameOrder()

    def __call__(self, nodes: LiveNodeTable, best: Ties) -> int:
        """One of the best rows."""
        return self._order.nth(nodes, best.rows, self._dice.randrange(best.count))
