"""What plugins that score by measured load share: the column, and nodes without a sample.

A node that nothing is known of must be neither the best nor the worst. It gets the median score of
the feasible nodes whose load is known. So its raw score is no score but a mark, `unknown`, which
`LoadScores` replaces when the scores are normalized, by then all feasible nodes are known. With
``compat: exact`` it is 0 instead, as in scheduler-plugins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_load import RESOURCES, Capacity, FloatArray, NodeLoad, NodeLoads
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable, NodeTable
from bayplan.config.args import LoadArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import (
    MAX_NODE_SCORE,
    Depends,
    Integers,
    Normalizer,
    Plugin,
    PodPart,
)
from bayplan.framework.points import ExplainsScore, ScoreNodes, ScoreOne

_NOT_KNOWN = MAX_NODE_SCORE + 1
_NEVER = -1


def rounded_one(score: float) -> int:
    """`rounded` of one number."""
    return math.floor(score + 0.5)


def rounded(scores: FloatArray) -> IntArray:
    """Integers, halves upward; not for numbers below 0."""
    return np.floor(scores + 0.5).astype(np.int64)


def unknown(scores: IntArray) -> IntArray:
    """The raw scores of nodes without a sample; ``scores`` stand where no feasible node has one."""
    return scores + _NOT_KNOWN


def median(scores: IntArray) -> int:
    """The lower one of an even number of scores from 0 to 100."""
    counts = np.bincount(scores, minlength=MAX_NODE_SCORE + 1).cumsum()
    return int(counts.searchsorted((len(scores) + 1) // 2))


@dataclass(frozen=True)
class LoadScores(Normalizer):
    """Gives nodes without a sample the median; other scores are from 0 to 100 and stay."""

    def measure(self, scores: Integers, feasible: BoolArray) -> int | None:
        """The median of the known scores; None if all are known, -1 if none is."""
        if int(scores.max(initial=0)) < _NOT_KNOWN or not (scores[feasible] >= _NOT_KNOWN).any():
            return None
        known = scores[feasible & (scores < _NOT_KNOWN)]
        return median(known.astype(np.int64)) if len(known) else -1

    def __call__(self, scores: Integers, measure: Any) -> IntArray:
        """See `Normalizer`."""
        raw = scores.astype(np.int64, copy=False)
        if measure is None:
            return raw
        is_known = raw < _NOT_KNOWN
        return np.where(is_known, raw, raw - _NOT_KNOWN if measure < 0 else measure)


class LoadPlugin(Plugin, ScoreNodes, ExplainsScore):
    """Base of the plugins: the load by the source that the arguments name."""

    reads = PodPart.REQUESTS
    score_depends = Depends.NODE
    normalizer: ClassVar[Normalizer] = LoadScores()

    def __init__(self, args: LoadArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self.exact = args.exact
        self._source = args.load_source()
        handle.services.load_sources.append(self._source)
        handle.nodes.ensure_column(Capacity)
        self._loads = handle.nodes.ensure_column(NodeLoads)

    def epoch(self, _pod: Pod) -> int:
        """Another number after each sample."""
        return self._loads[self._source].version

    def explain_score(self, _state: CycleState, _pod: Pod, rows: IntArray) -> list[str]:
        """The samples of the nodes."""
        nodes, load = self.handle.nodes, self.load(self.handle.nodes)
        without = "scores 0" if self.exact else "gets the median"
        samples = (_sample(load, row) or f"not known, it {without}" for row in rows.tolist())
        return [
            f"load of {nodes.names[row]}: {sample}"
            for row, sample in zip(rows.tolist(), samples, strict=True)
        ]

    def load(self, nodes: NodeTable) -> NodeLoad:
        """The load of ``nodes``."""
        return nodes.column(NodeLoads)[self._source]

    def capacity(self, nodes: NodeTable, resource: str) -> IntArray:
        """What ``nodes`` have in all: milli-CPU or bytes."""
        return nodes.column(Capacity)[resource]

    def or_unknown(
        self, known: BoolArray, scores: FloatArray, without: FloatArray | None = None
    ) -> IntArray:
        """Raw scores from 0 to 100; those of nodes whose load is not ``known`` are marked.

        ``without``: their scores where no feasible node has a sample; 0 if None.
        """
        if self.exact:
            return rounded(np.where(known, scores, 0))
        instead = np.zeros(len(known)) if without is None else without
        return np.where(known, rounded(np.where(known, scores, 0)), unknown(rounded(instead)))


class LoadOfPodsPlugin(LoadPlugin, ScoreOne):
    """Base of those whose scores change with each Pod on the node; so one node is scored, too."""

    score_depends = Depends.NODE | Depends.PODS

    def one_or_unknown(self, *, known: bool, score: float, without: float = 0.0) -> int:
        """`or_unknown` of one node."""
        if known:
            return rounded_one(score)
        return 0 if self.exact else rounded_one(without) + _NOT_KNOWN


def _sample(load: NodeLoad, row: int) -> str:
    return ", ".join(
        f"{name} {load.mean[name][row]:.0%} (deviation {load.deviation[name][row]:.1%})"
        for name in RESOURCES
        if not np.isnan(load.mean[name][row])
    )


class Changes:
    """The rows of the live table that have changed since the last look."""

    def __init__(self, *, nodes: bool) -> None:
        self._watches_nodes = nodes
        self._node_position = self._pod_position = self._version = _NEVER
        self._length = 0

    def rows(self, nodes: LiveNodeTable, version: int) -> list[int] | None:
        """Rows whose Pods (or nodes, if asked for) have changed; None for all.

        All is also the answer where ``version``, any number, is not that of the last look.
        """
        since = nodes.pod_journal.since(self._pod_position)
        if self._watches_nodes and since is not None:
            moved = nodes.node_journal.since(self._node_position)
            since = None if moved is None else since + moved
        if (version, len(nodes)) != (self._version, self._length):
            since = None
        self._pod_position = nodes.pod_journal.position
        self._node_position = nodes.node_journal.position
        self._version, self._length = version, len(nodes)
        return None if since is None else sorted(set(since))
