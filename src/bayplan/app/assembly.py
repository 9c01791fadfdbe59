"""Assembly: the one file that knows all parts, and how they fit together.

`Core` is what every mode has: cache, queue, profiles, selection. `bayplan.cli.run` puts an API
server around it, `bayplan.simulation` a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

from bayplan.api.pod import Pod
from bayplan.attempt.selection import NodeSelector, TieBreak, pick_at_random
from bayplan.binding.preparing import PreparingPods
from bayplan.binding.waiting import WaitingPods
from bayplan.cache.cache import Cache
from bayplan.cache.counters import DomainCounters
from bayplan.config import ConfigError, EffectiveConfig, FieldError, ResolvedProfile
from bayplan.config.points import Point
from bayplan.extenders.extenders import Extenders
from bayplan.framework.cluster_events import EventRegistration
from bayplan.framework.handle import (
    ClusterWriter,
    EventRecorder,
    Handle,
    InTreeHandle,
    PluginMetrics,
    plugin_logger,
)
from bayplan.framework.interface import Plugin
from bayplan.framework.points import extension_points
from bayplan.framework.registry import Registry
from bayplan.framework.runtime import Framework
from bayplan.framework.what_if import WhatIf
from bayplan.handlers import Handlers
from bayplan.queue.active import sort_key
from bayplan.queue.hints import HintTable, registrations
from bayplan.queue.nominator import Nominator
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.queue.settings import QueueSettings
from bayplan.telemetry.instrument import Instrument


@dataclass
class Surroundings:
    """What differs between a cluster and a file.

    Attributes:
        events: recorder of Kubernetes events.
        client: API access for plugins; None without a cluster.
        pool: worker threads for plugins that block; None runs them in line.
        activate: hand Pods to the queue from any thread.
        extenders: webhooks.
        tie_break: picks among equally good nodes.
        clock: monotonic seconds.
        now: wall clock, seconds since the epoch.
    """

    events: EventRecorder
    client: ClusterWriter | None = None
    pool: Executor | None = None
    activate: Callable[[Iterable[Pod]], None] = lambda _: None
    extenders: Extenders | None = None
    tie_break: TieBreak = pick_at_random
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time


class Core:
    """Cache, queue, profiles and selection, made from a configuration.

    Raises:
        ConfigError: a profile names a plugin that bayplan does not have yet, or a plugin refuses
            its arguments.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        registry: Registry,
        around: Surroundings,
        instrument: Instrument,
    ) -> None:
        registry.check(config)
        self.cache = Cache()
        self.waiting = WaitingPods(around.clock)
        self.preparing = PreparingPods()
        self.instrument = instrument
        self.extenders = around.extenders or Extenders()
        nominator = Nominator()
        self.counters = DomainCounters(self.cache.nodes, self.cache.objects)
        self.profiles: dict[str, Framework] = {}
        for index, profile in enumerate(config.profiles):
            handle = InTreeHandle(
                nodes=self.cache.nodes,
                objects=self.cache.objects,
                counters=self.counters,
                nominator=nominator,
                waiting=self.waiting,
                preparing=self.preparing,
                events=around.events,
                extenders=self.extenders,
                instrument=instrument,
                what_if=WhatIf(nominator),
                writer=around.client,
                logger=plugin_logger("", profile.scheduler_name),
                metrics=PluginMetrics(instrument, ""),
                profile=profile.scheduler_name,
                now=around.now,
                monotonic=around.clock,
                activate=around.activate,
            )
            percentage = profile.percentage_of_nodes_to_score
            if percentage is None:
                percentage = config.config.percentage_of_nodes_to_score
            self.profiles[profile.scheduler_name] = Framework(
                profile.scheduler_name,
                _instances(profile, registry, handle, f"profiles[{index}]"),
                handle,
                instrument,
                trusted=registry.trusted,
                percentage=percentage or 100,
                pool=around.pool,
            )
        self.queue = self._make_queue(config, nominator, around)
        self.handlers = Handlers(self.cache, self.queue, self.waiting, self.profiles)
        self.selector = NodeSelector(self.cache.nodes, self.extenders, around.tie_break)

    def _make_queue(
        self, config: EffectiveConfig, nominator: Nominator, around: Surroundings
    ) -> SchedulingQueue:
        frameworks = self.profiles.values()
        first = next(iter(frameworks))
        return SchedulingQueue(
            sort_key(first.lifecycle.queue_sort()),
            around.clock,
            HintTable(
                {f.name: _registrations(f) for f in frameworks},
                extenders=bool(self.extenders),
            ),
            {f.name: f.lifecycle.gates() for f in frameworks},
            nominator=nominator,
            instrument=self.instrument,
            settings=QueueSettings(
                initial_backoff=config.config.pod_initial_backoff_seconds,
                max_backoff=config.config.pod_max_backoff_seconds,
            ),
        )


def _instances(
    profile: ResolvedProfile, registry: Registry, handle: InTreeHandle, path: str
) -> dict[Point, list[tuple[Plugin, int]]]:
    """The profile's plugins, each made once, at the points where they run."""
    made: dict[str, Plugin] = {}
    points: dict[Point, list[tuple[Plugin, int]]] = {}
    for point, enabled in profile.plugins.items():
        for entry in enabled:
            cls = registry.plugin_class(entry.name)
            assert cls is not None, "the registry was asked to check the configuration"
            if point not in extension_points(cls):
                continue
            if entry.name not in made:
                trusted = entry.name in registry.trusted
                own = handle if trusted else handle.for_user(entry.name)
                made[entry.name] = _make(cls, profile, own, path)
            points.setdefault(point, []).append((made[entry.name], entry.weight))
    return points


def _registrations(framework: Framework) -> list[tuple[str, EventRegistration]]:
    """What may wake the Pods that this profile's plugins reject."""
    found: list[tuple[str, EventRegistration]] = []
    for plugin in framework.plugins.rejecting:
        try:
            found += registrations([plugin])
        except (Exception, SystemExit) as exc:
            text = f'plugin "{plugin.name}": events_to_register: {type(exc).__name__}: {exc}'
            raise ConfigError([FieldError("profiles", text)]) from exc
    return found


def _make(cls: type[Plugin], profile: ResolvedProfile, handle: Handle, path: str) -> Plugin:
    try:
        return cls(profile.plugin_args.get(cls.name), handle)
    except (Exception, SystemExit) as exc:
        text = f'plugin "{cls.name}": {type(exc).__name__}: {exc}'
        error = FieldError(f"{path}.pluginConfig", text)
        raise ConfigError([error]) from exc
