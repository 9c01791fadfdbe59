"""Assembly: builds all parts and connects them. No other file knows all parts.

`build` makes a scheduler from a configuration, plugins and `Ports`, which are all that differs
between a cluster (`bayplan.app.process`), a file (`bayplan.simulation`), a test and a benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor as Workers
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from bayplan.api.pod import Pod
from bayplan.apply.effects import Effects
from bayplan.apply.executor import Executor
from bayplan.attempt.selection import NodeChooser, TieBreak, pick_at_random
from bayplan.binding.cycle import Binder
from bayplan.config import ConfigError, EffectiveConfig, FieldError, ResolvedProfile
from bayplan.config.feature_gates import FeatureGates
from bayplan.config.points import Point
from bayplan.engine.faults import is_interrupt
from bayplan.engine.registry import Registry
from bayplan.engine.runtime import Framework
from bayplan.engine.what_if import WhatIf
from bayplan.extenders.extenders import Extenders
from bayplan.framework.cluster_events import EventRegistration
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import (
    ClusterWriter,
    EventRecorder,
    Handle,
    PluginMetrics,
    plugin_logger,
)
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Plugin
from bayplan.framework.points import extension_points
from bayplan.framework.room import AsksForRoom
from bayplan.framework.services import Services
from bayplan.groups.placers import Placers
from bayplan.groups.room import RoomRequest, of_pod
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import ActivatePods
from bayplan.profiles import Profiles, close
from bayplan.queue.heap import sort_key
from bayplan.queue.hints import HintTable, registrations
from bayplan.queue.policy import Gate, QueuePolicy, QueueSettings
from bayplan.rejections.conflicts import Conflicts, PodReader
from bayplan.report.kubernetes_groups import KubernetesGroupReport
from bayplan.report.label_groups import LabelGroupReport
from bayplan.report.objects import ObjectReport
from bayplan.report.pods import Report, StatusWriter
from bayplan.report.records import Records
from bayplan.report.waits import WaitReport
from bayplan.scheduler import Scheduler
from bayplan.support.text import error_text
from bayplan.telemetry.instrument import Instrument
from bayplan.world import World

BINDING_WORKERS = 512
"""Most threads that prepare and bind Pods; made when needed. They are apart from those of blocking
plugins, since a PreBind plugin may wait for something that only the scheduling thread can see."""


class NoStatuses(StatusWriter):
    """Writes no conditions."""


def _binding_workers() -> Workers:
    return ThreadPoolExecutor(BINDING_WORKERS, thread_name_prefix="binder")


@dataclass(kw_only=True)
class Ports:
    """What connects a scheduler with the world outside of it.

    Attributes:
        events: recorder of Kubernetes events.
        writer: API access for plugins; None without a cluster.
        statuses: writes conditions and nominations.
        reader: looks up Pods that are no longer watched; None without a cluster.
        inbox: where the messages come from.
        instrument: receives everything that happens.
        plugin_workers: threads for plugins that block; None runs them in line.
        binding_workers: threads for binding cycles.
        extenders: webhooks.
        tie_break: picks among equally good nodes.
        exhaustive: whether preemption looks at all nodes even where enough would do.
        clock: monotonic seconds.
        now: wall clock, seconds since the epoch.
    """

    events: EventRecorder
    writer: ClusterWriter | None = None
    statuses: StatusWriter = field(default_factory=NoStatuses)
    reader: PodReader | None = None
    inbox: Inbox = field(default_factory=Inbox)
    instrument: Instrument = field(default_factory=Instrument)
    plugin_workers: Workers | None = None
    binding_workers: Workers = field(default_factory=_binding_workers)
    extenders: Extenders = field(default_factory=Extenders)
    tie_break: TieBreak = pick_at_random
    exhaustive: bool = False
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time


@dataclass(frozen=True)
class Core:
    """A scheduler, ready to run.

    Attributes:
        world: what it knows of the cluster.
        placers: decide about Pods and groups.
        scheduler: runs the cycles.
        records: what came of the last attempts.
    """

    world: World
    placers: Placers
    scheduler: Scheduler
    records: Records

    @property
    def profiles(self) -> Profiles:
        """The profiles that decide at present."""
        return self.scheduler.profiles


def build(config: EffectiveConfig, registry: Registry, ports: Ports) -> Core:
    """Put a scheduler together.

    Raises:
        ConfigError: see `make_profiles`.
    """
    world = World(ports.clock, ports.instrument)
    if ports.reader is not None:
        world.conflicts = Conflicts(
            world.cache,
            ports.reader,
            ports.inbox,
            ports.events,
            world.node_backoff,
            ports.instrument,
        )
    selector = NodeChooser(world.cache.nodes, ports.extenders, world.node_backoff, ports.tie_break)
    placers = Placers(world.cache, world.nominator, selector)
    binder = Binder(
        ports.binding_workers,
        ports.inbox,
        world.waiting,
        world.preparing,
        ports.extenders,
        ports.instrument,
    )
    records, nominator = Records(ports.now), world.nominator
    report = Report(ports.events, ports.statuses, records)
    executor = Executor(
        world.cache.nodes,
        world.evictions,
        nominator,
        world.waiting,
        world.preparing,
        ports.writer,
        ports.events,
        ports.inbox,
        ports.instrument,
        ports.now,
    )
    scheduler = Scheduler(
        world,
        make_profiles(config, registry, world, placers, ports),
        placers,
        ports.inbox,
        binder,
        report,
        LabelGroupReport(
            ports.events, ports.statuses, nominator, ports.instrument, records, ports.clock
        ),
        KubernetesGroupReport(report, ports.statuses, nominator, ports.instrument),
        ObjectReport(ports.events),
        WaitReport(world.waiting, world.queue, ports.events, ports.statuses, ports.clock),
        Effects(executor, ports.instrument),
        ports.instrument,
        ports.clock,
    )
    return Core(world, placers, scheduler, records)


def make_profiles(
    config: EffectiveConfig, registry: Registry, world: World, placers: Placers, ports: Ports
) -> Profiles:
    """A new generation of plugins over this world. Nothing decides by it yet.

    Raises:
        ConfigError: a profile names a plugin that bayplan does not have yet, or a plugin refuses
            its arguments. Plugins that were made by then are closed.
    """
    config.require_available()
    made: list[Plugin] = []
    try:
        frameworks = {
            profile.scheduler_name: _make_framework(
                config, profile, f"profiles[{index}]", registry, world, placers, ports, made
            )
            for index, profile in enumerate(config.profiles)
        }
        return Profiles(frameworks, _policy(config, frameworks, bool(ports.extenders)))
    except ConfigError:
        close(made)
        raise


def _make_framework(
    config: EffectiveConfig,
    profile: ResolvedProfile,
    path: str,
    registry: Registry,
    world: World,
    placers: Placers,
    ports: Ports,
    made: list[Plugin],
) -> Framework:
    def room_request(state: CycleState, pod: Pod) -> RoomRequest:
        return of_pod(placers.planner, framework, pod, state)

    services = Services()
    what_if = WhatIf(world.nominator, services)
    handle = _handle(
        profile.scheduler_name, config.gates, world, ports, what_if, room_request, services
    )
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = config.settings.percentage_of_nodes_to_score
    framework = Framework(
        profile.scheduler_name,
        _instances(profile, registry, handle, path, made),
        handle,
        what_if,
        ports.instrument,
        trusted=registry.trusted,
        percentage=percentage or 100,
        pool=ports.plugin_workers,
    )
    return framework


def _handle(
    profile: str,
    gates: FeatureGates,
    world: World,
    ports: Ports,
    what_if: WhatIf,
    room_request: AsksForRoom,
    services: Services,
) -> InTreeHandle:
    def activate(pods: Iterable[Pod]) -> None:
        ports.inbox.post(ActivatePods(tuple(pods)))

    return InTreeHandle(
        nodes=world.cache.nodes,
        objects=world.cache.objects,
        groups=world.cache.groups,
        kubernetes_groups=world.cache.kubernetes_groups,
        counters=world.counters,
        nominator=world.nominator,
        waiting=world.waiting,
        pods=world.cache,
        preparing=world.preparing,
        events=ports.events,
        gates=gates,
        extenders=ports.extenders,
        instrument=ports.instrument,
        queues=world.queues,
        queued=world.queue,
        what_if=what_if,
        exhaustive=ports.exhaustive,
        room_request=room_request,
        evictions=world.evictions,
        services=services,
        writer=ports.writer,
        logger=plugin_logger("", profile),
        metrics=PluginMetrics(ports.instrument, ""),
        profile=profile,
        now=ports.now,
        monotonic=ports.clock,
        activate=activate,
    )


def _instances(
    profile: ResolvedProfile,
    registry: Registry,
    handle: InTreeHandle,
    path: str,
    made: list[Plugin],
) -> dict[Point, list[tuple[Plugin, int]]]:
    """The profile's plugins, each made once, at the points where they run."""
    plugins: dict[str, Plugin] = {}
    points: dict[Point, list[tuple[Plugin, int]]] = {}
    for point, enabled in profile.plugins.items():
        for entry in enabled:
            cls = registry.plugin_class(entry.name)
            if point not in extension_points(cls):
                continue
            if entry.name not in plugins:
                trusted = entry.name in registry.trusted
                own = handle if trusted else handle.for_user(entry.name)
                plugins[entry.name] = _make(cls, profile, own, path)
                made.append(plugins[entry.name])
            points.setdefault(point, []).append((plugins[entry.name], entry.weight))
    return points


def _make(cls: type[Plugin], profile: ResolvedProfile, handle: Handle, path: str) -> Plugin:
    try:
        return cls(profile.plugin_args.get(cls.name), handle)
    except BaseException as exc:
        if is_interrupt(exc):
            raise
        text = f'plugin "{cls.name}": {error_text(exc)}'
        error = FieldError(f"{path}.pluginConfig", text)
        raise ConfigError([error]) from exc


def _policy(
    config: EffectiveConfig, frameworks: dict[str, Framework], extenders: bool
) -> QueuePolicy:
    first = next(iter(frameworks.values()))
    services = {name: framework.services for name, framework in frameworks.items()}
    return QueuePolicy(
        sort_key(first.lifecycle.queue_sort()),
        HintTable({n: _registrations(f) for n, f in frameworks.items()}, extenders=extenders),
        {n: _gates(f) for n, f in frameworks.items()},
        QueueSettings(
            initial_backoff=config.settings.pod_initial_backoff_seconds,
            max_backoff=config.settings.pod_max_backoff_seconds,
        ),
        {n: s.group_sources for n, s in services.items() if s.group_sources},
        {kind for s in services.values() for source in s.group_sources for kind in source.inferred},
        next((s.turns for s in services.values() if s.turns is not None), None),
    )


def _gates(framework: Framework) -> list[Gate]:
    """The PreEnqueue plugins; that of PodGroups of Kubernetes is asked about a group as a whole."""
    whole = {s.name for s in framework.services.group_sources if s.policy.gates_whole}
    return [gate for gate in framework.lifecycle.gates() if gate[0] not in whole]


def _registrations(framework: Framework) -> list[tuple[str, EventRegistration]]:
    """What may wake the Pods that this profile's plugins reject."""
    registered: list[tuple[str, EventRegistration]] = []
    plugins, sources = framework.plugins, {s.name for s in framework.services.group_sources}
    grouping = [plugin for plugin in plugins.all if plugin.name in sources]
    for plugin in dict.fromkeys((*plugins.rejecting, *grouping)):
        try:
            registered += registrations([plugin])
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            text = f'plugin "{plugin.name}": events_to_register: {error_text(exc)}'
            raise ConfigError([FieldError("profiles", text)]) from exc
    return registered
