"""Process: the scheduler of a real cluster, from start to end.

It waits for the first lists of its feed, waits to lead, schedules, and ends in order: no new Pods,
bindings in flight finished or undone, the Lease given up. Losing the Lease ends it at once, since
two leaders would bind twice.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import structlog

from bayplan.api.pod import Pod, PodCondition
from bayplan.app import rival
from bayplan.app.assembly import Core, Surroundings
from bayplan.app.debugger import Debugger
from bayplan.app.exposition import expose_client, expose_election, expose_world
from bayplan.app.feed import Feed
from bayplan.app.watchdog import Watchdog
from bayplan.attempt.report import Report
from bayplan.binding.cycle import Binder
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.errors import ApiError, NotFound
from bayplan.client.event_recorder import EventRecorder, ObjectReference
from bayplan.client.http import Http
from bayplan.client.leader import LeaderElector, Lease, LeaseLock, new_identity
from bayplan.client.writer import Writer
from bayplan.config import EffectiveConfig
from bayplan.extenders.extenders import Extenders, HttpExtender
from bayplan.extenders.full_objects import FullObjects
from bayplan.framework.registry import Registry
from bayplan.inbox.messages import Activate, Lead
from bayplan.scheduler import Scheduler
from bayplan.server.server import HealthServer

log = structlog.get_logger("process")

SWITCH_INTERVAL = 0.0005
"""Seconds after which a busy thread lets another run. At Python's 5 ms the thread that sends
bindings waits for the scheduling thread at every step; see docs/performance.md."""
BINDING_WORKERS = 512
"""Most threads that prepare and bind Pods; made when needed. They are apart from those of blocking
plugins, since a PreBind plugin may wait for something that only the scheduling thread can see."""
LANDING_SECONDS = 2.0
"""How long requests that are under way may take once no further binding is sent."""
WORKER_SECONDS = 1.0
"""How long plugins on worker threads may take to return when everything else has ended."""
DRAIN_SECONDS = 5.0
"""How long events and conditions may take to be written when the process ends."""


class PodStatusWriter:
    """The scheduler's writes of conditions and nominations: sent later, trouble is logged."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def patch(self, pod: Pod, condition: PodCondition | None, nominated: str | None) -> None:
        """See `bayplan.attempt.report.StatusWriter`."""

        def done(error: ApiError | None) -> None:
            if error is not None and not isinstance(error, NotFound):
                log.warning("Pod status not written", pod=pod.key, error=str(error))

        self._writer.patch_pod_status(pod, condition, nominated, done)


class Process:
    """One scheduler process.

    Raises:
        ConfigError: see `bayplan.app.assembly.Core`.
        PortError: the port cannot be used.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        registry: Registry,
        feed: Feed,
        port: int,
        watchdog_limit: float = 60.0,
    ) -> None:
        self._config = config
        client = config.config.client_connection
        connection = feed.connection
        self._http = Http(connection)
        self._dispatcher = Dispatcher(
            connection, qps=client.qps, burst=client.burst, may_send=self._may_write
        )
        self._inbox = feed.inbox
        self._informers = feed.informers
        self._kinds = registry.kinds(config)
        self._pool = ThreadPoolExecutor(config.config.parallelism, thread_name_prefix="worker")
        self._binders = ThreadPoolExecutor(BINDING_WORKERS, thread_name_prefix="binder")
        writer = Writer(self._dispatcher, self._http)
        events = EventRecorder(self._dispatcher, config.profiles[0].scheduler_name)
        self._events = events
        objects = FullObjects(self._http)
        extenders = Extenders(HttpExtender(e, objects) for e in config.config.extenders)
        self._metrics = feed.metrics
        around = Surroundings(
            events=events,
            client=writer,
            pool=self._pool,
            activate=self._activate,
            extenders=extenders,
        )
        self._core = core = Core(config, registry, around, self._metrics)
        self._scheduler = Scheduler(
            core.cache,
            core.queue,
            self._inbox,
            core.handlers,
            core.profiles,
            core.selector,
            Binder(
                self._binders, self._inbox, core.waiting, core.preparing, extenders, self._metrics
            ),
            Report(events, PodStatusWriter(writer)),
            self._metrics,
        )
        self._debugger = Debugger(core, self._http, self._inbox)
        self._stuck = ""
        pulse = self._scheduler.pulse
        self._watchdog = Watchdog(pulse, watchdog_limit, self._on_stuck, self._abandon)
        self._elector = self._make_elector()
        expose_world(self._metrics, core.queue, core.cache, core.waiting, pulse)
        expose_client(self._metrics, self._dispatcher, events, self._informers)
        if self._elector is not None:
            expose_election(self._metrics, self._elector)
        self._health = HealthServer(port, self._not_alive, self._not_ready, self._metrics.render)

    def run(self) -> None:
        """Schedule until SIGTERM or SIGINT."""
        self._informers.watch(self._kinds)
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._handle_signals()
        self._watchdog.start()
        self._dispatcher.start()
        self._health.start()
        if rival.is_possible(self._config):
            threading.Thread(
                target=rival.warn, args=(self._http,), name="rival", daemon=True
            ).start()
        log.info("Starting", port=self._health.port, profiles=sorted(self._core.profiles))
        self._wait_for_caches()
        self._freeze()
        if self._elector is not None:
            self._elector.start()
        else:
            self._scheduler.active = True
        self._scheduler.run()
        self._end()
        if self._stuck:
            sys.exit(1)

    def _wait_for_caches(self) -> None:
        while not self._scheduler.stopping and self._informers.unsynced():
            self._scheduler.take_in(wait=True)
        self._scheduler.take_in(wait=False)
        log.info("Caches are filled", **self._core.cache.counts())

    def _freeze(self) -> None:
        gc.collect()
        gc.freeze()

    def _end(self) -> None:
        self._dispatcher.end_bindings()
        self._scheduler.drain_bindings(LANDING_SECONDS)
        unfinished = self._scheduler.in_flight
        log.info("Ending", bindings_in_flight=unfinished)
        self._informers.stop()
        self._dispatcher.close(DRAIN_SECONDS)
        if self._elector is not None:
            self._elector.stop()
        for pool in (self._pool, self._binders):
            pool.shutdown(wait=False, cancel_futures=True)
        self._health.stop()
        self._leave_threads_behind()

    def _leave_threads_behind(self) -> None:
        """Python would wait for plugins that are still running on our workers."""
        deadline = time.monotonic() + WORKER_SECONDS
        workers = [t for t in threading.enumerate() if t.name.startswith(("worker", "binder"))]
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        if any(worker.is_alive() for worker in workers):
            os._exit(1 if self._stuck else 0)

    # What the watchdog does

    def _on_stuck(self, what: str) -> None:
        """The scheduling thread is stuck: let another replica lead. Watchdog's thread."""
        self._stuck = what
        log.error("The scheduler is stuck", why=what)
        if self._elector is not None:
            # Nothing is written any more without the Lease, and when it comes back, it ends.
            self._scheduler.stop()
            self._elector.stop()
            log.error("The Lease was given up")

    def _abandon(self) -> None:
        """We are to end, and the scheduling thread does not follow. Watchdog's thread."""
        log.error("Ending without the scheduling thread, which does not return")
        self._scheduler.stop()
        self._dispatcher.end_bindings()
        if self._elector is not None:
            self._elector.stop()
        self._dispatcher.close(LANDING_SECONDS)
        os._exit(0)

    # Signals

    def _handle_signals(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGUSR2, self._dump)

    def _stop(self, number: int, _: object) -> None:
        self._watchdog.hear(bytes([number]))
        self._scheduler.stop()

    def _dump(self, *_: object) -> None:
        self._debugger.start()

    # Leader election

    def _make_elector(self) -> LeaderElector | None:
        election = self._config.config.leader_election
        if not election.leader_elect:
            return None
        lock = LeaseLock(
            election.resource_name,
            election.resource_namespace,
            election.lease_duration,
            election.renew_deadline,
            election.retry_period,
        )
        return LeaderElector(
            self._http,
            lock,
            new_identity(),
            on_started=lambda: self._inbox.post(Lead()),
            on_stopped=self._lose,
            on_new_leader=lambda who: log.info("New leader", leader=who),
            record=self._record_election,
        )

    def _record_election(self, lease: Lease, note: str) -> None:
        meta = lease["metadata"]
        about = ObjectReference(
            "Lease",
            meta["namespace"],
            meta["name"],
            meta["uid"],
            "coordination.k8s.io/v1",
            meta["resourceVersion"],
        )
        self._events.event(about, None, "Normal", "LeaderElection", "LeaderElection", note)

    def _may_write(self) -> bool:
        """Not when the Lease has run out and nobody has noticed yet, as after a long sleep."""
        return self._elector is None or self._elector.is_leader

    def _lose(self) -> None:
        if self._scheduler.stopping:
            return
        log.error("Leader election lost, ending at once")
        os._exit(1)

    # Probes and metrics

    def _not_alive(self) -> list[str]:
        wrong = []
        if not self._dispatcher.alive:
            wrong.append("the thread that sends to the API server has ended")
        if self._stuck and (self._watchdog.stuck or self._elector is not None):
            wrong.append(self._stuck)
        return wrong

    def _not_ready(self) -> list[str]:
        if self._scheduler.stopping:
            return ["ending"]
        waiting = [f"{kind.name}: {why}" for kind, why in self._informers.unsynced().items()]
        broken = [f"{kind.name}: {error}" for kind, error in self._informers.errors().items()]
        lease = self._elector.problem if self._elector is not None else ""
        return sorted({*waiting, *broken, *([f"Lease: {lease}"] if lease else [])})

    def _activate(self, pods: Iterable[Pod]) -> None:
        self._inbox.post(Activate(tuple(pods)))
