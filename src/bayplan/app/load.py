"""LoadFeeds: threads that ask for the measured load and prices of nodes, one for each source.

A thread posts what its source says to the inbox; the scheduling thread writes it to the column
(`bayplan.cache.node_load`, `bayplan.cache.node_price`). While a source does not answer, its samples
grow old. Scheduling goes on whatever a source does: requests have time limits, and every fault is
counted, and logged when it begins and when it ends.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from bayplan.cache.node_load import STALE_SECONDS, Capacity, NodeLoads, Readings, Written
from bayplan.cache.node_price import NodePrices, PriceRule
from bayplan.cache.node_table import LiveNodeTable
from bayplan.client.http import Http
from bayplan.client.load_sources import LoadReader, PriceReader
from bayplan.config.args import LoadSource, PriceSource
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Command
from bayplan.support.text import error_text

log = structlog.get_logger("load")

POLL_SECONDS = 30.0
"""How often a source is asked, as in scheduler-plugins."""
TIMEOUT_SECONDS = 10.0
"""How long all requests of one look may take together."""
_FAULTS = ("invalid", "stale", "unknown node")


T = TypeVar("T")
S = TypeVar("S", bound=LoadSource | PriceSource)


class Feed(ABC, Generic[S, T]):
    """One source and its thread.

    Attributes:
        source: what is asked.
        polls: how often it answered (``success``) or did not (``failure``).
        samples: what became of samples, see `bayplan.cache.node_load.Written`.
        newest: when the newest sample that was used was measured, seconds since the epoch.
        nodes: how many nodes have a sample.
        what: the source is asked for.
    """

    what: ClassVar[str]

    def __init__(
        self,
        source: S,
        http: Http,
        inbox: Inbox,
        nodes: LiveNodeTable,
        now: Callable[[], float],
        interval: float,
    ) -> None:
        self.source = source
        self.polls: Counter[str] = Counter(success=0, failure=0)
        self.samples: Counter[str] = Counter(dict.fromkeys(("used", *_FAULTS), 0))
        self.newest = 0.0
        self.nodes = 0
        self._http = http
        self._inbox, self._table, self._now = inbox, nodes, now
        self._interval = interval
        self._failing = ""
        self._faults: set[str] = set()
        self._ended = threading.Event()
        self._read = self._reader()
        threading.Thread(target=self._run, name="load", daemon=True).start()

    @abstractmethod
    def _reader(self) -> Callable[[], T]:
        """What asks the source, in the thread."""

    @abstractmethod
    def arrive(self, readings: T | None) -> None:
        """Write ``readings``; None: only forget what is too old. Scheduling thread only."""

    @abstractmethod
    def end(self) -> None:
        """Forget what the source has said. Scheduling thread only."""

    def close(self) -> None:
        """Ask no more; returns at once."""
        self._ended.set()
        self._inbox.post(LoadEnded(self))

    def _run(self) -> None:
        while not self._ended.is_set():
            readings = self._poll()
            if not self._ended.is_set():
                self._inbox.post(LoadArrived(self, readings))
            self._ended.wait(self._interval)

    def _poll(self) -> T | None:
        try:
            readings = self._read()
        except Exception as error:  # noqa: BLE001 - the thread goes on whatever a source says
            self.polls["failure"] += 1
            text = error_text(error)
            if not self._failing:
                log.warning(
                    f"{self.what} of nodes cannot be read", source=str(self.source), error=text
                )
            self._failing = text
            return None
        self.polls["success"] += 1
        if self._failing:
            log.info(f"{self.what} of nodes can be read again", source=str(self.source))
        self._failing = ""
        return readings


class LoadFeed(Feed[LoadSource, Readings]):
    """A source of measured load."""

    what = "Load"

    def _reader(self) -> Callable[[], Readings]:
        reader = LoadReader(self.source, self._http)
        return lambda: reader.read(TIMEOUT_SECONDS, self._now())

    def arrive(self, readings: Readings | None) -> None:
        """Write ``readings``; None: only forget old samples. Scheduling thread only."""
        self._table.ensure_column(Capacity)
        column = self._table.ensure_column(NodeLoads)
        if readings is None:
            column[self.source].forget_stale(self._now())
        else:
            self._report(column.write(self.source, readings, self._table, self._now()))
        self.nodes, self.newest = column.known(self.source), column.newest(self.source)

    def end(self) -> None:
        """Forget what the source has said. Scheduling thread only."""
        self._table.ensure_column(NodeLoads).forget(self.source)

    def _report(self, written: Written) -> None:
        self.samples.update(written.counts)
        for fault in _FAULTS:
            examples = written.examples.get(fault)
            if examples and fault not in self._faults:
                count = written.counts[fault]
                text = "Samples of the load of nodes are not used"
                source = str(self.source)
                log.warning(text, source=source, why=fault, count=count, nodes=examples)
        self._faults = set(written.examples)


class PriceFeed(Feed[PriceSource, dict[str, float]]):
    """A source of prices; what is no price is named by the plugin."""

    what = "Prices"

    def _reader(self) -> Callable[[], dict[str, float]]:
        reader = PriceReader(self.source)
        return lambda: reader.read(TIMEOUT_SECONDS)

    def arrive(self, readings: dict[str, float] | None) -> None:
        """Write ``readings``; None: forget all if the last ones are too old."""
        if readings is not None:
            self.newest = self._now()
        elif self._now() - self.newest <= STALE_SECONDS:
            return
        written = self._write(readings or {})
        self.samples.update(written)
        self.nodes = written["used"]

    def end(self) -> None:
        """Forget what the source has said. Scheduling thread only."""
        self._write({})

    def _write(self, prices: dict[str, float]) -> Counter[str]:
        rule, column = PriceRule(source=self.source), self._table.ensure_column(NodePrices)
        column.follow(rule, self._table)
        return column.write(rule, prices, self._table)


AnyFeed = LoadFeed | PriceFeed


@dataclass(frozen=True)
class LoadArrived(Command):
    """What a source says; None if the source did not answer."""

    feed: Feed[Any, Any]
    readings: Any

    def run(self) -> None:
        """See `Feed.arrive`."""
        self.feed.arrive(self.readings)


@dataclass(frozen=True)
class LoadEnded(Command):
    """The source is not asked any more."""

    feed: Feed[Any, Any]

    def run(self) -> None:
        """See `Feed.end`."""
        self.feed.end()


class LoadFeeds:
    """The feeds of all sources that the profiles name.

    Args:
        http: calls to the API server, for metrics.k8s.io.
        interval: seconds between two looks.
    """

    def __init__(
        self,
        http: Http,
        inbox: Inbox,
        nodes: LiveNodeTable,
        now: Callable[[], float] = time.time,
        interval: float = POLL_SECONDS,
    ) -> None:
        self._shared = http, inbox, nodes, now, interval
        self._feeds: dict[LoadSource | PriceSource, AnyFeed] = {}

    def _make(self, source: LoadSource | PriceSource) -> AnyFeed:
        if isinstance(source, PriceSource):
            return PriceFeed(source, *self._shared)
        return LoadFeed(source, *self._shared)

    def watch(self, sources: Iterable[LoadSource | PriceSource]) -> None:
        """Ask exactly ``sources`` from now on; feeds of previous ones go on undisturbed."""
        wanted = dict.fromkeys(sources)
        previous = self._feeds
        self._feeds = {source: previous.get(source) or self._make(source) for source in wanted}
        for source in previous.keys() - wanted.keys():
            previous[source].close()

    def all(self) -> list[AnyFeed]:
        """Every feed."""
        return list(self._feeds.values())
