"""Leader election: who may take the Lease when, and what the loss of it does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from queue import Queue
from typing import Any, cast

import pytest
from tests.client.fault_server import Exchange, FaultServer
from tests.waiting import SOON

from bayplan.client.errors import Timeout
from bayplan.client.http import Http
from bayplan.client.leader import LeaderElector, LeaseLock, new_identity

QUICK = LeaseLock("bayplan", "kube-system", 3.0, 1.0, 0.02)
NOW = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
NOW_TEXT = "2026-01-02T03:04:05.000006Z"


class LeaseServer:
    """Stores one Lease, with optimistic concurrency, and fails on demand."""

    def __init__(self, server: FaultServer) -> None:
        self.lease: dict[str, Any] | None = None
        self.broken = False
        self.pages = 0
        self.written: Queue[dict[str, Any]] = Queue()
        self.lock = threading.Lock()
        server.script = self

    def __call__(self, exchange: Exchange) -> None:
        with self.lock:
            if self.pages:
                self.pages -= 1
                exchange.answer(200, b"<html>")
            elif self.broken:
                exchange.error(500, "InternalError")
            elif exchange.command == "GET":
                self.read(exchange)
            else:
                self.write(exchange, exchange.json())

    @property
    def held(self) -> dict[str, Any]:
        assert self.lease is not None
        return self.lease

    def read(self, exchange: Exchange) -> None:
        if self.lease is None:
            exchange.error(404, "NotFound")
        else:
            exchange.answer(200, self.lease)

    def write(self, exchange: Exchange, lease: dict[str, Any]) -> None:
        known = self.lease["metadata"]["resourceVersion"] if self.lease else "0"
        if lease["metadata"].get("resourceVersion", "0") != known:
            exchange.error(409, "Conflict")
            return
        lease["metadata"]["resourceVersion"] = str(int(known) + 1)
        self.lease = lease
        self.written.put(lease)
        exchange.answer(200, lease)

    def hold(self, holder: str, seconds: int = 15, **spec: Any) -> None:
        with self.lock:
            version = int(self.lease["metadata"]["resourceVersion"]) + 1 if self.lease else 1
            self.lease = {
                "metadata": {"name": "bayplan", "resourceVersion": str(version)},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds} | spec,
            }

    @property
    def holder(self) -> str:
        with self.lock:
            return self.lease["spec"]["holderIdentity"] if self.lease else ""


class Candidate:
    """An elector and what it told us."""

    def __init__(self, server: FaultServer, identity: str = "me", **settings: Any) -> None:
        self.started = threading.Event()
        self.stopped = threading.Event()
        self.leaders: Queue[str] = Queue()
        self.notes: Queue[tuple[str, str]] = Queue()
        self.elector = LeaderElector(
            Http(server.connection(), max_tries=1),
            settings.pop("lock", QUICK),
            identity,
            on_started=self.started.set,
            on_stopped=self.stopped.set,
            on_new_leader=self.leaders.put,
            record=lambda lease, note: self.notes.put((lease["metadata"]["name"], note)),
            now=lambda: NOW,
            jitter=lambda: 0.0,
            **settings,
        )

    def next_leader(self) -> str:
        return self.leaders.get(timeout=SOON)


@pytest.fixture
def lease(server: FaultServer) -> LeaseServer:
    return LeaseServer(server)


@pytest.fixture
def candidate(server: FaultServer, lease: LeaseServer) -> Iterator[Candidate]:
    made = Candidate(server)
    yield made
    made.elector.stop()


def test_the_first_candidate_makes_the_lease_and_leads(
    lease: LeaseServer, candidate: Candidate, server: FaultServer
) -> None:
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    assert candidate.elector.is_leader
    assert candidate.next_leader() == "me"
    written = lease.written.get(timeout=SOON)
    assert written["metadata"]["name"] == "bayplan"
    assert written["metadata"]["namespace"] == "kube-system"
    assert written["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 3,
        "acquireTime": NOW_TEXT,
        "renewTime": NOW_TEXT,
        "leaseTransitions": 0,
    }
    assert server.requests[0].path == (
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/bayplan"
    )


def test_an_answer_that_is_no_lease_is_a_failure_like_others(
    lease: LeaseServer, candidate: Candidate
) -> None:
    lease.pages = 2
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    lease.written.get(timeout=SOON)
    lease.pages = 1
    lease.written.get(timeout=SOON)
    assert candidate.elector.is_leader
    assert not candidate.stopped.is_set()


def test_the_leader_renews_and_keeps_the_time_it_began(
    lease: LeaseServer, candidate: Candidate
) -> None:
    lease.hold("me", acquireTime="before", leaseTransitions=4)
    candidate.elector.start()
    for _ in range(3):
        spec = lease.written.get(timeout=SOON)["spec"]
        assert (spec["acquireTime"], spec["leaseTransitions"]) == ("before", 4)


def test_what_others_keep_in_the_lease_survives(lease: LeaseServer, candidate: Candidate) -> None:
    lease.hold("", strategy="OldestEmulationVersion")
    lease.held["metadata"]["finalizers"] = ["x/y"]
    candidate.elector.start()
    written = lease.written.get(timeout=SOON)
    assert written["metadata"]["finalizers"] == ["x/y"]
    assert written["spec"]["strategy"] == "OldestEmulationVersion"


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_is_taken_over_only_after_it_stood_unchanged_for_its_duration(
    lease: LeaseServer, server: FaultServer
) -> None:
    clock = ManualClock()
    elector = Candidate(server, clock=clock).elector
    lease.hold("other", 15, leaseTransitions=1)
    assert not elector._try(1)
    clock.now = 14.9
    assert not elector._try(1)
    lease.hold("other", 15, leaseTransitions=1, renewTime="renewed")
    clock.now = 15.1
    assert not elector._try(1), "a renewal starts the time anew, whatever the clocks say"
    clock.now = 30.2
    assert elector._try(1)
    assert lease.held["spec"]["leaseTransitions"] == 2
    assert lease.held["spec"]["acquireTime"] == NOW_TEXT


def test_of_two_that_see_a_free_lease_one_gets_it(lease: LeaseServer, server: FaultServer) -> None:
    first, second = Candidate(server, "first").elector, Candidate(server, "second").elector
    lease.hold("")
    second._observe(dict(lease.held))
    assert first._try(1)
    assert not second._try(1)
    assert lease.holder == "first"


def test_a_leader_that_cannot_renew_stops_before_the_lease_is_free(
    lease: LeaseServer, candidate: Candidate
) -> None:
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    with lease.lock:
        lease.broken = True
    assert candidate.stopped.wait(SOON)
    assert not candidate.elector.is_leader


def test_a_leader_stops_at_once_when_another_holds_the_lease(
    lease: LeaseServer, candidate: Candidate
) -> None:
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    lease.hold("usurper")
    assert candidate.stopped.wait(SOON)
    assert candidate.next_leader() == "me"
    assert candidate.next_leader() == "usurper"
    assert lease.holder == "usurper", "what another holds is not released"


def test_stopping_releases_the_lease_after_the_work_has_ended(
    lease: LeaseServer, candidate: Candidate
) -> None:
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    candidate.elector.stop()
    assert candidate.stopped.is_set()
    assert lease.holder == ""
    assert lease.held["spec"]["leaseDurationSeconds"] == 1


def test_without_release_the_lease_is_left_to_expire(
    lease: LeaseServer, server: FaultServer
) -> None:
    candidate = Candidate(server, release=False)
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    candidate.elector.stop()
    assert lease.holder == "me"


def test_a_candidate_can_be_stopped_while_it_waits(
    lease: LeaseServer, candidate: Candidate
) -> None:
    lease.hold("other", 3600)
    candidate.elector.start()
    assert candidate.next_leader() == "other"
    candidate.elector.stop()
    assert not candidate.started.is_set()
    assert not candidate.stopped.is_set()


@pytest.mark.parametrize("writes", [1, 2], ids=["made", "renewed"])
def test_what_we_wrote_counts_from_before_we_sent_it(
    lease: LeaseServer, server: FaultServer, writes: int
) -> None:
    """Others may have seen it long before the answer came, when we slept in between."""
    now = 0.0

    def slowly(exchange: Exchange) -> None:
        nonlocal now
        if exchange.command != "GET" and lease.written.qsize() == writes - 1:
            now += QUICK.lease_duration
        lease(exchange)

    server.script = slowly
    elector = Candidate(server, clock=lambda: now).elector
    elector._leading = True
    for i in range(writes):
        assert elector._try(1)
        assert elector.is_leader == (i + 1 < writes)


def test_a_hanging_server_cannot_hide_the_loss(
    lease: LeaseServer, server: FaultServer, candidate: Candidate
) -> None:
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    server.script = lambda exchange: exchange.wait_until_the_end()
    assert candidate.stopped.wait(SOON)


def test_identities_differ_on_one_host() -> None:
    assert new_identity() != new_identity()


def test_the_lease_is_read_as_the_server_sends_it(
    lease: LeaseServer, candidate: Candidate, server: FaultServer
) -> None:
    lease.hold("me")
    lease.held["spec"]["leaseTransitions"] = None
    candidate.elector.start()
    assert lease.written.get(timeout=SOON)["spec"]["leaseTransitions"] == 0


def test_the_events_of_a_leader_are_those_of_client_go(
    lease: LeaseServer, candidate: Candidate
) -> None:
    candidate.elector.start()
    assert candidate.started.wait(SOON)
    candidate.elector.stop()
    assert [candidate.notes.get(timeout=SOON) for _ in range(2)] == [
        ("bayplan", "me became leader"),
        ("bayplan", "me stopped leading"),
    ]


def test_a_forbidden_lease_is_a_problem_until_it_is_allowed(
    lease: LeaseServer, server: FaultServer
) -> None:
    elector = Candidate(server).elector
    server.script = lambda exchange: exchange.error(403, "Forbidden", "no leases for you")
    assert not elector._try(1)
    assert elector.problem == "no leases for you"
    server.script = lease
    assert elector._try(1)
    assert elector.problem == ""


class SlowServer:
    """An `Http` whose requests take ``seconds`` of its clock, which are not waited for."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.seconds = seconds

    def put(self, _path: str, body: bytes, timeout: float) -> bytes:
        self.now += min(self.seconds, timeout)
        if self.seconds > timeout:
            raise Timeout("the API server did not answer in time")
        return body

    post = put


@pytest.mark.parametrize(
    ("seconds", "renewed", "end"),
    [
        pytest.param(4.9, True, 4.9, id="slow"),
        pytest.param(5.1, False, 5.0, id="too slow"),
        pytest.param(60.0, False, 5.0, id="hangs"),
    ],
)
def test_a_renewal_may_take_half_of_the_deadline(seconds: float, renewed: bool, end: float) -> None:
    server = SlowServer(0.0)
    elector = LeaderElector(
        cast(Http, server),
        LeaseLock("bayplan", "kube-system"),
        "me",
        on_started=lambda: None,
        on_stopped=lambda: None,
        clock=lambda: server.now,
    )
    assert elector._create(10.0)
    elector._leading = True
    server.seconds = seconds
    assert elector._try(10.0) is renewed
    assert server.now == end
    if not renewed:
        assert not elector._try(3.0)
        assert server.now == 8.0
