"""Events: what is sent, what becomes a series, what is dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.client.fault_server import FaultServer

from bayplan.api.meta import ObjectReference
from bayplan.client import errors
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.event_recorder import (
    MAX_NOTE,
    MAX_SERIES,
    SERIES_QUIET_NS,
    SERIES_REFRESH_NS,
    EventRecorder,
    cut,
)
from bayplan.client.request import ApiRequest, Lane
from bayplan.testing import make_pod

START_NS = 1_767_323_045_123_456_789  # 2026-01-02T03:04:05.123456789Z


class Clock:
    def __init__(self) -> None:
        self.now = START_NS

    def __call__(self) -> int:
        return self.now


class Bench:
    """A recorder whose dispatcher never starts: the test pulls the requests itself."""

    def __init__(self, server: Any, **settings: Any) -> None:
        self.clock = Clock()
        self.recorder = EventRecorder(
            Dispatcher(server.connection()),
            "bayplan",
            "bayplan-host",
            clock_ns=self.clock,
            **settings,
        )

    def record(self, pod: str = "web-1", note: str = "0/1 nodes", reason: str = "Failed") -> None:
        subject = make_pod(pod).uid(f"uid-{pod}").obj()
        self.recorder.event(subject, None, "Warning", reason, "Scheduling", note)

    def requests(self) -> list[ApiRequest]:
        return list(iter(self.recorder.next_request, None))

    def request(self) -> ApiRequest:
        (request,) = self.requests()
        return request


@pytest.fixture
def bench(server: FaultServer) -> Bench:
    return Bench(server)


def body(request: ApiRequest) -> dict[str, Any]:
    assert request.body
    decoded: dict[str, Any] = json.loads(request.body)
    return decoded


def test_an_event_says_who_did_what_to_whom(bench: Bench) -> None:
    pod = make_pod("web-1").uid("uid-1").meta(resourceVersion="7").obj()
    node = ObjectReference("Node", "", "node-1", "uid-n")
    bench.recorder.event(pod, node, "Normal", "Scheduled", "Binding", "done", "other-profile")
    request = bench.request()
    assert (request.method, request.lane) == ("POST", Lane.EVENT)
    assert request.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert body(request) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"web-1.{START_NS:x}", "namespace": "default"},
        "eventTime": "2026-01-02T03:04:05.123456Z",
        "reportingController": "other-profile",
        "reportingInstance": "bayplan-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "web-1",
            "uid": "uid-1",
            "resourceVersion": "7",
        },
        "related": {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-n"},
        "note": "done",
        "type": "Normal",
    }


def test_an_event_that_cannot_be_sent_does_not_keep_others_from_it(bench: Bench) -> None:
    nonsense: Any = RuntimeError("no text")
    bench.record(note=nonsense)
    bench.record("web-2")
    assert body(bench.request())["regarding"]["name"] == "web-2"
    assert bench.recorder.statistics().failed == 1


def test_what_utf_8_cannot_carry_is_escaped(bench: Bench) -> None:
    bench.record(note="no /tmp/\udcff für")
    assert body(bench.request())["note"] == "no /tmp/\\udcff für"


def test_an_event_about_a_cluster_wide_object_lives_in_default(bench: Bench) -> None:
    node = ObjectReference("Node", "", "node-1", "uid-n")
    bench.recorder.event(node, None, "Normal", "R", "A", "n")
    assert body(bench.request())["metadata"]["namespace"] == "default"


def test_events_of_one_instant_have_different_names(bench: Bench) -> None:
    bench.record(reason="A")
    bench.record(reason="B")
    first, second = (body(r)["metadata"]["name"] for r in bench.requests())
    assert first != second


def test_a_pod_with_the_longest_name_still_gets_a_valid_event_name(bench: Bench) -> None:
    bench.record("x" * 253)
    assert len(body(bench.request())["metadata"]["name"]) <= 253


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        pytest.param("short", "short", id="short"),
        pytest.param("x" * MAX_NOTE, "x" * MAX_NOTE, id="exactly as long as allowed"),
        pytest.param("x" * (MAX_NOTE + 1), "x" * (MAX_NOTE - 4) + " ...", id="one too long"),
        pytest.param("é" * 600, "é" * 510 + " ...", id="measured in bytes"),
        pytest.param("x" + "é" * 600, "x" + "é" * 509 + " ...", id="no half characters"),
    ],
)
def test_a_note_is_cut_to_what_the_api_accepts(note: str, expected: str) -> None:
    assert cut(note) == expected
    assert len(cut(note).encode()) <= MAX_NOTE


def test_the_second_of_equal_events_makes_a_series_and_later_ones_are_counted(bench: Bench) -> None:
    bench.record(note="0/1 nodes")
    name = body(bench.request())["metadata"]["name"]
    bench.clock.now += 10**9
    bench.record(note="0/2 nodes")
    request = bench.request()
    assert request.method == "PATCH"
    assert request.path == f"/apis/events.k8s.io/v1/namespaces/default/events/{name}"
    observed = "2026-01-02T03:04:06.123456Z"
    assert body(request) == {"series": {"count": 2, "lastObservedTime": observed}}
    bench.record()
    assert bench.requests() == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"pod": "web-2"}, id="another Pod"),
        pytest.param({"reason": "Other"}, id="another reason"),
    ],
)
def test_events_that_differ_are_no_series(bench: Bench, other: dict[str, str]) -> None:
    bench.record()
    bench.record(**other)
    assert [r.method for r in bench.requests()] == ["POST", "POST"]


def test_a_series_that_went_quiet_sends_its_last_count_and_ends(bench: Bench) -> None:
    for _ in range(5):
        bench.record()
    bench.requests()
    bench.clock.now += SERIES_QUIET_NS + 1
    assert body(bench.request())["series"]["count"] == 5
    assert bench.recorder.statistics().series == 0
    bench.record()
    assert bench.request().method == "POST"


def test_an_event_that_came_once_is_forgotten_without_another_word(bench: Bench) -> None:
    bench.record()
    bench.requests()
    bench.clock.now += SERIES_QUIET_NS + 1
    assert bench.requests() == []
    assert bench.recorder.statistics().series == 0


def test_a_running_series_sends_its_count_now_and_then(bench: Bench) -> None:
    counts = []
    while bench.clock.now < START_NS + SERIES_REFRESH_NS + SERIES_QUIET_NS:
        bench.record()
        counts += [body(r)["series"]["count"] for r in bench.requests() if r.method == "PATCH"]
        bench.clock.now += SERIES_QUIET_NS // 2
    assert counts == [2, 11]


def test_only_so_many_series_are_remembered(bench: Bench) -> None:
    for i in range(MAX_SERIES + 1):
        bench.record(f"web-{i}")
    bench.requests()
    assert bench.recorder.statistics().series == MAX_SERIES
    bench.record("web-0")
    assert bench.request().method == "POST"


def test_a_series_whose_event_has_expired_starts_anew(bench: Bench, server: FaultServer) -> None:
    bench.record()
    name = body(bench.request())["metadata"]["name"]
    bench.record()
    patch = bench.request()
    patch.on_done(errors.NotFound("gone"))
    again = bench.recorder._dispatcher._lanes.take()
    assert again is not None
    assert again.method == "POST"
    assert body(again)["metadata"]["name"] == name
    assert body(again)["series"]["count"] == 2


def test_events_beyond_the_bound_are_dropped_and_counted(server: FaultServer) -> None:
    bench = Bench(server, max_waiting=2)
    for i in range(5):
        bench.record(f"web-{i}")
    assert bench.recorder.statistics().dropped == 3
    assert bench.recorder.statistics().waiting == 2
    assert len(bench.requests()) == 2


def test_how_events_ended_is_counted(bench: Bench) -> None:
    outcomes: tuple[bytes | errors.ApiError, ...] = (
        b"",
        errors.AlreadyExists("sent before"),
        errors.Forbidden("no"),
    )
    for i, outcome in enumerate(outcomes):
        bench.record(f"web-{i}")
        bench.request().on_done(outcome)
    statistics = bench.recorder.statistics()
    assert (statistics.recorded, statistics.sent, statistics.failed) == (3, 2, 1)
