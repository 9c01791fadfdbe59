"""NodeMetadata: prefer nodes by a number or a time in one of their labels or annotations.

Scores are from 1 to 100, in proportion; all 1 if all are equal. A node without the key, or whose
value is not what the arguments say, gets 0. As in scheduler-plugins: numbers and ages are cut to
whole ones first, so 0.1 and 0.9 are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.config.args import NodeMetadataArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Depends, Plugin, PodPart
from bayplan.framework.points import ScoreNodes
from bayplan.plugins.shared.min_max import NO_SCORE, MinMax
from bayplan.support.go_layouts import parse_time

_MOST = float(1 << 54)
"""Values beyond it count as this, so that scores stay exact in 64 bits."""


class NodeMetadata(Plugin, ScoreNodes):
    """See the module's docstring."""

    Args = NodeMetadataArgs
    args: NodeMetadataArgs
    reads = PodPart.CONSTRAINTS
    normalizer = MinMax(lowest=1)

    def __init__(self, args: NodeMetadataArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._of_text: dict[str, float] = {}
        self._is_time = args.metadata_type == "Timestamp"
        self.score_depends = Depends.CLUSTER if self._is_time else Depends.NODE
        self._read: Callable[[str], float] = self._time if self._is_time else _number
        self._times: npt.NDArray[np.float64] = np.empty(0)
        self._seen = -1

    def score_nodes(self, _state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray:
        """The number, or the age in seconds; negative for Lowest and Newest."""
        values = self._all_times() if self._is_time else self._values(nodes)
        if self._is_time:
            values = self.handle.now() - values
        whole = np.trunc(np.clip(values, -_MOST, _MOST))
        if self.args.scoring_strategy in ("Lowest", "Newest"):
            whole = -whole
        missing = np.isnan(whole)
        scores: IntArray = np.where(missing, 0, whole).astype(np.int64)
        scores[missing] = NO_SCORE
        return scores

    def _all_times(self) -> npt.NDArray[np.float64]:
        """Those of the live table, read again when a node has changed."""
        nodes = self.handle.nodes
        if self._seen != nodes.node_journal.position or len(self._times) != len(nodes):
            self._times, self._seen = self._values(nodes), nodes.node_journal.position
        return self._times

    def _values(self, nodes: NodeTable) -> npt.NDArray[np.float64]:
        return np.array([math.nan if node is None else self._value(node) for node in nodes.nodes])

    def _value(self, node: Node) -> float:
        by_label = self.args.metadata_source == "Label"
        source = node.metadata.labels if by_label else node.metadata.annotations
        text = source.get(self.args.metadata_key)
        if text is None:
            return math.nan
        if text not in self._of_text:
            if len(self._of_text) >= len(self.handle.nodes) + 1000:
                self._of_text.clear()
            self._of_text[text] = self._read(text)
        return self._of_text[text]

    def _time(self, text: str) -> float:
        time = parse_time(self.args.timestamp_format, text)
        return math.nan if time is None else time.timestamp()


def _number(text: str) -> float:
    """NaN for what Go does not read as a number, or what is not finite."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    readable = math.isfinite(number) and "_" not in text and text == text.strip()
    return number if readable else math.nan
