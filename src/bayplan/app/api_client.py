"""ApiClient: what a scheduler writes to the API server, and the ports made of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog

from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.app.assembly import Ports
from bayplan.app.feed import Feed
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.errors import ApiError, NotFound
from bayplan.client.event_recorder import EventRecorder
from bayplan.client.http import Http
from bayplan.client.lanes import Lanes
from bayplan.client.writer import Writer
from bayplan.config import EffectiveConfig
from bayplan.extenders.extenders import Extenders

log = structlog.get_logger("client")


class PodStatusWriter:
    """The scheduler's writes of conditions and nominations: sent later, trouble is logged."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        """See `bayplan.report.pods.StatusWriter`."""
        done = partial(_log_trouble, "Pod status not written", pod=pod.key)
        self._writer.patch_pod_status(pod, condition, nominated, done)

    def patch_group(self, pod_group: KubernetesPodGroup, condition: Condition) -> None:
        """See `bayplan.report.pods.StatusWriter`."""
        done = partial(_log_trouble, "PodGroup status not written", podGroup=pod_group.key)
        self._writer.patch_group_status(pod_group, condition, done)


def _log_trouble(text: str, error: ApiError | None, **about: str) -> None:
    if error is not None and not isinstance(error, NotFound):
        log.warning(text, **about, error=str(error))


class ApiClient:
    """Plain calls, and the dispatcher with its users.

    Args:
        may_write: asked before each write that goes through the dispatcher.

    Attributes:
        http: calls that wait.
        dispatcher: sends bindings, conditions and events.
        events: records events.
    """

    def __init__(self, config: EffectiveConfig, feed: Feed, may_write: Callable[[], bool]) -> None:
        limits = config.settings.client_connection
        self.http = Http(feed.connection)
        lanes = Lanes(qps=limits.qps, burst=limits.burst, may_send=may_write)
        self.dispatcher = Dispatcher(feed.connection, lanes)
        self.events = EventRecorder(self.dispatcher, config.profiles[0].scheduler_name)

    def ports(self, config: EffectiveConfig, feed: Feed) -> Ports:
        """The ports of a scheduler that runs against this API server."""
        writer = Writer(self.dispatcher, self.http)
        workers = ThreadPoolExecutor(config.settings.parallelism, thread_name_prefix="worker")
        return Ports(
            events=self.events,
            writer=writer,
            reader=writer,
            statuses=PodStatusWriter(writer),
            inbox=feed.inbox,
            instrument=feed.instrument,
            plugin_workers=workers,
            extenders=self._extenders(config) if config.settings.extenders else Extenders(),
        )

    def _extenders(self, config: EffectiveConfig) -> Extenders:
        from bayplan.extenders.full_objects import FullObjects  # noqa: PLC0415 - few have any
        from bayplan.extenders.http_extender import HttpExtender  # noqa: PLC0415

        objects = FullObjects(self.http)
        return Extenders(HttpExtender(e, objects) for e in config.settings.extenders)
