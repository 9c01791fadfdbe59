"""Filter and Score plugins as stages: every plugin in the column form, whichever one it has.

Conventions of the codes that a filter stage gives per row: 0 fits, positive numbers are reasons to
reject the node, negative ones are errors. `FilterStage.status` puts a code into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, NodeInfo, NodeTable
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault, InvalidScoreError, NodeFault, is_interrupt
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import MAX_NODE_SCORE, Depends, Integers, Normalizer
from bayplan.framework.points import (
    FilterNodes,
    FilterOne,
    FilterPlugin,
    HasEpoch,
    Named,
    NormalizeScore,
    ScoreNodes,
    ScoreOne,
    ScorePlugin,
)
from bayplan.framework.status import SUCCESS, Status

# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_FILTER = Point.FILTER
_SCORE = Point.SCORE
_NORMALIZE_SCORE = Point.NORMALIZE_SCORE

T = TypeVar("T")


class Caller(Protocol):
    """How plugins are called: `bayplan.engine.profile_plugins.ProfilePlugins.call`."""

    def __call__(self, plugin: Named, point: Point, method: Callable[..., T], *args: Any) -> T:
        """``method(*args)``; an exception of the plugin becomes an `AttemptFault`."""


def on_pods(depends: Depends) -> bool:
    """Whether an answer may change when Pods come to a node or leave it."""
    return bool(depends & (Depends.PODS | Depends.RESOURCES))


def each_node(
    method: Callable[[CycleState, Pod, NodeInfo], T],
    state: CycleState,
    pod: Pod,
    nodes: Iterable[NodeInfo],
    pool: Executor | None,
) -> Iterable[T]:
    """``method`` for every node, in order, on ``pool`` where there is one.

    Raises:
        NodeFault: from the exception that the method raised.
    """

    def ask(node: NodeInfo) -> T:
        try:
            return method(state, pod, node)
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            raise NodeFault(node.name) from exc

    return pool.map(ask, nodes) if pool else map(ask, nodes)


MAX_STATUSES = 10_000
"""Distinct statuses of a one-node Filter plugin that are remembered beyond one attempt."""


class FilterStage:
    """One Filter plugin of a profile. Methods raise `AttemptFault` when the plugin breaks.

    Attributes:
        local: whether the plugin's answers are row-local.
        on_pods: whether they may change when Pods come to a node or leave it.
        by_load: whether they follow from `NodeTable.load` alone.
        epoch: the plugin, where it has an epoch.
        one_node: whether it is asked about one node at a time.
        singly: whether it can be asked about a single node, `verdict`.
    """

    def __init__(self, plugin: FilterPlugin, call: Caller, pool: Executor | None = None) -> None:
        self.plugin = plugin
        self._call = call
        self.name = plugin.name
        self.local = Depends.CLUSTER not in plugin.filter_depends
        self.on_pods = on_pods(plugin.filter_depends)
        self.by_load = plugin.filter_depends == Depends.RESOURCES
        self.epoch = plugin if isinstance(plugin, HasEpoch) else None
        self.one_node = not isinstance(plugin, FilterNodes)
        self._pool = pool if plugin.blocking else None
        self._statuses: list[Status] = [SUCCESS]
        self._codes: dict[Status, int] = {}
        self._columns = plugin if isinstance(plugin, FilterNodes) else None
        self._each = plugin if isinstance(plugin, FilterOne) else None
        self.singly = self._each is not None

    def begin(self) -> None:
        """An attempt begins: codes of earlier attempts are no longer needed."""
        if len(self._statuses) > MAX_STATUSES:
            self._statuses, self._codes = [SUCCESS], {}

    def codes(
        self, state: CycleState, pod: Pod, nodes: NodeTable, undecided: BoolArray
    ) -> Integers:
        """Reason codes, ``(len(nodes),)``; a one-node plugin is asked about ``undecided`` only."""
        return self._call(self.plugin, _FILTER, self._ask, state, pod, nodes, undecided)

    def _ask(self, state: CycleState, pod: Pod, nodes: NodeTable, undecided: BoolArray) -> Integers:
        if self._columns is not None:
            return integers("codes", self._columns.filter_nodes(state, pod, nodes), len(nodes))
        assert self._each is not None
        codes = np.zeros(len(nodes), np.int64)
        rows = np.flatnonzero(undecided)
        infos = [nodes.info(row) for row in rows.tolist()]
        answers = each_node(self._each.filter, state, pod, infos, self._pool)
        codes[rows] = [0 if a is None else self._code(a) for a in answers]
        return codes

    def verdict(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """What the plugin says of one node; None for Success."""
        return self._call(self.plugin, _FILTER, self._ask_singly, state, pod, node)

    def _ask_singly(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        assert self._each is not None
        answer = self._each.filter(state, pod, node)
        if not isinstance(answer, Status | None):
            raise TypeError(f"{answer!r} was returned, not a Status or None")
        return answer

    def _code(self, status: Status) -> int:
        if not isinstance(status, Status):
            raise TypeError(f"{status!r} was returned, not a Status or None")
        if status.ok:
            return 0
        code = self._codes.get(status)
        if code is None:
            code = len(self._statuses)
            self._statuses.append(status)
            self._codes[status] = code
        return code if status.rejected else -code

    def status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What ``code`` means, with the plugin filled in."""
        return self._call(self.plugin, _FILTER, self._status, state, pod, code)

    def _status(self, state: CycleState, pod: Pod, code: int) -> Status:
        status = (
            self._statuses[abs(code)]
            if self._columns is None
            else self._columns.reasons(state, pod, code)
        )
        if not isinstance(status, Status):
            raise TypeError(f"reasons returned {status!r} for code {code}, not a Status")
        if status.rejected:
            return status.by(self.name)
        return AttemptFault(_FILTER, self.name, replace(status, plugin="")).status


class _Scaled(NamedTuple):
    """Scores normalized among some nodes; see `ScoreStage.scores`."""

    raw: Integers
    where: int | None
    scores: Integers


_NO_SCORES = np.empty(0, np.int64)


class ScoreStage:
    """One Score plugin of a profile. Methods raise `AttemptFault` when the plugin breaks.

    Args:
        trusted: whether scores need not be checked before they are normalized.

    Attributes:
        local, on_pods, by_load, epoch, one_node, singly: as in `FilterStage`.
    """

    def __init__(
        self,
        plugin: ScorePlugin,
        weight: int,
        call: Caller,
        pool: Executor | None = None,
        *,
        trusted: bool = False,
    ) -> None:
        self.plugin = plugin
        self._call = call
        self.name = plugin.name
        self.weight = weight
        self.normalizer = plugin.normalizer
        self._normalize = plugin if isinstance(plugin, NormalizeScore) else None
        self.local = Depends.CLUSTER not in plugin.score_depends and self._normalize is None
        self.on_pods = on_pods(plugin.score_depends)
        self.by_load = plugin.score_depends == Depends.RESOURCES
        self.epoch = plugin if isinstance(plugin, HasEpoch) else None
        self.one_node = not isinstance(plugin, ScoreNodes)
        self._pool = pool if plugin.blocking else None
        self._trusted = trusted
        self._last = _Scaled(_NO_SCORES, None, _NO_SCORES)
        self._columns = plugin if isinstance(plugin, ScoreNodes) else None
        self._each = plugin if isinstance(plugin, ScoreOne) else None
        self.singly = self._each is not None

    @cached_property
    def of_zeros(self) -> int:
        """The normalized score, not weighted, where all raw scores are zero."""
        if self.normalizer is None:
            return 0
        zero = np.zeros(1, np.int64)
        return int(self.normalizer(zero, self.normalizer.measure(zero, np.ones(1, np.bool_)))[0])

    def raw(self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray) -> Integers:
        """Raw scores, ``(len(nodes),)``; a one-node plugin is asked about ``feasible`` only.

        Raises:
            AttemptFault: also when a feasible node's score is outside 0..100 for good, because no
                method normalizes it.
        """
        scores = self._given(state, pod, nodes, feasible)
        return np.zeros(len(nodes), np.int64) if scores is None else scores

    def raw_score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The raw score of one node, which is feasible; see `raw`."""
        score = self._call(self.plugin, _SCORE, self._ask_singly, state, pod, node)
        if not self._trusted:
            highest = None if self.normalizer else MAX_NODE_SCORE
            self._check(np.array([score]), highest, _SCORE)
        return score

    def _ask_singly(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert self._each is not None
        score = self._each.score(state, pod, node)
        if type(score) not in _INTEGERS:
            raise TypeError(f"scores must be integers, not {score!r}")
        return score

    def _given(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> Integers | None:
        """What the plugin answers, checked; None where it gives every node 0."""
        scores = self._call(self.plugin, _SCORE, self._ask, state, pod, nodes, feasible)
        if scores is not None and not self._trusted and self._normalize is None:
            highest = None if self.normalizer else MAX_NODE_SCORE
            self._check(scores[feasible], highest, _SCORE)
        return scores

    def _ask(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> Integers | None:
        if self._columns is not None:
            column = self._columns.score_nodes(state, pod, nodes)
            return None if column is None else integers("scores", column, len(nodes))
        assert self._each is not None
        scores = np.zeros(len(nodes), np.int64)
        rows = np.flatnonzero(feasible)
        infos = [nodes.info(row) for row in rows.tolist()]
        answers = list(each_node(self._each.score, state, pod, infos, self._pool))
        if not set(map(type, answers)) <= _INTEGERS:
            wrong = next(answer for answer in answers if type(answer) not in _INTEGERS)
            raise TypeError(f"scores must be integers, not {wrong!r}")
        scores[rows] = answers
        return scores

    def scores(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
        feasible: BoolArray,
        where: int | None = None,
    ) -> Integers | None:
        """Normalized scores, not weighted, ``(len(nodes),)``; any number where not ``feasible``.

        None where every node scores 0. The integers may be too narrow to add to. ``where`` is the
        same number only if the same nodes are feasible; None where nobody knows.

        Raises:
            AttemptFault: also when the score of a feasible node is outside 0..100.
        """
        given = self._given(state, pod, nodes, feasible)
        if self._normalize is None and (self.normalizer is None or not self._counts(given)):
            return given
        raw = np.zeros(len(nodes), np.int64) if given is None else given
        if self._normalize is None and self.normalizer is not None and self._trusted:
            # To pick the feasible nodes, and to put them back, takes longer than to scale all.
            return self._scaled(self.normalizer, raw, feasible, where)
        scores = np.zeros(len(nodes), np.int64)
        scores[feasible] = self.normalized(state, pod, raw[feasible])
        return scores

    def _scaled(
        self, normalizer: Normalizer, raw: Integers, feasible: BoolArray, where: int | None
    ) -> Integers:
        """``raw`` normalized; what came of the same array before, where nobody may write to it."""
        last = self._last
        if raw is last.raw and where is not None and where == last.where:
            return last.scores
        scores = normalizer(raw, normalizer.measure(raw, feasible))
        if not raw.flags.writeable:
            scores.setflags(write=False)
            self._last = _Scaled(raw, where, scores)
        return scores

    def _counts(self, given: Integers | None) -> bool:
        """Whether some node may score more than 0 when ``given`` is normalized."""
        return given is not None or self.of_zeros != 0

    def normalized(self, state: CycleState, pod: Pod, scores: Integers) -> Integers:
        """``scores`` of the feasible nodes, normalized but not weighted.

        Raises:
            AttemptFault: also when a score is outside 0..100.
        """
        point = _SCORE
        if self._normalize is not None:
            point = _NORMALIZE_SCORE
            scores = self._call(self.plugin, point, self._ask_normalize, state, pod, scores)
        elif self.normalizer is not None:
            everywhere = np.ones(len(scores), np.bool_)
            scores = self.normalizer(scores, self.normalizer.measure(scores, everywhere))
        self._check(scores, MAX_NODE_SCORE, point)
        return scores

    def _ask_normalize(self, state: CycleState, pod: Pod, scores: Integers) -> Integers:
        assert self._normalize is not None
        return integers("scores", self._normalize.normalize_score(state, pod, scores), len(scores))

    def _check(self, scores: Integers, highest: int | None, point: Point) -> None:
        low, high = int(scores.min(initial=0)), int(scores.max(initial=0))
        if low < 0 or (highest is not None and high > highest):
            self._call(self.plugin, point, self._refuse, low if low < 0 else high)

    def _refuse(self, score: int) -> NoReturn:
        text = (
            f'plugin "{self.name}" returns an invalid score {score}, it should in the range of '
            f"[0, {MAX_NODE_SCORE}] after normalizing"
        )
        if score > 0 and self._normalize is None:
            text += "; set normalizer = Normalizer() to scale larger numbers down"
        raise InvalidScoreError(text)


_INTEGERS = frozenset({int, *(np.dtype(code).type for code in np.typecodes["AllInteger"])})
"""What a score may be; bool is an int too, but no score."""


def has_error(codes: Integers) -> bool:
    """Whether a Filter plugin answered with an error for some row; unsigned codes have none."""
    return codes.dtype.kind == "i" and bool(codes.min(initial=0) < 0)


def integers(what: str, column: Integers, n: int) -> Integers:
    """``column`` as returned by a plugin; raises TypeError or ValueError if not usable."""
    if not isinstance(column, np.ndarray):
        raise TypeError(f"{column!r} was returned, not an array of {n} {what}")
    if column.dtype.kind not in "iu":
        raise ValueError(f"{what} must be integers, not {column.dtype}")
    if column.shape != (n,):
        raise ValueError(f"an array of shape {column.shape} was returned, not ({n},)")
    return column
