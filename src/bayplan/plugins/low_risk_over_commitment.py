"""LowRiskOverCommitment: prefer nodes whose Pods can use less beyond what the node has.

Requests say what Pods are promised, limits what they may use. Where the limits of all Pods of a
node, the one to be placed included, exceed what the node has, the risk of a resource is::

    (limits - allocatable) / (limits - requests)

from 0 (the limits fit) to 1. The score is 100 times 1 less the greater of the risks of cpu and
memory, each multiplied by its weight. A Pod without requests and limits scores 0 everywhere.

Name and arguments are those of scheduler-plugins, which adds the risk in the measured load; without
measurements that part is 0 here, where scheduler-plugins scores all nodes 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.node_table.column import NumbersByKey
from bayplan.config.args import RISK_LIMIT_WEIGHT, LowRiskOverCommitmentArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Depends, Plugin, PodPart
from bayplan.framework.points import ScoreNodes
from bayplan.plugins.shared.effective_resources import effective

RESOURCES = ("cpu", "memory")


class Promise(NamedTuple):
    """What a Pod requests and may use of a resource: milli-CPU or bytes."""

    request: int
    limit: int


class Promises(NumbersByKey):
    """The requests and the limits of the Pods of each row, in sum: keys like ``cpu limit``."""

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for name, promise in pod.shape.requests.memo(promises).items():
            self[f"{name} request"][row] += sign * promise.request
            self[f"{name} limit"][row] += sign * promise.limit

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `bayplan.cache.node_table.column.PodColumn`."""
        return {key: int((self[key] != other[key]).sum()) for key in self.keys()}


def promises(part: SpecPart) -> dict[str, Promise]:
    """By resource; for ``requests.memo`` of a shape. A limit is never below the request."""
    requests = effective(part.spec, lambda container: container.resources.requests)
    limits = effective(part.spec, lambda container: container.resources.limits)
    return {
        name: Promise(requests.get(name, 0), max(limits.get(name, 0), requests.get(name, 0)))
        for name in RESOURCES
    }


class LowRiskOverCommitment(Plugin, ScoreNodes):
    """See the module's docstring."""

    Args = LowRiskOverCommitmentArgs
    score_depends = Depends.NODE | Depends.PODS
    reads = PodPart.REQUESTS

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._weights = args.risk_limit_weights
        handle.nodes.ensure_column(Promises)

    def score_nodes(self, _state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """100 where the limits fit."""
        asked = pod.shape.requests.memo(promises)
        if not any(promise.limit for promise in asked.values()):
            return np.zeros(len(nodes), np.int64)
        column = nodes.column(Promises)
        risk = np.zeros(len(nodes))
        for name, promise in asked.items():
            allocatable = nodes.allocatable(name)
            request = np.minimum(column[f"{name} request"] + promise.request, allocatable)
            limit = column[f"{name} limit"] + promise.limit
            weight = self._weights.get(name, RISK_LIMIT_WEIGHT)
            excess = np.maximum(limit - allocatable, 0)
            risk = np.maximum(risk, weight * (excess / np.maximum(limit - request, 1)))
        scores: IntArray = np.floor((1 - risk) * MAX_NODE_SCORE + 0.5).astype(np.int64)
        return scores
