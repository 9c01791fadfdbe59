"""Filter and Score plugins as stages: every plugin in the column form, whichever one it has.

Conventions of the codes that a filter stage gives per row: 0 fits, positive numbers are reasons to
reject the node, negative ones are errors. `FilterStage.status` puts a code into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, NodeInfo, NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE, Depends, Plugin
from bayplan.framework.status import SUCCESS, Code, Status

T = TypeVar("T")


class AttemptError(Exception):
    """This attempt to schedule a Pod is over: a plugin broke or reported an error."""


def each_node(
    plugin: Plugin, pool: Executor | None, ask: Callable[[NodeInfo], T], nodes: Iterable[NodeInfo]
) -> Iterable[T]:
    """``ask`` about every node; on ``pool`` where the plugin says that it blocks."""
    return pool.map(ask, nodes) if plugin.blocking and pool else map(ask, nodes)


class FilterStage:
    """One Filter plugin of a profile."""

    def __init__(self, plugin: Plugin, pool: Executor | None = None) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.local = Depends.CLUSTER not in plugin.filter_depends
        self.on_pods = Depends.PODS in plugin.filter_depends
        self._pool = pool
        self._columns: Any = getattr(plugin, "filter_nodes", None)
        self._known: list[Status] = [SUCCESS]
        self._codes: dict[Status, int] = {SUCCESS: 0}

    def codes(
        self, state: CycleState, pod: Pod, nodes: NodeTable, undecided: BoolArray
    ) -> IntArray:
        """Reason codes, ``(len(nodes),)``; a one-node plugin is asked about ``undecided`` only."""
        if self._columns is not None:
            return self._columns(state, pod, nodes)  # type: ignore[no-any-return]
        codes = np.zeros(len(nodes), np.int64)
        rows = np.flatnonzero(undecided)
        infos = [nodes.info(row) for row in rows.tolist()]
        method = self.plugin.filter  # type: ignore[attr-defined]
        answers = each_node(self.plugin, self._pool, lambda n: method(state, pod, n), infos)
        codes[rows] = [self._code(answer or SUCCESS) for answer in answers]
        return codes

    def _code(self, status: Status) -> int:
        code = self._codes.get(status)
        if code is None:
            code = len(self._known)
            self._known.append(status)
            self._codes[status] = code
        return -code if status.code is Code.ERROR else code

    def status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What ``code`` means, with the plugin filled in."""
        if self._columns is not None:
            reasons = self.plugin.reasons  # type: ignore[attr-defined]
            status: Status = reasons(state, pod, code)
        else:
            status = self._known[abs(code)]
        if status.code is Code.ERROR:
            status = Status.error(f'running "{self.name}" filter plugin: {status.message}')
        return status.by(self.name)


class ScoreStage:
    """One Score plugin of a profile, with its weight."""

    def __init__(self, plugin: Plugin, weight: int, pool: Executor | None = None) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.weight = weight
        self.normalizer = plugin.normalizer
        self._normalize: Any = getattr(plugin, "normalize_score", None)
        self.local = Depends.CLUSTER not in plugin.score_depends and self._normalize is None
        self.on_pods = Depends.PODS in plugin.score_depends
        self._pool = pool
        self._columns: Any = getattr(plugin, "score_nodes", None)

    def raw(self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray) -> IntArray:
        """Raw scores, ``(len(nodes),)``; a one-node plugin is asked about ``feasible`` only."""
        if self._columns is not None:
            return self._columns(state, pod, nodes)  # type: ignore[no-any-return]
        scores = np.zeros(len(nodes), np.int64)
        rows = np.flatnonzero(feasible)
        infos = [nodes.info(row) for row in rows.tolist()]
        method = self.plugin.score  # type: ignore[attr-defined]
        answers = each_node(self.plugin, self._pool, lambda n: method(state, pod, n), infos)
        scores[rows] = list(answers)
        return scores

    def normalized(self, state: CycleState, pod: Pod, scores: IntArray) -> IntArray:
        """``scores`` of the feasible nodes, normalized but not weighted.

        Raises:
            AttemptError: a score is outside 0..100.
        """
        if self._normalize is not None:
            scores = self._normalize(state, pod, scores)
        elif self.normalizer is not None:
            scores = self.normalizer(scores, int(scores.max(initial=0)))
        self.check(scores)
        return scores

    def check(self, scores: IntArray) -> None:
        """Raises AttemptError when a normalized score is outside 0..100."""
        if scores.size and not (scores.min() >= 0 and scores.max() <= MAX_NODE_SCORE):
            wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0]
            raise AttemptError(
                f'plugin "{self.name}" returns an invalid score {wrong}, it should in the range of '
                f"[0, {MAX_NODE_SCORE}] after normalizing"
            )
