"""Debugger: the cache and the queue, and how they compare with a fresh list.

On SIGUSR2 they are logged; ``/debug/dump`` shows the same lines.

Answers to kube-scheduler's ``pkg/scheduler/backend/cache/debugger``. It also recounts every column
and counter, which must equal what was kept up to date incrementally.

A separate thread lists the objects from the API server, so scheduling continues. The comparison
runs on the scheduling thread, because only that thread may read cache and queue.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import structlog

from bayplan.api.kinds import NODE, POD
from bayplan.api.lists import ObjectList, PartialMetadata, PartialObject
from bayplan.app.assembly import Core
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Command
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod

log = structlog.get_logger("debugger")

COMPARISON = "Comparison with the API server"
COMPARISON_FAILED = f"{COMPARISON} failed"
_NOT_ENDED = quote(POD.field_selector, safe="")


@dataclass(frozen=True)
class ListedNames:
    """What the API server has: names of nodes, uids of Pods that have not ended."""

    nodes: frozenset[str]
    pods: frozenset[str]


class Line(NamedTuple):
    """One line of a dump, as it is logged."""

    event: str
    fields: dict[str, Any]


class Debugger:
    """Looks at one scheduler's memory.

    All but `start`, `report` and `listed` on the scheduling thread.
    """

    def __init__(self, core: Core, http: Http, inbox: Inbox) -> None:
        self._core = core
        self._http = http
        self._inbox = inbox

    def start(self) -> threading.Thread:
        """Have everything logged. Any thread, also a signal handler; does not wait.

        Returns:
            The thread that asks the API server.
        """
        self._inbox.post(Dump(self))
        thread = threading.Thread(target=self._list_and_post, name="debugger", daemon=True)
        thread.start()
        return thread

    def _list_and_post(self) -> None:
        try:
            self._inbox.post(Compare(self, self.listed()))
        except ApiError as exc:
            log.warning(COMPARISON_FAILED, error=str(exc))

    def report(self, seconds: float) -> list[Line]:
        """All lines of a dump. Waits for the scheduling thread, so call it on any other thread.

        Raises:
            concurrent.futures.TimeoutError: that thread did not come to it in ``seconds``.
        """
        listed: ListedNames | ApiError
        try:
            listed = self.listed()
        except ApiError as error:
            listed = error
        wanted = DumpCommand(self, listed)
        self._inbox.post(wanted)
        return wanted.done.result(seconds)

    def listed(self) -> ListedNames:
        """Ask the API server; any thread but the scheduling one, since this takes a while.

        Raises:
            ApiError: it does not answer.
        """
        nodes = self._items(NODE.path())
        pods = self._items(f"{POD.path()}?fieldSelector={_NOT_ENDED}")
        return ListedNames(frozenset(n.name for n in nodes), frozenset(p.uid for p in pods))

    def _items(self, path: str) -> list[PartialMetadata]:
        listed = msgspec.json.decode(self._http.get(path), type=ObjectList[PartialObject])
        return [item.metadata for item in listed.items or ()]

    def lines(self) -> Iterator[Line]:
        """What is held, and what of it differs from a recount."""
        for node in self._core.world.cache.nodes:
            pods = [p.key for p in node.pods]
            yield Line("Node in cache", {"node": node.name, "row": node.row, "pods": pods})
        for state, queued in self._core.world.queue.pending_pods().items():
            for pod in queued:
                if isinstance(pod, QueuedGroup):
                    yield Line("Group in queue", _about_group(pod, state.value))
                    continue
                about = {"pod": pod.pod.key, "state": state.value, **_about(pod)}
                yield Line("Pod in queue", about)
        for waiting in self._core.world.waiting:
            about = {"pod": waiting.pod.key, "node": waiting.node_name}
            about["plugins"] = waiting.pending_plugins()
            yield Line("Pod waits in Permit", about)
        yield Line("Recount", self.recount())

    def recount(self) -> dict[str, Any]:
        """The differences between columns, counters and sums of plugins and a recount."""
        services = [framework.services for framework in self._core.profiles.values()]
        return {
            "columns": self._core.world.cache.nodes.recount(),
            "counters": self._core.world.counters.recount(),
            "queues": self._core.world.queues.recount(),
            **{name: recount() for s in services for name, recount in s.recounts.items()},
        }

    def compare(self, listed: ListedNames) -> dict[str, list[str]]:
        """Nodes and Pods that only one side has. A change under way shows here, too."""
        nodes = self._core.world.cache.node_names()
        pods = {p.uid for p in self._core.world.handlers.pods.values()}
        return {
            "missing nodes": sorted(listed.nodes - nodes),
            "surplus nodes": sorted(nodes - listed.nodes),
            "missing pods": sorted(listed.pods - pods),
            "surplus pods": sorted(pods - listed.pods),
        }


def _about_group(group: QueuedGroup, state: str) -> dict[str, Any]:
    members = [queued.pod.key for queued in group.members.values()]
    about = {"group": group.key, "state": state, "members": members, **_about(group)}
    return {**about, "message": group.last_report} if group.last_report else about


def _about(queued: QueuedPod) -> dict[str, Any]:
    about: dict[str, Any] = {"attempts": queued.attempts}
    if queued.rejectors:
        about["rejected_by"] = sorted(queued.rejectors)
    if queued.gating_plugin:
        about["held_by"] = f"{queued.gating_plugin}: {queued.gating_reason}"
    return about


@dataclass(frozen=True)
class Dump(Command):
    """SIGUSR2: log cache and queue."""

    debugger: Debugger = field(repr=False)

    def run(self) -> None:
        """See `Debugger.lines`."""
        for line in self.debugger.lines():
            log.info(line.event, **line.fields)


@dataclass(frozen=True)
class Compare(Command):
    """SIGUSR2: what the API server has, to be compared with the cache."""

    debugger: Debugger = field(repr=False)
    listed: ListedNames = field(repr=False)

    def run(self) -> None:
        """See `Debugger.compare`."""
        log.info(COMPARISON, **self.debugger.compare(self.listed))


@dataclass(frozen=True)
class DumpCommand(Command):
    """/debug/dump: every line of a dump, for the thread that answers."""

    debugger: Debugger = field(repr=False)
    listed: ListedNames | ApiError = field(repr=False)
    done: Future[list[Line]] = field(default_factory=Future, repr=False)

    def run(self) -> None:
        """The lines, or why there are none, are in `done`."""
        try:
            lines = list(self.debugger.lines())
            lines.append(
                Line(COMPARISON_FAILED, {"error": str(self.listed)})
                if isinstance(self.listed, ApiError)
                else Line(COMPARISON, self.debugger.compare(self.listed))
            )
            self.done.set_result(lines)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self.done.set_exception(error)
