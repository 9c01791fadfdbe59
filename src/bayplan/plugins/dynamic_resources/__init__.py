"""DynamicResources: not there yet, except for what it does for Pods without resource claims.

A Pod with spec.resourceClaims is turned down: it must not be bound in ignorance of its claims. For
all others the plugin says what kube-scheduler's says, because that is part of every failure message
and of the score list.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.config.args import DynamicResourcesArgs
from bayplan.framework.cluster_events import EventRegistration
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, FilterFailure, Plugin, PodPart, PostFilterResult
from bayplan.framework.points import EnqueueExtensions, PostFilter, PreFilter, ScoreNodes
from bayplan.framework.status import SKIP, Status

_UNSUPPORTED = Status.unresolvable("this version of bayplan does not support resourceClaims")
_NOTHING_TO_DO = PostFilterResult(Status.unschedulable())
_NO_STATE = PostFilterResult(Status.error("not found"))


class DynamicResources(Plugin):
    """Turns down Pods with claims, and stays out of the way of all others."""

    Args = DynamicResourcesArgs
    filter_depends = Depends.NODE
    score_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Reject a Pod with claims, skip all others."""
        state.write(self.name, True)
        return _UNSUPPORTED if pod.spec.resource_claims else SKIP

    def post_filter(
        self,
        state: CycleState,
        pod: Pod,
        failure: FilterFailure,
    ) -> PostFilterResult:
        """There are no claims to give back.

        When another plugin's PreFilter ended the cycle before ours, our state is missing, which
        kube-scheduler reports as an error; no PostFilter plugin after this one runs then.
        """
        return _NOTHING_TO_DO if state.get(self.name) else _NO_STATE

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """0 for every node: without claims there is nothing to prefer."""
        return np.zeros(len(nodes), np.int64)

    def events_to_register(self) -> list[EventRegistration]:
        """Nothing makes a Pod with claims schedulable."""
        return []


class _Implements(PreFilter, PostFilter, ScoreNodes, EnqueueExtensions, Protocol):
    """The points that the plugin implements; mypy checks it against them."""


_: type[_Implements] = DynamicResources
