"""Handle: what the scheduler gives each plugin, in addition to its arguments.

bayplan's own plugins have more, see `bayplan.framework.in_tree_handle`. A handle is complete before
the first plugin is made. The parts behind it (cache, queue, binding, client) are Protocols, so that
a test can put something simpler there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import structlog

from bayplan.api.meta import Condition, ObjectReference
from bayplan.api.pod import Pod
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.telemetry.instrument import Instrument

Done = Callable[[Exception | None], None]
"""Gets None on success, else the error; called on another thread, so it must be quick."""


class ClusterWriter(Protocol):
    """What the scheduler writes to the API server. Safe to use from any thread."""

    def bind(self, pod: Pod, node_name: str, on_done: Done, /) -> None:
        """Assign the Pod to the node; does not wait."""

    def patch_pod_status(
        self, pod: Pod, condition: Condition | None, nominated: str | None, on_done: Done, /
    ) -> None:
        """Set a condition (None: none) and status.nominatedNodeName; does not wait.

        ``nominated`` "" clears the nomination, None does not change it.
        """

    def delete_pod(self, pod: Pod, on_done: Done, /) -> None:
        """Delete this very Pod, with its own grace period; does not wait."""

    def read(self, path: str, /) -> bytes:
        """The object at ``path``; waits. On workers only.

        Raises:
            bayplan.client.errors.ApiError: it failed.
        """

    def create(self, path: str, body: bytes, /) -> bytes:
        """Create an object in the collection at ``path`` and wait; returns it. On workers only.

        Raises:
            bayplan.client.errors.ApiError: it failed.
        """

    def delete_later(self, path: str, uid: str, on_done: Done, /) -> None:
        """Delete the object at ``path`` if the uid is still the same; does not wait."""

    def patch_later(self, path: str, body: bytes, content_type: str, on_done: Done, /) -> None:
        """Patch the object at ``path``; does not wait."""

    def patch(self, path: str, body: bytes, content_type: str, /) -> bytes:
        """Patch the object at ``path`` and wait; returns the stored object. On workers only.

        Raises:
            bayplan.client.errors.ApiError: it failed.
        """


class EventRecorder(Protocol):
    """Writes events.k8s.io/v1 events; never blocks."""

    def event(
        self,
        regarding: Pod | ObjectReference,
        related: Pod | None,
        type_: str,
        reason: str,
        action: str,
        note: str,
        reporting_controller: str | None = None,
    ) -> None:
        """Record one event; ``type_`` is Normal or Warning, the controller is a schedulerName."""


class Logger(Protocol):
    """A structured logger: a text, and values by name."""

    def debug(self, event: str, /, **values: object) -> None:
        """Details for developers of the plugin."""

    def info(self, event: str, /, **values: object) -> None:
        """What happens in normal operation."""

    def warning(self, event: str, /, **values: object) -> None:
        """A problem that needs attention."""

    def error(self, event: str, /, **values: object) -> None:
        """Something that went wrong."""

    def exception(self, event: str, /, **values: object) -> None:
        """An error with the traceback of the exception that is being handled."""


class WaitingPod(Protocol):
    """A Pod that a Permit plugin makes wait."""

    @property
    def pod(self) -> Pod:
        """The Pod."""

    @property
    def node_name(self) -> str:
        """Where it will go."""

    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the Pod yet."""

    def allow(self, plugin: str) -> None:
        """``plugin`` allows the Pod; the last plugin to do so ends the wait."""

    def reject(self, plugin: str, message: str) -> None:
        """Reject it for ``plugin``."""

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error, so that the Pod is tried again after a backoff.

        False when it has been allowed or rejected already.
        """


class WaitingPods(Protocol):
    """All Pods that wait in Permit. Safe to use from any thread."""

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting Pod with that uid."""

    def __iter__(self) -> Iterator[WaitingPod]:
        """All of them."""


class PodNominator(Protocol):
    """Pods that wait for room on a node where victims are leaving."""

    @property
    def version(self) -> Hashable:
        """Changes when a nomination begins or ends, and is as before when that is undone."""

    def nominated_pods(self, node_name: str) -> Iterable[Pod]:
        """Pods nominated to that node."""

    def nominated_nodes(self) -> Collection[str]:
        """Nodes with at least one nominated Pod."""

    def nominated_node(self, uid: str) -> str:
        """Where the Pod is nominated to; "" for none."""

    def promised_pods(self, node_name: str) -> Iterable[Pod]:
        """Pods nominated to the node, but for stand-ins of Pods on other nodes.

        Those use no more than what counts already.
        """

    def keeps_off(self, nominee: Pod, pod: Pod, node_name: str) -> bool:
        """Whether the nominee's room on the node is kept from ``pod``, priorities apart."""


class PluginMetrics:
    """A plugin's own numbers, as metrics with the labels ``plugin`` and ``name``. Any thread.

    A name is the value of a label: use a fixed few, no names of Pods or nodes.
    """

    def __init__(self, instrument: Instrument, plugin: str) -> None:
        self._instrument = instrument
        self._plugin = plugin

    def count(self, name: str, amount: float = 1) -> None:
        """Add to the counter ``bayplan_plugin_events_total``."""
        self._instrument.plugin_counted(self._plugin, name, amount)

    def set(self, name: str, value: float) -> None:
        """Set the gauge ``bayplan_plugin_value``."""
        self._instrument.plugin_set(self._plugin, name, value)

    def observe(self, name: str, seconds: float) -> None:
        """Add a duration to the histogram ``bayplan_plugin_seconds``."""
        self._instrument.plugin_observed(self._plugin, name, seconds)


@dataclass(frozen=True, kw_only=True)
class Handle:
    """What a plugin can read, and do outside of its answers.

    Attributes:
        nodes: all nodes and the Pods on them. Scheduling thread only.
        objects: every other object that is watched, by kind and key. Scheduling thread only.
        counters: matching Pods per topology domain. Scheduling thread only.
        nominator: Pods nominated to nodes. Scheduling thread only.
        waiting: Pods that wait in Permit.
        events: recorder of Kubernetes events.
        writer: writes to the API server; None where there is no cluster (simulate, explain).
        logger: its lines name the plugin and the profile.
        metrics: the plugin's own numbers on /metrics.
        profile: schedulerName of the profile the plugin is configured in.
        now: wall clock, seconds since the epoch.
        monotonic: the clock for durations, seconds.
        activate: move waiting Pods to the active queue at once; safe from any thread.
    """

    nodes: LiveNodeTable
    objects: ObjectStore
    counters: DomainCounters
    nominator: PodNominator
    waiting: WaitingPods
    events: EventRecorder
    writer: ClusterWriter | None
    logger: Logger
    metrics: PluginMetrics
    profile: str
    now: Callable[[], float]
    monotonic: Callable[[], float]
    activate: Callable[[Iterable[Pod]], None]


def plugin_logger(plugin: str, profile: str) -> Logger:
    """A logger whose lines name the plugin and the profile."""
    logger: Logger = structlog.get_logger("plugin", plugin=plugin, profile=profile)
    return logger
