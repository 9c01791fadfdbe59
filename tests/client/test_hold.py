"""One process at a time applies a plan, and what it leaves behind is taken over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.client.fault_server import FaultServer
from tests.client.test_leader import LeaseServer

from bayplan.client.hold import HeldError, Hold
from bayplan.client.http import Http

NOW = datetime(2026, 1, 2, 3, 4, 20, tzinfo=UTC)
FRESH, OLD = "2026-01-02T03:04:10.000000Z", "2026-01-02T03:00:00.000000Z"


@pytest.fixture
def lease(server: FaultServer) -> LeaseServer:
    return LeaseServer(server)


class Seconds:
    """A clock that goes on by ten seconds whenever it is read."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 10
        return self.time


def hold(server: FaultServer, identity: str = "me", keeps: str = "") -> Hold:
    http = Http(server.connection(), max_tries=1)
    times: dict[str, Any] = {"clock": Seconds(), "now": lambda: NOW, "sleep": lambda _: None}
    return Hold(http, "kube-system", "moves", identity, keeps=keeps, **times)


def test_nobody_has_it(server: FaultServer, lease: LeaseServer) -> None:
    mine = hold(server)
    mine.acquire({"order": "1"})
    assert lease.holder == "me"
    assert mine.annotations() == {"order": "1"}
    mine.annotate("order", "2")
    assert mine.annotations() == {"order": "2"}
    mine.give_up()
    assert lease.holder == ""
    assert lease.held["metadata"]["annotations"] == {}


def test_an_annotation_stays_from_one_to_the_next(server: FaultServer, lease: LeaseServer) -> None:
    for note, kept in (
        ({"note": "1"}, {"note": "1"}),
        ({}, {"note": "1"}),
        ({"note": "2"}, {"note": "2"}),
    ):
        mine = hold(server, keeps="note")
        mine.acquire({"order": "1", **note})
        assert mine.annotations() == {"order": "1", **kept}
        mine.give_up()
        assert lease.held["metadata"]["annotations"] == kept


def test_a_second_one_is_refused_while_the_first_renews(
    server: FaultServer, lease: LeaseServer
) -> None:
    lease.hold("other", acquireTime=FRESH, renewTime=FRESH)
    with pytest.raises(HeldError, match=f"other applies a plan, since {FRESH}"):
        hold(server).acquire({})
    assert lease.holder == "other"


@pytest.mark.parametrize("spec", [{"renewTime": OLD}, {}, {"renewTime": "soon"}])
def test_one_left_behind_is_taken_over(
    server: FaultServer, lease: LeaseServer, spec: dict[str, Any]
) -> None:
    lease.hold("killed", seconds=15, **spec)
    lease.held["metadata"]["annotations"] = {"order": "old", "answer": "old"}
    mine = hold(server)
    mine.acquire({"order": "new"})
    assert lease.holder == "me"
    assert lease.held["metadata"]["annotations"] == {"order": "new"}
    mine.give_up()


def test_another_writer_at_the_same_time_loses_nothing(
    server: FaultServer, lease: LeaseServer
) -> None:
    mine = hold(server)
    mine.acquire({"order": "1"})
    read = lease.read

    def meanwhile(exchange: Any) -> None:
        read(exchange)
        lease.read = read  # type: ignore[method-assign]
        version = int(lease.held["metadata"]["resourceVersion"]) + 1
        annotations = lease.held["metadata"]["annotations"] | {"answer": "1"}
        meta = lease.held["metadata"] | {"annotations": annotations}
        lease.lease = lease.held | {"metadata": meta | {"resourceVersion": str(version)}}

    lease.read = meanwhile  # type: ignore[method-assign]
    mine.annotate("order", "2")
    assert mine.annotations() == {"order": "2", "answer": "1"}
    mine.give_up()


@pytest.mark.parametrize("holder", ["", "other"])
def test_a_lost_lease_is_said(server: FaultServer, lease: LeaseServer, holder: str) -> None:
    mine = hold(server)
    mine.acquire({})
    lease.hold(holder)
    with pytest.raises(HeldError, match="the Lease was lost"):
        mine.annotations()
    mine.give_up()
    assert lease.holder == holder
