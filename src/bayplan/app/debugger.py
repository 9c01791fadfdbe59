"""Debugger: on SIGUSR2, log the cache and the queue, and compare them with a fresh list.

Answers to kube-scheduler's ``pkg/scheduler/backend/cache/debugger``. It also recounts every column
and counter, which must equal what was kept up to date incrementally.
"""

from __future__ import annotations

from typing import Any

import msgspec
import structlog

from bayplan.api.kinds import NODE, POD
from bayplan.client.errors import ApiError
from bayplan.client.http import Http

log = structlog.get_logger("debugger")


class _Meta(msgspec.Struct):
    name: str
    uid: str = ""


class _Item(msgspec.Struct):
    metadata: _Meta


class _List(msgspec.Struct):
    items: list[_Item]


class Debugger:
    """Looks at one scheduler's memory. Scheduling thread only."""

    def __init__(self, core: Any, http: Http) -> None:
        self._core = core
        self._http = http

    def dump(self) -> None:
        """Log what is held and what of it is wrong."""
        for node in self._core.cache.nodes:
            pods = [p.key for p in node.pods]
            log.info("Node in cache", node=node.name, row=node.row, pods=pods)
        for place, queued in self._core.queue.pending_pods().items():
            for pod in queued:
                log.info("Pod in queue", pod=pod.pod.key, place=place.value, attempts=pod.attempts)
        log.info("Recount", **self.recount())
        try:
            log.info("Comparison with the API server", **self.compare())
        except ApiError as exc:
            log.warning("Comparison with the API server failed", error=str(exc))

    def recount(self) -> dict[str, Any]:
        """What differs between columns and counters as kept and as counted afresh."""
        return {
            "columns": self._core.cache.nodes.recount(),
            "counters": self._core.counters.recount(),
        }

    def compare(self) -> dict[str, list[str]]:
        """Nodes and Pods that only one side knows. A change under way shows here, too."""
        nodes = {i.metadata.name for i in self._list(NODE.path).items}
        known_nodes = {n for n in self._core.cache.nodes.names if n}
        pods = {i.metadata.uid for i in self._list(f"{POD.path}?fieldSelector={_RUNNING}").items}
        known_pods = {p.uid for p in self._core.handlers.pods.values()}
        return {
            "missing nodes": sorted(nodes - known_nodes),
            "surplus nodes": sorted(known_nodes - nodes),
            "missing pods": sorted(pods - known_pods),
            "surplus pods": sorted(known_pods - pods),
        }

    def _list(self, path: str) -> _List:
        return msgspec.json.decode(self._http.get(path), type=_List)


_RUNNING = "status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
