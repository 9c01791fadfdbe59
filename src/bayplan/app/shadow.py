"""ShadowProcess: a shadow of a real cluster, from start to end.

A `Follower` whose messages go through a `Shadow`, and what it has found on two ports: probes and
metrics for the cluster, without names of Pods and nodes; the pages with them on the loopback
address, where ``kubectl port-forward`` reaches them. So nobody's access has to be reviewed, which
would be a write: the process asks the API server for lists and watches, and for nothing else.
"""

from __future__ import annotations

import gc
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from bayplan.app import exposition, pages
from bayplan.app.follow import Follower
from bayplan.app.questions import BusyError, Questions
from bayplan.explain.why import Why
from bayplan.inbox.messages import Changed, Command, Removed, Replaced, WakeUp
from bayplan.measures import measures_of
from bayplan.server.options import PortError
from bayplan.server.pages import HTML, JSON, Answer, Page, PageRequest, Pages, text
from bayplan.server.port import Port
from bayplan.shadow import page
from bayplan.shadow.follows import Follows
from bayplan.shadow.report import answer, report
from bayplan.shadow.shadow import Settings, Shadow
from bayplan.shadow.tally import Tally
from bayplan.telemetry import polled

log = structlog.get_logger("shadow")

IDLE_SECONDS = 1.0
MEASURE_SECONDS = 60.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ShadowOptions:
    """How a shadow runs.

    Attributes:
        settings: how far it stays behind.
        remembered: how many verdicts it keeps.
        port: of the pages, on the loopback address; 0 for one that is free.
        metrics_port: of probes and metrics; 0 for none.
        bind_address: of the metrics port; empty for all.
    """

    settings: Settings
    remembered: int
    port: int
    metrics_port: int
    bind_address: str


class ShadowProcess:
    """One shadow.

    Args:
        follower: what is known of the cluster; its profiles are those that judge.
        follows: whose Pods are judged.
        options: how.

    Raises:
        PortError: a port cannot be used.
    """

    def __init__(self, follower: Follower, follows: Follows, options: ShadowOptions) -> None:
        self._follower, self._feed, self._core = follower, follower.feed, follower.core
        self._stopping = False
        self._filled = False
        self._next_measure = 0.0
        core = self._core
        self.shadow = Shadow(
            core.world,
            core.profiles,
            core.placers,
            follows,
            Tally(options.remembered, time.time),
            options.settings,
        )
        self._questions = Questions(self._feed.inbox)
        self._expose()
        probes = pages.probes(self._not_alive, self._not_ready, self._feed.metrics.render)
        self._ports = {"port": Port(LOOPBACK, options.port, {**probes, **self._pages()})}
        if options.metrics_port:
            try:
                port = Port(options.bind_address, options.metrics_port, probes)
            except PortError:
                self._ports["port"].close()
                raise
            self._ports["metrics_port"] = port

    def run(self) -> None:
        """Follow until SIGTERM or SIGINT.

        Raises:
            ApiError: a kind that is needed may not be read.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for port in self._ports.values():
            port.start()
        self._follower.fill()
        gc.collect()
        gc.freeze()
        self.shadow.begin()
        self._filled = True
        ports = {name: port.port for name, port in self._ports.items()}
        log.info("Following", scheduler=self.shadow.follows.scheduler, **ports)
        while not self._stopping:
            self._turn()
        self._feed.informers.stop()
        for port in self._ports.values():
            port.stop()
        tally = self.shadow.tally
        log.info("Ended", compared=tally.compared, agreed=tally.agreed)

    def _turn(self) -> None:
        """Take in what has come, and one message that is due."""
        due = self.shadow.next_in()
        for message in self._feed.inbox.drain(IDLE_SECONDS if due is None else min(due, 1.0)):
            match message:
                case Changed() | Removed() | Replaced():
                    self.shadow.take(message)
                case Command():
                    message.run()
                case WakeUp():
                    pass
        if self.shadow.next_in() == 0.0:
            self.shadow.step()
        if time.monotonic() >= self._next_measure:
            self._next_measure = time.monotonic() + MEASURE_SECONDS
            cache = self._core.world.cache
            self.shadow.tally.measure(measures_of(cache.nodes, cache.pods()))

    def _stop(self, *_: object) -> None:
        self._stopping = True
        self._feed.inbox.post(WakeUp())

    # Probes and metrics

    def _not_alive(self) -> list[str]:
        return []

    def _not_ready(self) -> list[str]:
        trouble = self._follower.trouble()
        waiting = [] if self._filled else ["the first lists are not there yet"]
        return [*waiting, *([trouble] if trouble else [])]

    def _expose(self) -> None:
        metrics, tally = self._feed.metrics, self.shadow.tally

        def by_plugin() -> dict[tuple[str, ...], float]:
            return {
                (name, because): getattr(of, because)
                for name, of in dict(tally.plugins).items()
                for because in ("prefers", "rejects")
            }

        def counted(counter: Counter[Any]) -> dict[str, float]:
            return {str(name): number for name, number in counter.copy().items()}

        exposition.expose_world(metrics, self._core.world, self._core.scheduler.pulse)
        exposition.expose_informers(metrics, self._feed.informers)
        metrics.poll_by(polled.SHADOW_DECISIONS, lambda: counted(tally.outcomes))
        metrics.poll_by(polled.SHADOW_NOT_COMPARED, lambda: counted(tally.not_compared))
        metrics.poll(polled.SHADOW_DIFFERENCES, by_plugin)
        metrics.poll(polled.SHADOW_BEHIND, lambda: {(): self.shadow.behind})

    # Pages

    def _pages(self) -> Pages:
        return {
            "/": Page(lambda _: self._asked(self._report, page.render, HTML)),
            "/report": Page(lambda _: self._asked(self._report, msgspec.json.encode, JSON)),
            "/why": Page(self._why),
        }

    def _report(self) -> dict[str, Any]:
        return report(self.shadow, time.time())

    def _why(self, request: PageRequest) -> Answer:
        namespace, name = request.query.get("namespace", ""), request.query.get("pod", "")
        if not namespace or not name:
            return text(400, "namespace and pod are needed")

        def answered() -> dict[str, Any] | None:
            verdicts = self.shadow.tally.of_pod(f"{namespace}/{name}")
            if verdicts:
                return answer(verdicts)
            core = self._core
            who = Why(core.world, core.profiles, core.placers, core.records, names=True)
            return who.of_pod(namespace, name)

        return self._asked(answered, msgspec.json.encode, JSON)

    def _asked(
        self,
        question: Callable[[], dict[str, Any] | None],
        encode: Callable[[Any], bytes],
        content_type: str,
    ) -> Answer:
        try:
            found = self._questions.ask(question)
        except (BusyError, FutureTimeoutError) as error:
            return text(429, str(error))
        if found is None:
            return text(404, "there is no such Pod, and no decision about it is remembered")
        return Answer(200, encode(found), content_type)
