"""Peaks: prefer nodes whose power rises least with the Pod.

A node's power at a CPU load of x percent of its capacity is ``k0 + k1 e^(k2 x)``. The raw score is
the rise by the Pod's request; the least among the feasible nodes gets 100, the greatest 0.

Name, arguments and formula are those of scheduler-plugins, where a node that the Pod would overload
or that has no sample or no model counts as rising by 0, and so is the best. Here the former is the
worst, and the others get the median; ``compat: exact`` has all as there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_load import FloatArray
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import spec_requests, units
from bayplan.config.args import PeaksArgs, PowerModel
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Integers, Normalizer
from bayplan.plugins.shared.load_scores import LoadPlugin, median

MODEL_FILE = "NODE_POWER_MODEL"
"""Environment variable: a JSON file with the models, unless the arguments have them."""
_UNKNOWN, _OVERLOADED = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_UNITS = 1e15
"""A raw score of this is one unit of power."""
_MOST = 9e18


@dataclass(frozen=True)
class LeastRise(Normalizer):
    """The least raw score becomes 100, the greatest 0; nodes without one get the median."""

    def measure(self, scores: Integers, feasible: BoolArray) -> tuple[int, int, int] | None:
        """The least, the greatest, and the median when scaled; None where all are unknown."""
        known = scores[feasible & (scores != _UNKNOWN)].astype(np.int64)
        if not len(known):
            return None
        rises = known[known != _OVERLOADED]
        low, high = (int(rises.min()), int(rises.max())) if len(rises) else (0, 0)
        some_unknown = len(known) < int(feasible.sum())
        return low, high, median(_scaled(known, low, high)) if some_unknown else 0

    def __call__(self, scores: Integers, measure: Any) -> IntArray:
        """See `Normalizer`."""
        if measure is None:
            return np.zeros(scores.shape, np.int64)
        low, high, middle = measure
        return np.where(scores == _UNKNOWN, middle, _scaled(scores, low, high))


def _scaled(scores: Integers, low: int, high: int) -> IntArray:
    if low == high == 0:
        return np.zeros(scores.shape, np.int64)
    # `np.clip` of one number takes 8 us.
    risen = np.minimum(np.maximum(scores.astype(np.float64) - low, 0), high - low)
    scaled = 100 - np.floor(100 * risen / max(high - low, 1)).astype(np.int64)
    overloaded: IntArray = np.where(scores == _OVERLOADED, 0, scaled)
    return overloaded


class Peaks(LoadPlugin):
    """See the module's docstring."""

    Args = PeaksArgs
    normalizer = LeastRise()

    def __init__(self, args: PeaksArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._models = _of_file() if args.node_power_model is None else args.node_power_model
        self._factors: tuple[int, FloatArray, FloatArray] = -1, np.zeros(0), np.zeros(0)

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """The rise of power, in units of 1e-15."""
        request = units("cpu", pod.shape.requests.memo(spec_requests).get("cpu", Fraction(0)))
        share, capacity = self.load(nodes).mean["cpu"], self.capacity(nodes, "cpu")
        k1, k2 = self._of_nodes(nodes)
        known = ~np.isnan(share) & (capacity > 0) & ~np.isnan(k1)
        now = 100 * np.where(known, share, 0)
        then = now + 100 * request / np.maximum(capacity, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            rise = k1 * (np.exp(k2 * then) - np.exp(k2 * now)) * _UNITS
        scores = np.trunc(np.clip(np.nan_to_num(rise), -_MOST, _MOST)).astype(np.int64)
        unknown, overloaded = (0, 0) if self.exact else (_UNKNOWN, _OVERLOADED)
        return np.where(known, np.where(then > 100, overloaded, scores), unknown)

    def _of_nodes(self, nodes: NodeTable) -> tuple[FloatArray, FloatArray]:
        """The factors of each node; NaN without a model."""
        live = self.handle.nodes
        position = live.node_journal.position
        if self._factors[0] != position or len(self._factors[1]) != len(live):
            models = [self._models.get(name) if name else None for name in live.names]
            k1 = np.array([np.nan if model is None else model.k1 for model in models])
            k2 = np.array([np.nan if model is None else model.k2 for model in models])
            self._factors = position, k1, k2
        _, k1, k2 = self._factors
        return (k1, k2) if nodes.origin is None else (k1[nodes.origin], k2[nodes.origin])


def _of_file() -> Mapping[str, PowerModel]:
    """The models of the file.

    Raises:
        ValueError: there is no file, or something else in it.
    """
    path = os.environ.get(MODEL_FILE)
    if not path:
        raise ValueError(f"nodePowerModel is required, or {MODEL_FILE} in the environment")
    try:
        models = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, dict[str, float]])
        return {name: PowerModel.model_validate(model) for name, model in models.items()}
    except (OSError, ValueError) as error:
        raise ValueError(f"{MODEL_FILE} {path}: {error}") from error
