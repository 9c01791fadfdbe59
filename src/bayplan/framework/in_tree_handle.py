"""InTreeHandle: what only bayplan's own plugins are given, in addition to `Handle`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from bayplan.api.pod import Pod
from bayplan.cache.counted_pods import CountedPods
from bayplan.cache.groups import Groups
from bayplan.cache.kubernetes_groups import KubernetesGroups
from bayplan.cache.node_table import NodeTable, WhatIfTable
from bayplan.cache.queue_tree import QueueTree
from bayplan.cache.queued_pods import QueuedPods
from bayplan.config.feature_gates import FeatureGates
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.evictions import Evictions
from bayplan.framework.handle import Handle, PluginMetrics, plugin_logger
from bayplan.framework.interface import NodeStatuses
from bayplan.framework.room import AsksForRoom
from bayplan.framework.services import Services
from bayplan.telemetry.instrument import Instrument


class PreparingPod(Protocol):
    """A Pod in PreBind. Safe to use from any thread."""

    @property
    def cancelled(self) -> str:
        """Why the binding was cancelled; empty if the binding was not cancelled."""

    def cancel(self, reason: str) -> bool:
        """Cancel the binding: the Pod returns to the queue. False if PreBind is over."""

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on cancellation; at once if it is cancelled already."""


class HasUid(Protocol):
    """Names a Pod."""

    @property
    def uid(self) -> str:
        """metadata.uid of the Pod."""


class NamedVictims(Protocol):
    """The victims that an extender agrees to on a node."""

    @property
    def pods(self) -> Sequence[HasUid] | None:
        """The Pods to evict."""

    @property
    def pdb_violations(self) -> int:
        """How many of them a PodDisruptionBudget protects."""


class PreemptionExtender(Protocol):
    """A webhook that takes part in preemption."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def ignorable(self) -> bool:
        """Whether preemption continues without this extender after a failure."""

    def preempt(
        self, pod: Pod, victims: Mapping[str, tuple[list[Pod], int]]
    ) -> Mapping[str, NamedVictims]:
        """The nodes, with victims, that the extender accepts.

        Args:
            pod: the preemptor.
            victims: by node, the Pods and the number of violated PodDisruptionBudgets.
        """


class PreemptionExtenders(Protocol):
    """All webhooks of the configuration."""

    def preemptors(self, pod: Pod) -> Sequence[PreemptionExtender]:
        """The extenders that take part in preemption for ``pod``, in order."""


class AsksWhatIf(Protocol):
    """The profile's Filter plugins over changed tables: `bayplan.engine.what_if` has an example.

    Tables are copies of some rows, and ``state`` is the `CycleState.what_if` copy for these rows.
    Scheduling thread only. Methods raise `AttemptFault` when a plugin broke.
    """

    def add_pods(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
        /,
    ) -> None:
        """What if ``others[i]`` were on ``rows[i]`` of ``nodes``?"""

    def remove_pods(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
        /,
    ) -> None:
        """What if ``others[i]`` were gone from ``rows[i]`` of ``nodes``?"""

    def move_elsewhere(
        self,
        state: CycleState,
        pod: Pod,
        others: Sequence[Pod],
        nodes: WhatIfTable,
        rows: list[int],
        /,
        *,
        back: bool,
    ) -> None:
        """What if ``others[i]``, on other nodes, were gone (or back) in the world of ``rows[i]``?

        No column changes: only those of the world's own node count there.
        """

    def filter(
        self,
        state: CycleState,
        pod: Pod,
        nodes: WhatIfTable,
        nominees: Mapping[int, list[Pod]] | None = None,
        /,
    ) -> NodeStatuses:
        """Every Filter plugin over ``nodes``, and once more with nominated Pods added.

        ``nominees``: see `nominees`; computed if None. Callers that ask about one table several
        times compute them once.
        """

    def nominees(self, pod: Pod, nodes: NodeTable, /) -> Mapping[int, list[Pod]]:
        """Row -> nominated Pods of equal or higher priority for this node."""

    def is_local(self, state: CycleState, /) -> bool:
        """Whether all Filter plugins that concern the Pod are row-local."""

    def epochs(self, pod: Pod, /) -> tuple[int, ...]:
        """Numbers of the Filter plugins that change when all of their answers are stale."""


@dataclass(frozen=True, kw_only=True)
class InTreeHandle(Handle):
    """A handle with the services for bayplan's own plugins.

    Attributes:
        pods: the Pods that count on nodes. Scheduling thread only.
        preparing: Pods in PreBind, by uid.
        groups: which other Pods belong together, and what is asked for them.
        kubernetes_groups: likewise of PodGroups of Kubernetes, and their Pods.
        gates: which features there are.
        extenders: webhooks; DefaultPreemption asks them.
        instrument: where preemptions are reported.
        queues: what each tenant uses and is entitled to.
        queued: the Pods in the queue. Scheduling thread only.
        what_if: what if Pods were on a node, or gone from it? Complete once all plugins of the
            profile are made.
        exhaustive: whether searches look at all nodes even where enough would do: offline.
        room_request: asks for room for a Pod that a limit holds back, after an attempt with that
            state.
        evictions: who is leaving, and for whom. Scheduling thread only.
        services: where the profile's plugins register what they do besides extension points.
    """

    pods: CountedPods
    preparing: Mapping[str, PreparingPod]
    groups: Groups
    kubernetes_groups: KubernetesGroups
    gates: FeatureGates
    extenders: PreemptionExtenders
    instrument: Instrument
    queues: QueueTree
    queued: QueuedPods
    what_if: AsksWhatIf
    exhaustive: bool
    room_request: AsksForRoom
    evictions: Evictions
    services: Services

    def for_user(self, plugin: str) -> Handle:
        """The handle for a user's plugin, with the plugin's own logger and metrics."""
        values = {f.name: getattr(self, f.name) for f in fields(Handle)}
        values["logger"] = plugin_logger(plugin, self.profile)
        values["metrics"] = PluginMetrics(self.instrument, plugin)
        return Handle(**values)
