"""What is done about a Pod that a plugin does not return for."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from tests.core_harness import Cluster

from bayplan.app.culprit import Culprit
from bayplan.app.stuck_pods import StuckPods
from bayplan.client.errors import Unreachable
from bayplan.client.http import Http
from bayplan.config.points import Point
from bayplan.engine.faults import PLUGIN_TIMEOUT
from bayplan.queue.states import QueueState
from bayplan.report.pods import Report
from bayplan.testing import make_node, make_pod


class Server:
    """Keeps the patches."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.patches: list[tuple[str, Any]] = []

    def patch(self, path: str, body: bytes, content_type: str, timeout: float) -> bytes:
        if self.error is not None:
            raise self.error
        self.patches.append((path, json.loads(body)))
        return b"{}"


def stuck_pods(cluster: Cluster, server: Server, *, may_write: bool = True) -> StuckPods:
    ports = cluster.ports
    report = Report(ports.events, ports.statuses)
    http = cast("Http", server)
    return StuckPods(cluster.queue, report, ports.inbox, http, 30.0, lambda: may_write)


def test_the_condition_that_the_next_leader_looks_for_is_written() -> None:
    server, cluster, pod = Server(), Cluster(bare=True), make_pod("poison").uid("u").obj()
    stuck_pods(cluster, server).mark(pod, Culprit("Endless", Point.FILTER, pod, ""))
    [(path, body)] = server.patches
    assert path == "/api/v1/namespaces/default/pods/poison/status"
    assert body["metadata"]["uid"] == "u", "no other Pod of that name is marked"
    [condition] = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == PLUGIN_TIMEOUT
    text = 'running Filter plugin "Endless": has not returned for 30 s'
    assert condition["message"] == text
    assert cluster.notes == [("FailedScheduling", text)]


@pytest.mark.parametrize("error", [None, Unreachable("no")])
def test_a_scheduler_that_may_not_write_or_cannot_goes_on(error: Exception | None) -> None:
    server, pod = Server(error), make_pod("poison").obj()
    pods = stuck_pods(Cluster(bare=True), server, may_write=error is not None)
    pods.mark(pod, Culprit("Endless", Point.FILTER, pod, ""))
    assert server.patches == []


def test_a_pod_that_a_pre_enqueue_plugin_did_not_return_for_is_told() -> None:
    cluster = Cluster(bare=True)
    cluster.add(make_node("n").capacity(cpu="1", pods=9), make_pod("poison"))
    queued = next(iter(cluster.queue.waiting_pods()))
    pods = stuck_pods(cluster, Server())
    pods.ended(Culprit("Endless", Point.PRE_ENQUEUE, queued, ""))
    cluster.take_in()
    text = 'running PreEnqueue plugin "Endless": has not returned for 30 s'
    assert cluster.verdict == (PLUGIN_TIMEOUT, text)
    assert cluster.notes[-1] == ("FailedScheduling", text)
    assert cluster.state("poison") is QueueState.GATED
    cluster.run()
    assert cluster.bound == []
