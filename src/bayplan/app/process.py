"""Process: the scheduler of a real cluster, from start to end.

It waits for the first lists and for the Lease, and schedules. At the end it takes no new Pods,
finishes or undoes bindings in flight, and releases the Lease. If it loses the Lease it ends at
once, because two leaders could bind a Pod twice.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from bayplan.app import exposition, pages, rival
from bayplan.app.api_client import ApiClient
from bayplan.app.assembly import build
from bayplan.app.call_deadline import CallDeadline
from bayplan.app.culprit import Culprit
from bayplan.app.debugger import Debugger
from bayplan.app.feed import Feed
from bayplan.app.improvement import Improvement
from bayplan.app.leadership import Leadership
from bayplan.app.load import LoadFeeds
from bayplan.app.questions import SHARE, Questions
from bayplan.app.reload import Reloader
from bayplan.app.serving import Serving
from bayplan.app.sources import Sources
from bayplan.app.status import Status
from bayplan.app.stuck_pods import StuckPods
from bayplan.app.watchdog import Watchdog
from bayplan.client.hold import Hold
from bayplan.client.leader import new_identity
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.improve.orders import MOVED
from bayplan.informers.reflector import Reflector
from bayplan.report.pods import Report
from bayplan.server.options import PortOptions
from bayplan.telemetry.recent import Recent

if TYPE_CHECKING:
    from bayplan.app.self_improvement import SelfImprovement
    from bayplan.improve.applying import Application, Plan

log = structlog.get_logger("process")

SWITCH_INTERVAL = 0.0005
"""Seconds after which a busy thread lets another run. At Python's 5 ms the thread that sends
bindings waits for the scheduling thread at every step; see docs/performance.md."""
LANDING_SECONDS = 2.0
"""How long bindings may take to come back once no further one is sent."""
ANSWER_SECONDS = 6.0
"""The same for those whose requests the API server has: it may be slow to answer."""
DRAIN_SECONDS = 5.0
"""How long events and conditions may take to be written when the process ends."""
WORKER_SECONDS = 1.0
"""How long plugins on worker threads may take to return when everything else has ended."""


class Process:
    """One scheduler process.

    Args:
        sources: what ``config`` and ``registry`` were read from.
        port: where probes, metrics and debug pages are served.
        watchdog_limit: seconds after which a plugin that does not return counts as stuck.
        questions_share: of the scheduling thread's time, for those who ask; 0 to 1.

    Raises:
        ConfigError: see `bayplan.app.assembly.build`.
        PortError: a port or a certificate cannot be used.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        registry: Registry,
        feed: Feed,
        sources: Sources,
        port: PortOptions,
        watchdog_limit: float = 60.0,
        questions_share: float = SHARE,
    ) -> None:
        self._config, self._registry, self._feed, self._stuck = config, registry, feed, ""
        self._api = ApiClient(config, feed, lambda: self._leadership.may_write)
        self._ports = self._api.ports(config, feed)
        self._core = build(config, registry, self._ports)
        self._scheduler = self._core.scheduler
        self._load = LoadFeeds(self._api.http, feed.inbox, self._core.world.cache.nodes)
        self._leadership = Leadership(config, self._api, feed.inbox, self._lose)
        self._improvement = Improvement(self._core, self._ports, *self._lease(config))
        self._orders = Reflector(
            feed.connection,
            self._improvement.kind,
            feed.inbox.post_all,
            on_error=self._improvement.unwatched,
        )
        self._self_improvement: SelfImprovement | None = None
        self._scheduler.chores.append(self._improve)
        self._debugger = Debugger(self._core, self._api.http, feed.inbox)
        pulse, may_take = self._scheduler.pulse, (watchdog_limit or float("inf")) / 2
        self._stuck_pods = StuckPods(
            self._core.world.queue,
            Report(self._ports.events, self._ports.statuses),
            feed.inbox,
            self._api.http,
            may_take,
            lambda: self._leadership.may_write,
            lambda: self._api.events.statistics().waiting,
        )
        self._deadline = CallDeadline(pulse, may_take, self._stuck_pods.ended)
        self._recent = Recent(feed.metrics)
        self._watchdog = Watchdog(
            pulse,
            watchdog_limit,
            self._on_stuck,
            self._abandon,
            on_look=self._look,
        )
        self._reloader = Reloader(
            sources, config, self._core, self._ports, feed.informers, self._leadership, self._load
        )
        exposition.expose(
            config.gates, feed, self._core, self._api, self._leadership, self._reloader, self._load
        )
        questions = Questions(feed.inbox, share=questions_share)
        status = Status(
            self._core,
            questions,
            self._leadership,
            self._reloader,
            self._watchdog,
            self._recent,
            self._not_ready,
        )
        self._serving = Serving(
            port,
            self._api.http,
            feed.instrument,
            pages.probes(self._not_alive, self._not_ready, feed.metrics.render),
            {
                **pages.debug_pages(lambda: self._reloader.config, self._debugger),
                **pages.answer_pages(self._core, questions, lambda: self._leadership.leader),
                "/status": pages.status_page(status),
            },
        )

    def _lease(self, config: EffectiveConfig) -> tuple[tuple[str, str], str]:
        """Where the scheduler's Lease is, and what this process is called there."""
        settings = config.settings.leader_election
        where = settings.resource_namespace, settings.resource_name
        return where, self._leadership.identity or new_identity()

    def _improve(self) -> None:
        """From time to time: moves for Queues. What plans them is loaded once a Queue has any."""
        if self._self_improvement is None:
            queues = self._core.world.queues
            if not (queues.active and queues.structure.improving):
                return
            from bayplan.app.self_improvement import SelfImprovement  # noqa: PLC0415

            self._self_improvement = SelfImprovement(
                self._core, self._ports, self._improvement, self._application
            )
        self._self_improvement.look()

    def _application(
        self, plan: Plan, notes: Mapping[str, str], sleep: Callable[[float], None]
    ) -> Application:
        """Carries out a plan in the name of this process."""
        from bayplan.app.self_improvement import WAIT_SECONDS  # noqa: PLC0415
        from bayplan.improve.applying import Application  # noqa: PLC0415

        http, identity = self._api.http, self._improvement.identity
        hold = Hold(http, *self._improvement.where, identity, sleep=sleep, keeps=MOVED)
        return Application(http, hold, plan, WAIT_SECONDS, log.info, sleep=sleep, notes=notes)

    def run(self) -> None:
        """Schedule until SIGTERM or SIGINT."""
        self._collect_garbage()
        self._feed.informers.watch(self._registry.kinds(self._config))
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._handle_signals()
        self._deadline.start()
        self._watchdog.start()
        self._api.dispatcher.start()
        self._serving.start()
        if rival.is_possible(self._config):
            asks = threading.Thread(target=rival.warn, args=(self._api.http,), daemon=True)
            asks.start()
        log.info("Starting", **self._serving.ports, profiles=sorted(self._core.profiles))
        self._wait_for_caches()
        self._load.watch(self._core.profiles.sources())
        self._orders.start()
        gc.freeze()
        self._reloader.start()
        self._leadership.seek()
        self._scheduler.run()
        self._end()
        if self._stuck:
            sys.exit(1)

    def _wait_for_caches(self) -> None:
        while not self._scheduler.stopping and self._feed.informers.unsynced():
            self._scheduler.take_in(wait=True)
        self._scheduler.take_in(wait=False)
        log.info("Caches are filled", **self._core.world.cache.counts())
        rival.warn_of_releases(self._core.world.handlers.pods.values(), socket.gethostname())

    def _collect_garbage(self) -> None:
        """From now on, and without the code: it was loaded with the collector paused."""
        gc.freeze()
        gc.enable()

    def _end(self) -> None:
        answered_by = time.monotonic() + ANSWER_SECONDS
        self._api.dispatcher.end_bindings()
        self._scheduler.drain_bindings(LANDING_SECONDS)
        while self._api.dispatcher.is_binding() and time.monotonic() < answered_by:
            self._scheduler.take_in(wait=True)
        self._scheduler.take_in(wait=False)
        log.info("Ending", bindings_in_flight=self._scheduler.in_flight)
        if self._self_improvement is not None:
            self._self_improvement.stop(LANDING_SECONDS)
        self._feed.informers.stop()
        self._orders.stop()
        self._load.watch(())
        self._core.profiles.close()
        self._api.dispatcher.close(DRAIN_SECONDS)
        self._leadership.give_up()
        for pool in (self._ports.plugin_workers, self._ports.binding_workers):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        self._serving.stop()
        self._leave_threads_behind()

    def _leave_threads_behind(self) -> None:
        """Python would wait for plugins that are still running on our workers."""
        deadline = time.monotonic() + WORKER_SECONDS
        workers = [t for t in threading.enumerate() if t.name.startswith(("worker", "binder"))]
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        if any(worker.is_alive() for worker in workers):
            os._exit(1 if self._stuck else 0)

    # What others tell us, on their threads

    def _look(self) -> None:
        """From time to time, on the watchdog's thread."""
        self._deadline.rearm()
        self._recent.look()

    def _on_stuck(self, what: str, culprit: Culprit) -> None:
        """The scheduling thread is stuck: let another replica lead, and say with which Pod."""
        self._stuck = what
        log.error("The scheduler is stuck", why=what)
        if culprit.plugin and culprit.pod is not None:
            self._stuck_pods.mark(culprit.pod, culprit)
        if self._leadership.elector is not None:
            # Nothing is written any more without the Lease, and when it comes back, it ends.
            self._scheduler.stop()
            self._leadership.give_up()
            log.error("The Lease was given up")

    def _abandon(self) -> None:
        """We are to end, and the scheduling thread does not follow."""
        log.error("Ending without the scheduling thread, which does not return")
        self._scheduler.stop()
        self._api.dispatcher.end_bindings()
        self._leadership.give_up()
        self._api.dispatcher.close(LANDING_SECONDS)
        os._exit(1)

    def _lose(self) -> None:
        """The Lease is lost or was released."""
        if self._scheduler.stopping:
            return
        log.error("Leader election lost, ending at once")
        os._exit(1)

    # Signals

    def _handle_signals(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGUSR2, lambda *_: self._debugger.start())
        signal.signal(signal.SIGHUP, lambda *_: self._reloader.request())

    def _stop(self, number: int, _: object) -> None:
        self._watchdog.hear(bytes([number]))
        self._scheduler.stop()

    # Probes

    def _not_alive(self) -> list[str]:
        wrong = []
        if not self._api.dispatcher.alive:
            wrong.append("the thread that sends to the API server has ended")
        if self._stuck and (self._watchdog.stuck or self._leadership.elector is not None):
            wrong.append(self._stuck)
        return wrong

    def _not_ready(self) -> list[str]:
        if self._scheduler.stopping:
            return ["ending"]
        informers = self._feed.informers
        waiting = [f"{kind.name}: {why}" for kind, why in informers.unsynced().items()]
        broken = [f"{kind.name}: {error}" for kind, error in informers.errors().items()]
        lease = [f"Lease: {self._leadership.problem}"] if self._leadership.problem else []
        return sorted({*waiting, *broken, *lease})
