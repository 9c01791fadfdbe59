"""Filter and Score plugins as stages: every plugin in the column form, whichever one it has.

Conventions of the codes that a filter stage gives per row: 0 fits, positive numbers are reasons to
reject the node, negative ones are errors. `FilterStage.status` puts a code into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, NodeInfo, NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE, Depends, Plugin
from bayplan.framework.status import SUCCESS, Status

T = TypeVar("T")


class AttemptError(Exception):
    """This attempt to schedule a Pod is over: a plugin broke or reported an error."""


class Caller(Protocol):
    """How plugins are called: `bayplan.framework.plugin_set.PluginSet.call`."""

    def __call__(self, plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T:
        """``method(*args)``; an exception of the plugin becomes an `AttemptError`."""


def in_tree(plugin: Plugin) -> bool:
    """Whether ``plugin`` is one of ours, whose tests say that it keeps within its bounds."""
    return type(plugin).__module__.startswith("bayplan.plugins.")


def on_pods(depends: Depends) -> bool:
    """Whether an answer may change when Pods come to a node or leave it."""
    return bool(depends & (Depends.PODS | Depends.RESOURCES))


def each_node(
    plugin: Plugin, pool: Executor | None, ask: Callable[[NodeInfo], T], nodes: Iterable[NodeInfo]
) -> Iterable[T]:
    """``ask`` about every node; on ``pool`` where the plugin says that it blocks."""
    return pool.map(ask, nodes) if plugin.blocking and pool else map(ask, nodes)


MAX_STATUSES = 10_000
"""Distinct statuses of a one-node Filter plugin that are remembered beyond one attempt."""


class FilterStage:
    """One Filter plugin of a profile. Methods raise `AttemptError` when the plugin breaks."""

    def __init__(self, plugin: Plugin, call: Caller, pool: Executor | None = None) -> None:
        self.plugin = plugin
        self._call = call
        self.name = plugin.name
        self.local = Depends.CLUSTER not in plugin.filter_depends
        self.on_pods = on_pods(plugin.filter_depends)
        self.by_load = plugin.filter_depends == Depends.RESOURCES
        self._pool = pool
        self._columns: Any = getattr(plugin, "filter_nodes", None)
        self.one_node = self._columns is None
        self._known: list[Status] = [SUCCESS]
        self._codes: dict[Status, int] = {}

    def begin(self) -> None:
        """An attempt begins: nobody has codes of earlier ones any more."""
        if len(self._known) > MAX_STATUSES:
            self._known, self._codes = [SUCCESS], {}

    def codes(
        self, state: CycleState, pod: Pod, nodes: NodeTable, undecided: BoolArray
    ) -> IntArray:
        """Reason codes, ``(len(nodes),)``; a one-node plugin is asked about ``undecided`` only."""
        return self._call(self.plugin, "Filter", self._ask, state, pod, nodes, undecided)

    def _ask(self, state: CycleState, pod: Pod, nodes: NodeTable, undecided: BoolArray) -> IntArray:
        if self._columns is not None:
            return _column(self._columns(state, pod, nodes), len(nodes))
        codes = np.zeros(len(nodes), np.int64)
        rows = np.flatnonzero(undecided)
        infos = [nodes.info(row) for row in rows.tolist()]
        method = self.plugin.filter  # type: ignore[attr-defined]
        answers = each_node(self.plugin, self._pool, lambda n: method(state, pod, n), infos)
        codes[rows] = [self._code(answer or SUCCESS) for answer in answers]
        return codes

    def _code(self, status: Status) -> int:
        if not isinstance(status, Status):
            raise TypeError(f"{status!r} was returned, not a Status")
        if status.ok:
            return 0
        code = self._codes.get(status)
        if code is None:
            code = len(self._known)
            self._known.append(status)
            self._codes[status] = code
        return code if status.rejected else -code

    def status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What ``code`` means, with the plugin filled in."""
        return self._call(self.plugin, "Filter", self._status, state, pod, code)

    def _status(self, state: CycleState, pod: Pod, code: int) -> Status:
        if self._columns is not None:
            reasons = self.plugin.reasons  # type: ignore[attr-defined]
            status: Status = reasons(state, pod, code)
        else:
            status = self._known[abs(code)]
        if not status.rejected:
            status = Status.error(f'running "{self.name}" filter plugin: {status.message}')
        return status.by(self.name)


class ScoreStage:
    """One Score plugin of a profile. Methods raise `AttemptError` when the plugin breaks."""

    def __init__(
        self, plugin: Plugin, weight: int, call: Caller, pool: Executor | None = None
    ) -> None:
        self.plugin = plugin
        self._call = call
        self.name = plugin.name
        self.weight = weight
        self.normalizer = plugin.normalizer
        self._normalize: Any = getattr(plugin, "normalize_score", None)
        self.local = Depends.CLUSTER not in plugin.score_depends and self._normalize is None
        self.on_pods = on_pods(plugin.score_depends)
        self.by_load = plugin.score_depends == Depends.RESOURCES
        self._pool = pool
        self._columns: Any = getattr(plugin, "score_nodes", None)
        self._trusted = in_tree(plugin)

    def raw(self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray) -> IntArray:
        """Raw scores, ``(len(nodes),)``; a one-node plugin is asked about ``feasible`` only.

        Raises:
            AttemptError: also when a feasible node's score is outside 0..100 for good, because no
                method normalizes it.
        """
        scores = self._call(self.plugin, "Score", self._ask, state, pod, nodes, feasible)
        if not self._trusted and self._normalize is None:
            self._check(scores[feasible], None if self.normalizer else MAX_NODE_SCORE)
        return scores

    def _ask(self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray) -> IntArray:
        if self._columns is not None:
            return _integers(self._columns(state, pod, nodes), len(nodes))
        scores = np.zeros(len(nodes), np.int64)
        rows = np.flatnonzero(feasible)
        infos = [nodes.info(row) for row in rows.tolist()]
        method = self.plugin.score  # type: ignore[attr-defined]
        answers = each_node(self.plugin, self._pool, lambda n: method(state, pod, n), infos)
        scores[rows] = list(answers)
        return scores

    def scores(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> IntArray:
        """Normalized scores, not weighted, ``(len(nodes),)``; any number where not ``feasible``.

        The integers may be too narrow to add to.

        Raises:
            AttemptError: also when the score of a feasible node is outside 0..100.
        """
        scores = self.raw(state, pod, nodes, feasible)
        if self._normalize is not None or self.normalizer is not None:
            normalized = self.normalized(state, pod, scores[feasible])
            scores = np.zeros(len(nodes), np.int64)
            scores[feasible] = normalized
        return scores

    def normalized(self, state: CycleState, pod: Pod, scores: IntArray) -> IntArray:
        """``scores`` of the feasible nodes, normalized but not weighted.

        Raises:
            AttemptError: also when a score is outside 0..100.
        """
        if self._normalize is not None:
            scores = self._call(
                self.plugin, "NormalizeScore", self._ask_normalize, state, pod, scores
            )
        elif self.normalizer is not None:
            scores = self.normalizer(scores, int(scores.max(initial=0)))
        self._check(scores, MAX_NODE_SCORE)
        return scores

    def _ask_normalize(self, state: CycleState, pod: Pod, scores: IntArray) -> IntArray:
        return _integers(self._normalize(state, pod, scores), len(scores))

    def _check(self, scores: IntArray, highest: int | None) -> None:
        low, high = int(scores.min(initial=0)), int(scores.max(initial=0))
        wrong = low if low < 0 else high
        if low < 0 or (highest is not None and high > highest):
            raise AttemptError(
                f'plugin "{self.name}" returns an invalid score {wrong}, it should in the range of '
                f"[0, {MAX_NODE_SCORE}] after normalizing"
            )


def _column(column: IntArray, n: int) -> IntArray:
    if column.shape != (n,):
        raise ValueError(f"an array of shape {column.shape} was returned, not ({n},)")
    return column


def _integers(column: IntArray, n: int) -> IntArray:
    if column.dtype.kind not in "iu":
        raise ValueError(f"scores must be integers, not {column.dtype}")
    return _column(column, n)
