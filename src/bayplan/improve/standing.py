"""Standing: whether an older plan can be carried out now, exactly as planned.

The moves that are left are made in a trial, each Pod on its node and in its order, with the later
ones still where they are; then the Pods of the goal are placed. No other node and no other order is
looked for: what does not stand any more is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import groupby

from bayplan.api.pod import Pod
from bayplan.engine.faults import AttemptFault
from bayplan.framework.cycle_state import CycleState
from bayplan.improve.deciders import Deciders
from bayplan.improve.movable import Movable
from bayplan.improve.orders import Order, Target
from bayplan.improve.trials import Trials

Found = tuple[Pod, Target]


class Standing:
    """See the module's docstring. Scheduling thread only; nothing is changed."""

    def __init__(self, deciders: Deciders, now: float) -> None:
        self._deciders, self._now = deciders, now
        self._nodes = deciders.world.cache.nodes
        self._trials = Trials(deciders)

    def deviation(self, order: Order) -> str:
        """What stands against the moves from ``order.step`` on, as a sentence; "" for nothing."""
        left = [move for move in order.moves if move.step >= order.step]
        found = self.pods([*left, *order.goal])
        for target in (*left, *order.goal):
            if not any(target is one for _, one in found):
                return f"{target.pod} is not as it was"
        moves = [(pod, target) for pod, target in found if target.step]
        return self._stays(moves, order) or self._misfit(found)

    def pods(self, targets: Iterable[Target]) -> list[Found]:
        """The Pods of these targets; without Pods that are not running or waiting any more."""
        pods = self._deciders.world.handlers.pods
        known = ((pods.get(target.pod), target) for target in targets)
        return [
            (pod, target)
            for pod, target in known
            if pod is not None
            and pod.uid == target.uid
            and bool(pod.node_name) == bool(target.step)
        ]

    def _stays(self, found: Sequence[Found], order: Order) -> str:
        """Why a Pod may not move any more."""
        movable = Movable(self._deciders, self._now, mending=order.mends)
        for pod, _ in found:
            may, stays = movable.count([pod])
            if not may:
                return f"{pod.key} stays: {next(iter(stays))}"
        return ""

    def _misfit(self, found: Sequence[Found]) -> str:
        """The first Pod without room on its next node."""
        with ExitStack() as stack:
            for _, step in groupby(found, lambda one: one[1].step):
                together = list(step)
                running = [pod for pod, _ in together if pod.node_name]
                stack.enter_context(self._trials.without(running))
                for pod, target in together:
                    waiting = pod.off_node() if pod.node_name else pod
                    if why := self._place(stack, waiting, target.to):
                        return why
        return ""

    def _place(self, stack: ExitStack, pod: Pod, node: str) -> str:
        row = self._nodes.row(node)
        if row is None:
            return f"node {node}, where {pod.key} is to go, is gone"
        if stack.enter_context(self._trials.placed(pod, row)):
            return ""
        return f"{pod.key} does not fit on {node}: {self._reason(pod, row)}"

    def _reason(self, pod: Pod, row: int) -> str:
        try:
            diagnosis, _ = self._trials.search(pod).diagnose(CycleState(timed=False), pod)
        except AttemptFault as fault:
            return str(fault)
        return diagnosis.status(row).message or "it cannot be reserved"
