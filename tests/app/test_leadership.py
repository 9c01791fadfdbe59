"""Who may schedule: everybody without leader election, else the holder of the Lease."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.client.fault_server import Exchange, FaultServer
from tests.kubeconfig import write_kubeconfig
from tests.waiting import SOON

from bayplan.app.api_client import ApiClient
from bayplan.app.feed import Feed
from bayplan.app.leadership import Leadership
from bayplan.config import EffectiveConfig, parse_config
from bayplan.engine.registry import Registry
from bayplan.inbox.messages import Lead

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: {elect}, leaseDuration: 600s, renewDeadline: 500s}}
"""


def config(elect: str) -> EffectiveConfig:
    return parse_config(CONFIG.format(elect=elect), Registry().known)


@pytest.fixture
def feed(server: FaultServer, tmp_path: Path) -> Feed:
    return Feed(write_kubeconfig(tmp_path, server.url))


class LeaseServer:
    """Keeps one Lease, and the events about it."""

    def __init__(self, server: FaultServer) -> None:
        self.lease: dict[str, Any] | None = None
        self.event: dict[str, Any] = {}
        self.told = Event()
        server.script = self.serve

    def serve(self, exchange: Exchange) -> None:
        if exchange.bare_path.endswith("/events"):
            self.event = exchange.json()
            exchange.answer(201, self.event)
            self.told.set()
        elif exchange.command != "GET":
            self.lease = exchange.json()
            self.lease["metadata"] |= {"uid": "lease-uid", "resourceVersion": "1"}
            exchange.answer(200, self.lease)
        elif self.lease is None:
            exchange.error(404, "NotFound")
        else:
            exchange.answer(200, self.lease)


def test_without_leader_election_every_process_leads(server: FaultServer, feed: Feed) -> None:
    settings = config("false")
    api = ApiClient(settings, feed, lambda: True)
    leadership = Leadership(settings, api, feed.inbox, pytest.fail)
    assert leadership.may_write
    assert (leadership.problem, leadership.since, leadership.identity) == ("", "", "")
    leadership.seek()
    assert list(feed.inbox.drain(SOON)) == [Lead()]
    leadership.event("Warning", "Conflict", "about no Lease, so it is not recorded")
    leadership.give_up()
    assert server.requests == []


def test_with_leader_election_the_holder_leads_and_says_so(server: FaultServer, feed: Feed) -> None:
    kept, lost, settings = LeaseServer(server), Event(), config("true")
    api = ApiClient(settings, feed, lambda: leadership.may_write)
    leadership = Leadership(settings, api, feed.inbox, lost.set)
    may_write = [leadership.may_write]
    api.dispatcher.start()
    try:
        leadership.seek()
        assert list(feed.inbox.drain(SOON)) == [Lead()]
        may_write.append(leadership.may_write)
        assert kept.lease is not None
        spec = kept.lease["spec"]
        assert (leadership.leader, leadership.since) == (leadership.identity, spec["acquireTime"])
        assert kept.told.wait(SOON)
        assert kept.event["reason"] == "LeaderElection"
        assert kept.event["regarding"] == {
            "kind": "Lease",
            "namespace": "kube-system",
            "name": "kube-scheduler",
            "uid": "lease-uid",
            "apiVersion": "coordination.k8s.io/v1",
            "resourceVersion": "1",
        }
    finally:
        leadership.give_up()
        api.dispatcher.close(SOON)
    assert [*may_write, leadership.may_write] == [False, True, False]
    assert kept.lease is not None
    assert not kept.lease["spec"]["holderIdentity"]
    assert leadership.since == ""
    assert lost.wait(SOON)
