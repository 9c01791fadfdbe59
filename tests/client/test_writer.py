"""Bindings, status patches and deletions: what is sent, and what a doubt turns out to be."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from queue import Queue
from typing import Any
from unittest.mock import ANY

import pytest
from tests.client.fault_server import Exchange, FaultServer, one_after_another
from tests.waiting import SOON

from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.client import errors
from bayplan.client.connection import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.errors import ApiError, Forbidden
from bayplan.client.http import Http
from bayplan.client.lanes import Lanes
from bayplan.client.request import ApiRequest
from bayplan.client.writer import Writer, status_patch
from bayplan.testing import make_pod

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
EARLIER = "2025-01-01T00:00:00Z"
POD = make_pod("web-1").uid("uid-1").obj()


class Bench:
    """A writer against the server, and how its calls ended."""

    def __init__(self, server: FaultServer) -> None:
        self.server = server
        connection = server.connection()
        self.dispatcher = Dispatcher(connection, Lanes(jitter=lambda: 0.0))
        self.dispatcher.start()
        self.writer = Writer(self.dispatcher, Http(connection), lambda: NOW)
        self.results: Queue[ApiError | None] = Queue()

    def bind(self, pod: Pod = POD) -> ApiError | None:
        self.writer.bind(pod, "node-1", self.results.put)
        return self.results.get(timeout=SOON)


@pytest.fixture
def bench(server: FaultServer) -> Iterator[Bench]:
    made = Bench(server)
    yield made
    made.dispatcher.close(0)


def test_a_binding_names_pod_uid_and_node(bench: Bench) -> None:
    bench.server.script = lambda exchange: exchange.answer(201)
    assert bench.bind() is None
    (request,) = bench.server.requests
    assert request.path == "/api/v1/namespaces/default/pods/web-1/binding"
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-1", "namespace": "default", "uid": "uid-1"},
        "target": {"kind": "Node", "name": "node-1"},
    }


def assigned_to(node: str) -> Callable[[Exchange], None]:
    why = f'pod web-1 is already assigned to node "{node}"'
    return lambda exchange: exchange.error(409, "Conflict", why)


def pod_answer(uid: str = "uid-1", **spec: str) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.answer(200, {"metadata": {"uid": uid}, "spec": spec})


def hang_up(exchange: Exchange) -> None:
    exchange.hang_up()


def fail(exchange: Exchange) -> None:
    exchange.error(500, "InternalError")


def created(exchange: Exchange) -> None:
    exchange.answer(201, {"kind": "Status", "status": "Success"})


def missing(exchange: Exchange) -> None:
    exchange.error(404, "NotFound")


def leaving(exchange: Exchange) -> None:
    why = "pod web-1 is being deleted, cannot be assigned to a host"
    exchange.error(409, "Conflict", why)


def forbidden(exchange: Exchange) -> None:
    exchange.error(403, "Forbidden")


def page(exchange: Exchange) -> None:
    exchange.answer(200, b"<html>")


LOST = errors.ConnectionLost
ENDINGS = [
    pytest.param([assigned_to("node-1")], None, id="bound there by our own first try"),
    pytest.param([assigned_to("node-2")], errors.Conflict, id="bound elsewhere"),
    pytest.param([missing], errors.NotFound, id="deleted"),
    pytest.param([hang_up, pod_answer(nodeName="node-1")], None, id="broken, took effect"),
    pytest.param([hang_up, pod_answer(nodeName="node-2")], LOST, id="broken, bound elsewhere"),
    pytest.param([hang_up, pod_answer()], LOST, id="broken, not bound"),
    pytest.param([hang_up, missing], LOST, id="broken, then deleted"),
    pytest.param([hang_up, page], LOST, id="broken, a proxy answers"),
    pytest.param(
        [hang_up, pod_answer("uid-2", nodeName="node-1")], LOST, id="broken, another Pod there"
    ),
    pytest.param([hang_up, hang_up, pod_answer(nodeName="node-1")], None, id="broken twice"),
    pytest.param([fail, fail, created], None, id="failed twice, then it works"),
    pytest.param([fail, assigned_to("node-1")], None, id="failed, took effect"),
    pytest.param(
        [fail, assigned_to("node-2"), pod_answer(nodeName="node-2")],
        errors.Conflict,
        id="failed, bound elsewhere",
    ),
    pytest.param(
        [fail, leaving, pod_answer(nodeName="node-1")], None, id="failed, took effect, deleted"
    ),
    pytest.param(
        [fail, forbidden, pod_answer(nodeName="node-1")], None, id="failed, took effect, forbidden"
    ),
    pytest.param(
        [fail, forbidden, pod_answer()], errors.Forbidden, id="failed, not bound, forbidden"
    ),
    pytest.param([forbidden], errors.Forbidden, id="forbidden"),
    pytest.param([fail, missing, missing], errors.NotFound, id="failed, then deleted"),
    pytest.param([fail] * 5 + [pod_answer()], errors.ServerError, id="failed for good, not bound"),
    pytest.param([fail] * 5 + [pod_answer(nodeName="node-1")], None, id="failed, bound at last"),
]


@pytest.mark.parametrize(("script", "expected"), ENDINGS)
def test_a_binding_in_doubt_is_looked_up(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    script: list[Callable[..., Any]],
    expected: type[Any] | None,
) -> None:
    monkeypatch.setattr("bayplan.client.retry.FIRST_DELAY", 0.0001)
    bench.server.script = one_after_another(*script)
    ending = bench.bind()
    assert ending is None if expected is None else type(ending) is expected


def refuse(status: int, reason: str) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.error(status, reason)


NO_ANSWERS = {
    "broken": hang_up,
    "forbidden": refuse(403, "Forbidden"),
    "unauthorized": refuse(401, "Unauthorized"),
    "too many requests": refuse(429, "TooManyRequests"),
    "internal error": fail,
}


@pytest.mark.parametrize("no_answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_binding_in_doubt_stays_in_doubt_for_as_long_as_nobody_can_tell(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, no_answer: Callable[..., Any]
) -> None:
    monkeypatch.setattr("bayplan.client.retry.FIRST_DELAY", 0.0001)
    bench.server.script = one_after_another(
        hang_up, *[no_answer] * 12, pod_answer(nodeName="node-1")
    )
    assert bench.bind() is None
    assert len(bench.server.requests) == 14


def test_a_binding_that_found_no_connection_is_in_doubt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayplan.client.retry.FIRST_DELAY", 0.0001)
    submit = bench.dispatcher.submit
    asked: list[ApiRequest] = []

    def lookups_only(request: ApiRequest) -> None:
        asked.append(request)
        if request.method == "POST":
            request.on_done(errors.Unreachable("no connection"))
        else:
            submit(request)

    monkeypatch.setattr(bench.dispatcher, "submit", lookups_only)
    bench.server.script = pod_answer(nodeName="node-1")
    assert bench.bind() is None
    assert [request.method for request in asked] == ["POST", "GET"]


@pytest.mark.parametrize("uid", ["uid-1", "uid-2"])
def test_a_pod_is_deleted_under_its_uid(bench: Bench, uid: str) -> None:
    bench.server.script = lambda exchange: exchange.answer(200)
    bench.writer.delete_pod(make_pod("web-1").uid(uid).obj(), bench.results.put)
    assert bench.results.get(timeout=SOON) is None
    (request,) = bench.server.requests
    assert (request.command, request.path) == ("DELETE", "/api/v1/namespaces/default/pods/web-1")
    assert json.loads(request.body)["preconditions"] == {"uid": uid}


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(404, "NotFound", None, id="gone"),
        pytest.param(409, "Conflict", None, id="replaced by another of its name"),
        pytest.param(403, "Forbidden", errors.Forbidden, id="forbidden"),
    ],
)
def test_deleting_what_is_gone_is_success(
    bench: Bench, status: int, reason: str, expected: type[Forbidden] | None
) -> None:
    bench.server.script = lambda exchange: exchange.error(status, reason)
    bench.writer.delete_pod(POD, bench.results.put)
    ending = bench.results.get(timeout=SOON)
    assert ending is None if expected is None else isinstance(ending, expected)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(404, "NotFound", b"", id="there is none"),
        pytest.param(403, "Forbidden", None, id="not known"),
    ],
)
def test_a_lookup_tells_absence_from_a_failure(
    bench: Bench, status: int, reason: str, expected: bytes | None
) -> None:
    answers: Queue[bytes | None] = Queue()
    bench.server.script = lambda exchange: exchange.error(status, reason)
    bench.writer.read_later("/api/v1/namespaces/default/pods/web-1", answers.put)
    assert answers.get(timeout=SOON) == expected


def test_a_lookup_gives_the_object(bench: Bench) -> None:
    answers: Queue[bytes | None] = Queue()
    bench.server.script = pod_answer()
    bench.writer.read_later("/api/v1/namespaces/default/pods/web-1", answers.put)
    answer = answers.get(timeout=SOON)
    assert answer is not None
    assert json.loads(answer)["metadata"]["uid"] == "uid-1"


CONDITION = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes", 3)


def waiting_pod(nominated: str = "", **condition: object) -> Pod:
    said: dict[str, object] = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    said |= {"message": "0/1 nodes", "lastTransitionTime": EARLIER} | condition
    status: dict[str, object] = {"conditions": [{"type": "Ready", "status": "True"}, said]}
    if nominated:
        status["nominatedNodeName"] = nominated
    return make_pod("web-1").uid("uid-1").status(**status).obj()


def patched(since: str = "2026-01-02T03:04:05Z") -> dict[str, object]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes",
        "observedGeneration": 3,
        "lastTransitionTime": since,
    }


PATCHES = [
    pytest.param(POD, CONDITION, None, {"conditions": [patched()]}, id="a first condition"),
    pytest.param(waiting_pod(), CONDITION, None, None, id="the same condition"),
    pytest.param(waiting_pod(), CONDITION, "", None, id="the same condition, nothing to clear"),
    pytest.param(
        waiting_pod(message="0/2 nodes"),
        CONDITION,
        None,
        {"conditions": [patched(EARLIER)]},
        id="another message keeps the transition time",
    ),
    pytest.param(
        waiting_pod(status="True"),
        CONDITION,
        None,
        {"conditions": [patched()]},
        id="another status moves the transition time",
    ),
    pytest.param(POD, None, "n1", {"nominatedNodeName": "n1"}, id="a nomination"),
    pytest.param(waiting_pod("n1"), None, "n1", None, id="the same nomination"),
    pytest.param(waiting_pod("n1"), None, "", {"nominatedNodeName": None}, id="no nomination"),
    pytest.param(waiting_pod("n1"), None, None, None, id="nothing asked for"),
    pytest.param(
        waiting_pod("n1"), CONDITION, "n2", {"nominatedNodeName": "n2"}, id="only the nomination"
    ),
]


@pytest.mark.parametrize(("pod", "condition", "nominated", "status"), PATCHES)
def test_a_status_patch_says_only_what_is_new(
    pod: Pod,
    condition: Condition | None,
    nominated: str | None,
    status: dict[str, Any] | None,
) -> None:
    patch = status_patch(pod, condition, nominated, NOW)
    if status is None:
        assert patch is None
    else:
        assert patch is not None
        assert json.loads(patch) == {"metadata": {"uid": "uid-1"}, "status": status}


def test_a_status_patch_is_sent_to_the_status(bench: Bench) -> None:
    bench.server.script = one_after_another(hang_up, lambda exchange: exchange.answer(200))
    bench.writer.patch_pod_status(POD, CONDITION, "n1", bench.results.put)
    assert bench.results.get(timeout=SOON) is None
    request = bench.server.requests[-1]
    assert request.command == "PATCH"
    assert request.path == "/api/v1/namespaces/default/pods/web-1/status"
    assert request.headers["Content-Type"] == STRATEGIC_MERGE_PATCH
    assert len(bench.server.requests) == 2


def test_a_status_patch_that_waits_when_its_pod_is_bound_is_not_sent(server: FaultServer) -> None:
    allowed = threading.Event()
    connection = server.connection()
    dispatcher = Dispatcher(connection, Lanes(qps=1, burst=2, may_send=allowed.is_set))
    dispatcher.start()
    writer = Writer(dispatcher, Http(connection), lambda: NOW)
    server.script = lambda exchange: exchange.answer(201)
    ended: Queue[str] = Queue()

    def said(what: str) -> Callable[[ApiError | None], None]:
        return lambda error: ended.put(f"{what}: {error}")

    other = make_pod("web-2").uid("uid-2").obj()
    writer.patch_pod_status(POD, CONDITION, "n1", said("condition"))
    writer.patch_pod_status(POD, None, "n1", said("nomination"))
    writer.bind(POD, "node-1", said("binding"))
    writer.patch_pod_status(other, CONDITION, None, said("other"))
    allowed.set()
    dispatcher.wake()
    # The burst is 2: what is not sent takes nothing of it.
    assert {ended.get(timeout=SOON) for _ in range(4)} == {
        f"{what}: None" for what in ("condition", "nomination", "binding", "other")
    }
    dispatcher.close(0)
    assert sorted(request.path.rpartition("/pods/")[2] for request in server.requests) == [
        "web-1/binding",
        "web-2/status",
    ]
    assert not writer._status_patches


@pytest.mark.parametrize("ending", ["answered", "refused", "to be tried again"])
def test_a_binding_waits_for_the_answer_to_a_status_patch_of_its_pod(
    bench: Bench, ending: str
) -> None:
    arrived, other_is_bound = threading.Event(), threading.Event()
    order: list[str] = []

    def serve(exchange: Exchange) -> None:
        order.append(f"{exchange.command} {exchange.path.rpartition('/pods/')[2]}")
        if exchange.command == "PATCH":
            arrived.set()
            other_is_bound.wait(SOON)
            order.append("the patch takes effect")
            code = {"answered": 200, "refused": 422, "to be tried again": 503}[ending]
            exchange.answer() if code == 200 else exchange.error(code)
        else:
            exchange.answer(201)

    bench.server.script = serve
    patched: Queue[ApiError | None] = Queue()
    bench.writer.patch_pod_status(POD, CONDITION, "n1", patched.put)
    assert arrived.wait(SOON)
    bench.writer.patch_pod_status(POD, None, "n2", patched.put)
    done: Queue[ApiError | None] = Queue()
    bench.writer.bind(POD, "node-1", done.put)
    # Nobody else waits.
    assert bench.bind(make_pod("web-2").uid("uid-2").obj()) is None
    other_is_bound.set()
    assert done.get(timeout=SOON) is None
    ends = [patched.get(timeout=SOON) for _ in range(2)]
    assert [error for error in ends if error is not None] == ([ANY] if ending == "refused" else [])
    assert order == [
        "PATCH web-1/status",
        "POST web-2/binding",
        "the patch takes effect",
        "POST web-1/binding",
    ]
    assert not bench.writer._status_patches
    assert not bench.writer._behind


def test_a_binding_that_waits_for_a_patch_ends_with_the_dispatcher(bench: Bench) -> None:
    arrived = threading.Event()

    def serve(exchange: Exchange) -> None:
        arrived.set()
        exchange.wait_until_the_end()

    bench.server.script = serve
    bench.writer.patch_pod_status(POD, CONDITION, "n1", lambda _: None)
    assert arrived.wait(SOON)
    bench.writer.bind(POD, "node-1", bench.results.put)
    bench.dispatcher.close(0)
    assert isinstance(bench.results.get(timeout=SOON), errors.Closed)


def test_a_status_patch_after_a_binding_is_sent(bench: Bench) -> None:
    bench.server.script = lambda exchange: exchange.answer(201)
    bench.bind()
    bench.writer.patch_pod_status(POD, CONDITION, None, bench.results.put)
    assert bench.results.get(timeout=SOON) is None
    assert [request.command for request in bench.server.requests] == ["POST", "PATCH"]


def test_a_patch_that_changes_nothing_is_not_sent(bench: Bench) -> None:
    bench.writer.patch_pod_status(waiting_pod(), CONDITION, None, bench.results.put)
    assert bench.results.get(timeout=SOON) is None
    assert bench.server.requests == []


def test_volume_objects_are_written_at_once(bench: Bench) -> None:
    bench.server.script = lambda exchange: exchange.answer(200, {"stored": True})
    answer = bench.writer.patch("/api/v1/persistentvolumes/pv", b"{}", MERGE_PATCH)
    assert answer == b'{"stored": true}'
    assert [r.command for r in bench.server.requests] == ["PATCH"]
