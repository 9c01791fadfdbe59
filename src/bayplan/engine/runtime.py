"""Framework: one profile, ready to run: plugins, the search for nodes, the other points.

`scheduler.py` calls these in the order of the cycle; texts and the merging of statuses follow
kube-scheduler's ``pkg/scheduler/engine/runtime/framework.go``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from time import perf_counter

from bayplan.api.pod import Pod
from bayplan.config.feature_gates import TOPOLOGY_AWARE
from bayplan.config.points import Point
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.lifecycle import Lifecycle
from bayplan.engine.placement_stage import PlacementStage
from bayplan.engine.profile_plugins import Enabled, ProfilePlugins, Trust
from bayplan.engine.search import NodeSearch
from bayplan.engine.what_if import WhatIf
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import FilterFailure, PostFilterResult
from bayplan.framework.points import PostFilter
from bayplan.framework.status import Code, Status
from bayplan.telemetry.instrument import Instrument


class Framework:
    """The runtime of one profile.

    Args:
        name: see below.
        enabled: the plugins by point.
        handle: of these plugins.
        what_if: of that handle; gets the Filter plugins.
        instrument: receives what happens.
        percentage: see below.
        pool: threads for plugins that block; None runs them in line.
        trusted: the in-tree plugins, by name.

    Attributes:
        name: the profile's schedulerName.
        percentage: percentageOfNodesToScore in effect, 1..100.
        plugins: the profile's plugins.
        search: PreFilter, Filter and Score.
        lifecycle: the extension points before and after.
        placements: where PodGroups of Kubernetes may go; None where they may go anywhere, without
            the feature gate TopologyAwareWorkloadScheduling.
        groups: which Pods belong together, and what is asked for them.
        services: what the plugins do besides extension points.
    """

    def __init__(
        self,
        name: str,
        enabled: Enabled,
        handle: InTreeHandle,
        what_if: WhatIf,
        instrument: Instrument,
        *,
        percentage: int = 100,
        pool: Executor | None = None,
        trusted: Mapping[str, Trust] | None = None,
    ) -> None:
        self.name = name
        self.percentage = percentage
        self.plugins = ProfilePlugins(name, enabled, instrument, trusted)
        self.search = NodeSearch(self.plugins, handle.nodes, what_if, pool)
        self.lifecycle = Lifecycle(self.plugins)
        self.placements: PlacementStage | None = None
        if handle.gates.on(TOPOLOGY_AWARE):
            self.placements = PlacementStage(self.plugins, handle.nodes)
        self._nodes = handle.nodes
        self.groups = handle.groups
        self.services = handle.services

    def post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis, asked: Sequence[PostFilter]
    ) -> PostFilterResult:
        """Let plugins make room; the first one of ``asked`` that does ends the search."""
        started = perf_counter()
        result = self._post_filter(state, pod, diagnosis, asked)
        self.plugins.time(state, Point.POST_FILTER, started, str(result.status.code))
        return result

    def _post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis, asked: Sequence[PostFilter]
    ) -> PostFilterResult:
        failure = FilterFailure(self._nodes, diagnosis, diagnosis.rows_with(unresolvable=False))
        reasons: list[str] = []
        nominated: str | None = None
        for plugin in asked:
            result = self.plugins.ask(
                (PostFilterResult,),
                plugin,
                Point.POST_FILTER,
                plugin.post_filter,
                state,
                pod,
                failure,
            )
            status = result.status
            if status.ok or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result
            if not status.rejected:
                return PostFilterResult(status.by(plugin.name))
            if result.nominated_node is not None:
                nominated = result.nominated_node
            reasons += status.reasons
        return PostFilterResult(Status.unschedulable(*reasons), nominated)
