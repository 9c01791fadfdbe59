"""A handle for plugins under test: what a test does not give is empty, or does nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.binding.preparing import PreparingPod
from bayplan.binding.waiting import WaitingPods
from bayplan.cache.cache import Cache
from bayplan.cache.counters import DomainCounters
from bayplan.cache.groups import Groups
from bayplan.cache.kubernetes_groups import KubernetesGroups
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.cache.queue_tree import QueueTree
from bayplan.config.feature_gates import DEFAULT_GATES, FeatureGates
from bayplan.engine.what_if import WhatIf
from bayplan.extenders.extenders import Extenders
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.evictions import Evictions
from bayplan.framework.handle import ClusterWriter, Done, PluginMetrics, plugin_logger
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.services import Services
from bayplan.queue.nominator import Nominator
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.telemetry.instrument import Instrument


class NoEvents:
    """Records nothing."""

    def event(self, regarding: Pod, related: Pod | None, *texts: str | None) -> None:
        """See `bayplan.framework.handle.EventRecorder`."""


class RefusingWriter:
    """A `ClusterWriter` for tests that write nothing; a fake overrides what its test does write."""

    def bind(self, pod: Pod, node_name: str, on_done: Done) -> None:
        """See `ClusterWriter`."""
        raise AssertionError(f"{pod.key} is bound to {node_name}")

    def patch_pod_status(
        self, pod: Pod, condition: Condition | None, nominated: str | None, on_done: Done
    ) -> None:
        """See `ClusterWriter`."""
        raise AssertionError(f"the status of {pod.key} is patched")

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """See `ClusterWriter`."""
        raise AssertionError(f"{pod.key} is deleted")

    def read(self, path: str) -> bytes:
        """See `ClusterWriter`."""
        raise AssertionError(f"{path} is read")

    def create(self, path: str, body: bytes) -> bytes:
        """See `ClusterWriter`."""
        raise AssertionError(f"an object is created in {path}")

    def delete_later(self, path: str, uid: str, on_done: Done) -> None:
        """See `ClusterWriter`."""
        raise AssertionError(f"{path} is deleted")

    def patch_later(self, path: str, body: bytes, content_type: str, on_done: Done) -> None:
        """See `ClusterWriter`."""
        raise AssertionError(f"{path} is patched")

    def patch(self, path: str, body: bytes, content_type: str) -> bytes:
        """See `ClusterWriter`."""
        raise AssertionError(f"{path} is patched")


_: type[ClusterWriter] = RefusingWriter


def _no_request(_state: CycleState, pod: Pod) -> NoReturn:
    raise AssertionError(f"room is asked for {pod.key}")


def make_handle(
    nodes: LiveNodeTable | None = None,
    objects: ObjectStore | None = None,
    *,
    counters: DomainCounters | None = None,
    preparing: Mapping[str, PreparingPod] | None = None,
    writer: ClusterWriter | None = None,
    gates: FeatureGates = DEFAULT_GATES,
    nominator: Nominator | None = None,
    now: Callable[[], float] = lambda: 0.0,
) -> InTreeHandle:
    """The handle of the profile ``test``."""
    nodes = nodes if nodes is not None else LiveNodeTable()
    objects = objects if objects is not None else ObjectStore()
    instrument, services = Instrument(), Services()
    nominator = nominator if nominator is not None else Nominator()
    events: Any = NoEvents()
    queue = SchedulingQueue(lambda: 0.0)
    return InTreeHandle(
        nodes=nodes,
        objects=objects,
        groups=Groups(objects, {}),
        kubernetes_groups=KubernetesGroups(objects, {}),
        counters=counters if counters is not None else DomainCounters(nodes, objects),
        nominator=nominator,
        waiting=WaitingPods(lambda: 0.0),
        pods=Cache(),
        preparing=preparing if preparing is not None else {},
        events=events,
        gates=gates,
        extenders=Extenders(),
        instrument=instrument,
        queues=QueueTree(Cache(), queue),
        queued=queue,
        what_if=WhatIf(nominator, services),
        exhaustive=False,
        room_request=_no_request,
        writer=writer,
        logger=plugin_logger("test", "test"),
        metrics=PluginMetrics(instrument, "test"),
        profile="test",
        now=now,
        monotonic=lambda: 0.0,
        activate=lambda _: None,
        evictions=Evictions(Cache()),
        services=services,
    )
