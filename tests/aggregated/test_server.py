"""The pages of the aggregated API, before a scheduler and an API server that say what they like."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.client.fault_server import FaultServer, running_server

from bayplan.aggregated.discovery import documents
from bayplan.aggregated.resources import PREFIX, question
from bayplan.aggregated.scheduler import Scheduler
from bayplan.aggregated.server import Api
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.server.front_proxy import FrontProxy
from bayplan.server.options import PROBES
from bayplan.server.pages import Answer, Attributes, PageRequest
from bayplan.server.users import User

WHY = f"{PREFIX}/namespaces/shop/pods/web/explanation"
ALICE = User("alice", "1", ("team", "system:authenticated"), (("scope", ("a", "b")),))


class World:
    """A scheduler's port, and the API before it."""

    def __init__(self, folder: Path, api_server: FaultServer, port: FaultServer) -> None:
        self.port = port
        port.script = lambda exchange: exchange.answer(200, {"a": 1})
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(api_server.url)))
        http = Http(api_server.connection())
        scheduler = Scheduler(http, "kube-system/bayplan", str(kubeconfig), port.url)
        self.api = Api(scheduler, FrontProxy(http))

    def ask(
        self, path: str, method: str = "GET", body: bytes = b"", allowed: Any = True
    ) -> tuple[int, Any]:
        page = self.api.get(path)
        assert page is not None
        assert page.methods == (method,)
        self.wanted: list[Attributes] = []

        def may(attributes: Attributes) -> bool:
            self.wanted.append(attributes)
            if isinstance(allowed, ApiError):
                raise allowed
            return bool(allowed)

        answer: Answer = page.answer(PageRequest(method, path, {}, body, may, ALICE))
        return answer.status, json.loads(answer.body)


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "of-the-process"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_server() as api_server, running_server() as port:
        yield World(tmp_path, api_server, port)


def test_the_scheduler_is_asked_in_the_users_name(world: World) -> None:
    assert world.ask(WHY) == (200, {"a": 1})
    assert world.wanted == [
        Attributes("get", "pods", "shop", "web", "view.bayplan.dev", "explanation")
    ]
    [received] = world.port.requests
    assert (received.command, received.path) == ("GET", "/why?namespace=shop&pod=web")
    found = [(name, value) for name, value in received.headers.items() if "mpersonate" in name]
    assert found == [
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "team"),
        ("Impersonate-Group", "system:authenticated"),
        ("Impersonate-Extra-scope", "a"),
        ("Impersonate-Extra-scope", "b"),
    ]
    assert received.headers["Authorization"] == "Bearer of-the-process"


def test_who_may_not_read_the_resource_is_refused_before_the_scheduler_is_asked(
    world: World,
) -> None:
    code, status = world.ask(WHY, allowed=False)
    assert (code, status["reason"], world.port.requests) == (403, "Forbidden", [])
    assert status["message"] == (
        'pods.view.bayplan.dev "web" is forbidden: User "alice" cannot get resource '
        '"pods/explanation" in API group "view.bayplan.dev" in the namespace "shop"'
    )
    code, status = world.ask(WHY, allowed=ApiError("etcd is gone"))
    assert (code, status["message"]) == (503, "access cannot be checked: etcd is gone")


@pytest.mark.parametrize("packed", [True, False])
def test_a_plan_is_sent_packed(world: World, packed: bool) -> None:
    plan = b'[{"kind":"Pod"}]'
    path = f"{PREFIX}/namespaces/shop/schedulers/leader/plan"
    assert world.ask(path, "POST", gzip.compress(plan) if packed else plan)[0] == 200
    assert gzip.decompress(world.port.requests[0].body) == plan


@pytest.mark.parametrize(
    ("status", "text", "code", "message"),
    [
        (404, "there is no Pod shop/web", 404, "there is no Pod shop/web"),
        (404, "not found", 503, "the scheduler is older than this API: it has no page /why"),
        (403, "forbidden: may not get pods/web", 403, "forbidden: may not get pods/web"),
        (
            403,
            'forbidden: User "api" cannot get path "/why"',
            503,
            "the scheduler is older than this API: it has no page /why",
        ),
        (422, "Pod p: no name", 422, "Pod p: no name"),
        (429, "too many questions, ask again in 1 s", 429, "too many questions"),
        (401, "Unauthorized", 503, "the scheduler cannot be asked: Unauthorized"),
        (500, "KeyError", 503, "the scheduler cannot be asked: KeyError"),
    ],
)
def test_what_the_scheduler_refuses_is_said(
    world: World, status: int, text: str, code: int, message: str
) -> None:
    world.port.script = lambda exchange: exchange.answer(status, f"{text}\n".encode())
    found, answer = world.ask(WHY)
    assert (found, answer["kind"], answer["code"]) == (code, "Status", code)
    assert message in answer["message"]
    assert len(world.port.requests) == 1


def test_a_scheduler_that_is_not_there_is_said(world: World) -> None:
    world.port.shutdown()
    world.port.server_close()
    code, status = world.ask(WHY)
    assert code == 503
    assert "the scheduler cannot be asked: cannot reach the scheduler" in status["message"]


PARTS = st.sampled_from(
    ["namespaces", "schedulers", "leader", "plan", "pods", "explanation", "%2F", "%00", "..", "a?"]
)


@given(st.lists(PARTS | st.text(max_size=5), max_size=6), st.booleans())
def test_whatever_path_is_asked_for_is_a_page_or_none(parts: list[str], below: bool) -> None:
    path = "/".join([PREFIX if below else "", *parts])
    page = Api(None, None).get(path)  # type: ignore[arg-type]
    asked = question(path)
    assert (page is None) == (asked is None) or path in documents() or path in PROBES
    if asked is not None:
        assert asked.page.startswith(("/why?", "/status", "/bays", "/queues", "/plan?"))
        assert all(char.isprintable() and char.isascii() for char in asked.page)


def test_it_is_ready_once_the_api_server_is_known(world: World) -> None:
    def probed(path: str) -> int:
        page = world.api.get(path)
        assert page is not None
        return page.answer(PageRequest("GET", path, {}, b"")).status

    assert (probed("/livez"), probed("/readyz")) == (200, 503)
