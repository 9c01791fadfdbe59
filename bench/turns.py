"""Comparing worlds that place the same Pods, on a machine that others use, too.

They place their Pods in turns, a few at a time, so other programs are in the way of all of them
alike. Beside a high load caches are cold in every turn, and no ratio of times is the same twice. So
the bytecodes that are executed for a Pod are counted, too; what is done within NumPy is not in
them.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from types import FrameType
from typing import Any

from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bench.objects import Objects
from bench.recording import CoreWorld
from bench.workloads import Workload

TURN = 25
"""Pods that one of them places before the next one does."""
COUNTED = 200
"""Pods whose bytecodes are counted."""
SECONDS = 60.0


class World(CoreWorld):
    """A core whose time stands while bytecodes are counted: no timer comes up by chance."""

    def __init__(
        self, config: EffectiveConfig, registry: Registry, workload: Workload, objects: Objects
    ) -> None:
        self.stopped: float | None = None
        super().__init__(config, registry, workload, objects, clock=self.time)

    def time(self) -> float:
        """Seconds of the core's clock."""
        return time.monotonic() if self.stopped is None else self.stopped


def in_turns(worlds: Mapping[str, CoreWorld], pods: int) -> dict[str, list[float]]:
    """Microseconds of CPU a Pod in each turn, by world; each places ``pods``."""
    costs: dict[str, list[float]] = {name: [] for name in worlds}
    for turn in range(pods // TURN):
        order = list(worlds) if turn % 2 == 0 else list(worlds)[::-1]
        for name in order:
            placing = worlds[name].place(TURN, SECONDS)
            assert placing.pods == TURN, f"{name}: only {placing.pods} Pods were placed"
            costs[name].append(placing.cpu / TURN * 1e6)
    return costs


def bytecodes_of(world: World) -> Counter[str]:
    """How many bytecodes are executed for `COUNTED` Pods, by function."""
    counts: Counter[str] = Counter()
    world.stopped = time.monotonic()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            counts[frame.f_code.co_qualname] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        placing = world.place(COUNTED, SECONDS)
    finally:
        sys.settrace(before)
    assert placing.pods == COUNTED, f"only {placing.pods} Pods were placed"
    return counts
