"""Debugger: on SIGUSR2, log the cache and the queue, and compare them with a fresh list.

Answers to kube-scheduler's ``pkg/scheduler/backend/cache/debugger``. It also recounts every column
and counter, which must equal what was kept up to date incrementally.

A separate thread lists the objects from the API server, so scheduling continues. The comparison
runs on the scheduling thread, because only that thread may read cache and queue.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from bayplan.api.kinds import NODE, POD
from bayplan.app.assembly import Core
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Command
from bayplan.queue.queued_pod import QueuedPod

log = structlog.get_logger("debugger")

_NOT_ENDED = quote(POD.field_selector, safe="")


class _Meta(msgspec.Struct):
    name: str
    uid: str = ""


class _Item(msgspec.Struct):
    metadata: _Meta


class _List(msgspec.Struct):
    items: list[_Item]


@dataclass(frozen=True)
class Listed:
    """What the API server has: names of nodes, uids of Pods that have not ended."""

    nodes: frozenset[str]
    pods: frozenset[str]


class Debugger:
    """Looks at one scheduler's memory; all but `start` and `listed` on the scheduling thread."""

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
            log.warning("Comparison with the API server failed", error=str(exc))

    def listed(self) -> Listed:
        """Ask the API server; any thread but the scheduling one, since this takes a while.

        Raises:
            ApiError: it does not answer.
        """
        nodes = self._items(NODE.path())
        pods = self._items(f"{POD.path()}?fieldSelector={_NOT_ENDED}")
        return Listed(frozenset(n.name for n in nodes), frozenset(p.uid for p in pods))

    def _items(self, path: str) -> list[_Meta]:
        listed = msgspec.json.decode(self._http.get(path), type=_List)
        return [item.metadata for item in listed.items]

    def dump(self) -> None:
        """Log what is held, and what of it differs from a recount."""
        for node in self._core.world.cache.nodes:
            pods = [p.key for p in node.pods]
            log.info("Node in cache", node=node.name, row=node.row, pods=pods)
        for place, queued in self._core.world.queue.pending_pods().items():
            for pod in queued:
                log.info("Pod in queue", pod=pod.pod.key, place=place.value, **_about(pod))
        for waiting in self._core.world.waiting:
            log.info(
                "Pod waits in Permit",
                pod=waiting.pod.key,
                node=waiting.node_name,
                plugins=waiting.pending_plugins(),
            )
        log.info("Recount", **self.recount())

    def recount(self) -> dict[str, Any]:
        """The differences between columns and counters and a recount."""
        return {
            "columns": self._core.world.cache.nodes.recount(),
            "counters": self._core.world.counters.recount(),
        }

    def compare(self, listed: Listed) -> dict[str, list[str]]:
        """Nodes and Pods that only one side has. A change under way shows here, too."""
        nodes = self._core.world.cache.node_names()
        pods = {p.uid for p in self._core.world.handlers.pods.values()}
        return {
            "missing nodes": sorted(listed.nodes - nodes),
            "surplus nodes": sorted(nodes - listed.nodes),
            "missing pods": sorted(listed.pods - pods),
            "surplus pods": sorted(pods - listed.pods),
        }


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
        """See `Debugger.dump`."""
        self.debugger.dump()


@dataclass(frozen=True)
class Compare(Command):
    """SIGUSR2: what the API server has, to be compared with the cache."""

    debugger: Debugger = field(repr=False)
    listed: Listed = field(repr=False)

    def run(self) -> None:
        """See `Debugger.compare`."""
        log.info("Comparison with the API server", **self.debugger.compare(self.listed))
