"""Exposition: metrics that the parts of the process provide on request, served on /metrics.

This runs on the thread that answers the scrape, so it only reads: lengths, copies of counters.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable

from bayplan import __version__
from bayplan.api import quantity
from bayplan.app.api_client import ApiClient
from bayplan.app.assembly import Core
from bayplan.app.feed import Feed
from bayplan.app.leadership import Leadership
from bayplan.app.load import LoadFeeds
from bayplan.app.reload import Reloader
from bayplan.cache.queue_tree import QueueTree
from bayplan.cache.queue_tree.past_use import Past
from bayplan.cache.queue_tree.report import amounts
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.event_recorder import EventRecorder
from bayplan.client.leader import LeaderElector
from bayplan.client.request import Lane
from bayplan.config.feature_gates import FeatureGates
from bayplan.framework.services import Survival
from bayplan.informers.factory import Informers
from bayplan.telemetry import polled
from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.polled import Values
from bayplan.telemetry.pulse import Pulse
from bayplan.world import World

KUBERNETES = "1.37.2"
"""The kube-scheduler that this version agrees with."""


def expose(
    gates: FeatureGates,
    feed: Feed,
    core: Core,
    api: ApiClient,
    leadership: Leadership,
    reloader: Reloader,
    load: LoadFeeds,
) -> None:
    """All of a process."""
    expose_load(feed.metrics, load)
    expose_features(feed.metrics, gates)
    expose_world(feed.metrics, core.world, core.scheduler.pulse)
    expose_blind_pods(feed.metrics, core)
    expose_survivors(feed.metrics, core)
    expose_client(feed.metrics, api.dispatcher, api.events, feed.informers)
    expose_reloads(feed.metrics, reloader)
    if leadership.elector is not None:
        expose_election(feed.metrics, leadership.elector)


def expose_features(metrics: Metrics, gates: FeatureGates) -> None:
    """What this is, and which features are on."""
    build = (__version__, platform.python_version(), KUBERNETES)
    metrics.poll(polled.BUILD_INFO, lambda: {build: 1})
    metrics.poll(polled.FEATURES, gates.values)


def expose_reloads(metrics: Metrics, reloader: Reloader) -> None:
    """Whether what the files say is what runs."""
    metrics.poll_by(polled.RELOADS, lambda: dict(reloader.counts))
    metrics.poll(polled.RELOAD_FAILING, lambda: {(): reloader.failing})


def expose_load(metrics: Metrics, load: LoadFeeds) -> None:
    """What the sources of measured load say, and how old it is."""

    def by(name: str) -> Callable[[], Values]:
        def values() -> Values:
            return {
                (str(feed.source), result): count
                for feed in load.all()
                for result, count in dict(getattr(feed, name)).items()
            }

        return values

    def ages() -> Values:
        feeds = [feed for feed in load.all() if feed.newest]
        return {(str(feed.source),): max(0.0, time.time() - feed.newest) for feed in feeds}

    metrics.poll(polled.LOAD_POLLS, by("polls"))
    metrics.poll(polled.LOAD_SAMPLES, by("samples"))
    metrics.poll(polled.LOAD_AGE, ages)
    metrics.poll(polled.LOAD_NODES, lambda: {(str(f.source),): f.nodes for f in load.all()})


def expose_blind_pods(metrics: Metrics, core: Core) -> None:
    """Pods rejected by plugins unknown to autoscalers."""

    def values() -> dict[str, int]:
        from bayplan.explain.autoscaler import (  # noqa: PLC0415 - loaded when somebody asks
            unknown_filters,
        )

        frameworks = core.profiles.frameworks.values()
        unknown = frozenset[str]().union(*(unknown_filters(f.plugins) for f in frameworks))
        counts = core.world.queue.rejected_by()
        return {plugin: counts[plugin] for plugin in sorted(unknown & counts.keys())}

    metrics.poll_by(polled.BLIND_PODS, values)


def expose_survivors(metrics: Metrics, core: Core) -> None:
    """What survives of workloads, as plugins have seen of late."""

    def by(value: Callable[[Survival], int]) -> Callable[[], Values]:
        def values() -> Values:
            services = (framework.services for framework in core.profiles.values())
            every = (each for s in services for ask in s.survivors for each in ask())
            return {(each.namespace, each.workload, each.domain): value(each) for each in every}

        return values

    metrics.poll(polled.SURVIVORS, by(lambda survival: survival.pods))
    metrics.poll(polled.SURVIVORS_NEEDED, by(lambda survival: survival.needed))


def expose_world(metrics: Metrics, world: World, pulse: Pulse) -> None:
    """How many Pods and nodes are held, and where; what the scheduling thread does."""

    def in_permit() -> Counter[str]:
        return Counter(plugin for pod in world.waiting for plugin in pod.pending_plugins())

    metrics.poll_by(polled.PENDING_PODS, world.queue.counts)
    metrics.poll(polled.QUEUED_ENTITIES, world.queue.entity_counts)
    metrics.poll_by(polled.INFLIGHT_EVENTS, world.queue.in_flight_events)
    metrics.poll_by(polled.CACHE_SIZE, world.cache.counts)
    metrics.poll(polled.OVERCOMMIT, lambda: world.overcommit.excess)
    metrics.poll_by(polled.PERMIT_WAITING, in_permit)
    metrics.poll_by(polled.GATED_PODS, world.queue.gated_by)
    _expose_queues(metrics, world.queues)
    metrics.poll_by(polled.WAITING_GROUPS, world.queue.groups.counts)
    metrics.poll(polled.ATTEMPT_AGE, lambda: {(): pulse.age()})
    metrics.poll(polled.ATTEMPT_IN_PROGRESS, lambda: {(): pulse.attempting})


def _expose_queues(metrics: Metrics, queues: QueueTree) -> None:
    """The columns of the Queues, as they are at this moment: bytes, and cores in place of milli."""

    def column(name: str) -> Callable[[], Values]:
        def values() -> Values:
            sums = queues.latest
            return {
                (sums.structure.name(row), resource): value
                / (1000 if quantity.base(resource) == "cpu" else 1)
                for row, is_own in enumerate(sums.structure.own)
                if not is_own
                for resource, its in amounts(sums, row)
                if (value := getattr(its, name)) is not None
            }

        return values

    def past(value: Callable[[Past, int], float]) -> Callable[[], Values]:
        def values() -> Values:
            shown = {} if queues.past_use is None else queues.past_use.shown
            return {key: value(its, 1000 if key[1] == "cpu" else 1) for key, its in shown.items()}

        return values

    metrics.poll(polled.QUEUE_USED, column("used"))
    metrics.poll(polled.QUEUE_DEMAND, column("demand"))
    metrics.poll(polled.QUEUE_SHARE, column("share"))
    metrics.poll(polled.QUEUE_GUARANTEED, column("guaranteed"))
    metrics.poll(polled.QUEUE_LIMIT, column("limit"))
    metrics.poll(polled.QUEUE_PAST_USE, past(lambda its, unit: its.use / unit))
    metrics.poll(polled.QUEUE_WEIGHT, past(lambda its, _: its.weight))
    metrics.poll(polled.QUEUE_DIFFERENCE, lambda: {(): queues.difference})


def expose_client(
    metrics: Metrics, dispatcher: Dispatcher, events: EventRecorder, informers: Informers
) -> None:
    """What was read from the API server, what was written, and what went wrong with either."""
    _expose_dispatcher(metrics, dispatcher)

    def by_result() -> dict[str, float]:
        now = events.statistics()
        return {"sent": now.sent, "failed": now.failed, "dropped": now.dropped}

    metrics.poll_by(polled.EVENTS, by_result)
    expose_informers(metrics, informers)


def _expose_dispatcher(metrics: Metrics, dispatcher: Dispatcher) -> None:
    def waiting() -> dict[str, float]:
        now = dispatcher.statistics()
        return _by_lane(now.waiting) | {"retry": now.to_retry}

    def faults() -> dict[str, float]:
        now = dispatcher.statistics()
        return {
            "retried": now.retried,
            "failed": now.failed,
            "callback_error": now.callback_errors,
        }

    metrics.poll_by(polled.REQUESTS_WAITING, waiting)
    metrics.poll_by(polled.REQUESTS_IN_FLIGHT, lambda: _by_lane(dispatcher.statistics().in_flight))
    metrics.poll_by(polled.REQUESTS_SENT, lambda: _by_lane(dispatcher.statistics().sent))
    metrics.poll_by(polled.REQUEST_FAULTS, faults)


def _by_lane(counts: list[int]) -> dict[str, float]:
    return {lane.name.lower(): counts[lane] for lane in Lane}


def expose_informers(metrics: Metrics, informers: Informers) -> None:
    """What was read from the API server, and what cannot be."""

    def events() -> Values:
        return {
            (kind.name, event): getattr(now, event)
            for kind, now in informers.statistics().items()
            for event in ("lists", "watches", "events", "undecodable")
        }

    def synced() -> dict[str, float]:
        unsynced = informers.unsynced()
        return {kind.name: kind not in unsynced for kind in informers.statistics()}

    def failing() -> dict[str, float]:
        errors = informers.errors()
        return {kind.name: kind in errors for kind in informers.statistics()}

    metrics.poll(polled.INFORMER_EVENTS, events)
    metrics.poll_by(polled.INFORMER_SYNCED, synced)
    metrics.poll_by(polled.INFORMER_FAILING, failing)


def expose_election(metrics: Metrics, elector: LeaderElector) -> None:
    """Who leads."""
    name = elector.lease_name

    def leader() -> Values:
        return {(name, elector.leader): 1} if elector.leader else {}

    metrics.poll_by(polled.MASTER_STATUS, lambda: {name: elector.is_leader})
    metrics.poll(polled.LEADER, leader)
    metrics.poll_by(polled.LEASE_FAILING, lambda: {name: bool(elector.problem)})
