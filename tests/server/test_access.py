"""Who may read what, as the API server says."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority
from tests.client.fault_server import Exchange, FaultServer
from tests.server.conftest import Client, Ports, serving, trusting, with_certificate
from tests.waiting import SOON

from bayplan.client.http import Http
from bayplan.server import reviews
from bayplan.server.access import Access, Credentials
from bayplan.server.options import PortError
from bayplan.server.pages import Answer, Attributes, Page, PageRequest, Pages, text
from bayplan.server.reviews import AccessReviews, PathAttributes, TokenReviews
from bayplan.server.users import User, user_of_certificate

PAGES: Pages = {
    path: Page(lambda _: Answer(200, b"ok"), ("GET", "PUT"))
    for path in ("/healthz", "/metrics", "/open/page", "/debug")
}
TOKENS = {
    "alice": {"username": "alice", "uid": "1", "groups": ["readers"], "extra": {"k": ["v"]}},
    "bob": {"username": "bob", "groups": ["system:authenticated"]},
}


class Judge:
    """An API server that knows TOKENS, and lets alice GET /metrics and nobody else anything."""

    def __init__(self, server: FaultServer) -> None:
        self.tokens: list[Any] = []
        self.accesses: list[Any] = []
        server.script = self.review

    def review(self, exchange: Exchange) -> None:
        spec = exchange.json()["spec"]
        if exchange.json()["kind"] == "TokenReview":
            self.tokens.append(spec)
            user = TOKENS.get(spec["token"])
            exchange.answer(201, {"status": {"authenticated": user is not None, "user": user}})
            return
        self.accesses.append(spec)
        where = spec["nonResourceAttributes"]
        allowed = (spec["user"], where) == ("alice", {"path": "/metrics", "verb": "get"})
        reason = "" if allowed else "no rule"
        exchange.answer(201, {"status": {"allowed": allowed, "reason": reason}})


@pytest.fixture
def judge(api_server: FaultServer) -> Judge:
    return Judge(api_server)


@pytest.fixture
def client(ports: Ports, access: Access, authority: Authority) -> Client:
    port = ports.start(PAGES, tls=serving(authority), access=access)
    return Client(port.port, trusting(authority))


@pytest.mark.usefixtures("judge")
@pytest.mark.parametrize(
    ("method", "path", "token", "status"),
    [
        pytest.param("GET", "/metrics", "Bearer alice", 200, id="allowed"),
        pytest.param("GET", "/metrics", "bearer  alice", 200, id="scheme in any case"),
        pytest.param("PUT", "/metrics", "Bearer alice", 403, id="other verb"),
        pytest.param("GET", "/debug", "Bearer alice", 403, id="other path"),
        pytest.param("GET", "/metrics", "Bearer bob", 403, id="other user"),
        pytest.param("GET", "/metrics", "Bearer mallory", 401, id="bad token"),
        pytest.param("GET", "/metrics", "", 403, id="no token"),
        pytest.param("GET", "/metrics", "Basic YTpi", 403, id="other scheme"),
        pytest.param("GET", "/nowhere", "", 403, id="no such page"),
        pytest.param("GET", "/healthz", "", 200, id="open"),
        pytest.param("GET", "/healthz", "Bearer mallory", 200, id="open with a bad token"),
        pytest.param("GET", "/healthz/x", "", 403, id="below an open path"),
        pytest.param("GET", "/open/page", "", 200, id="open by prefix"),
    ],
)
def test_the_api_server_says_who_may_read_what(
    client: Client, method: str, path: str, token: str, status: int
) -> None:
    assert client.get(path, method, authorization=token).status == status


def test_the_review_has_all_that_the_token_says_of_its_user(client: Client, judge: Judge) -> None:
    client.get("/metrics", authorization="Bearer alice")
    assert judge.accesses == [
        {
            "user": "alice",
            "uid": "1",
            "groups": ["readers", "system:authenticated"],
            "extra": {"k": ["v"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
    ]


def test_a_refusal_names_user_verb_path_and_reason(client: Client, judge: Judge) -> None:
    expected = 'forbidden: User "system:anonymous" cannot get path "/debug": no rule\n'
    assert client.get("/debug").body == expected
    assert judge.accesses[0]["groups"] == ["system:unauthenticated"]


@pytest.mark.parametrize("token", ["alice", "bob", "mallory"])
def test_answers_are_cached_for_a_while(http: Http, judge: Judge, token: str) -> None:
    now = [0.0]
    tokens, accesses = (make(http, lambda: now[0]) for make in (TokenReviews, AccessReviews))
    assert isinstance(tokens, TokenReviews)
    assert isinstance(accesses, AccessReviews)
    for _ in range(3):
        user = tokens.user_of(token)
        accesses.verdict(user or User("nobody"), PathAttributes("get", "/metrics"))
    assert (len(judge.tokens), len(judge.accesses)) == (1, 1)
    now[0] = reviews.TTL_SECONDS
    tokens.user_of(token)
    accesses.verdict(user or User("nobody"), PathAttributes("get", "/metrics"))
    assert (len(judge.tokens), len(judge.accesses)) == (2, 2)


def test_a_failed_review_is_not_cached(client: Client, api_server: FaultServer) -> None:
    api_server.script = lambda exchange: exchange.error(500, message="etcd is gone")
    got = client.get("/metrics", authorization="Bearer alice")
    assert (got.status, got.body) == (503, "access cannot be checked: etcd is gone\n")
    Judge(api_server)
    assert client.get("/metrics", authorization="Bearer alice").status == 200


def test_an_answer_that_cannot_be_read_lets_nobody_in(
    client: Client, api_server: FaultServer
) -> None:
    api_server.script = lambda exchange: exchange.answer(200, b"<html>")
    assert client.get("/metrics", authorization="Bearer alice").status == 503


def test_equal_questions_at_one_time_are_asked_once(http: Http, api_server: FaultServer) -> None:
    go_on = threading.Event()

    def slowly(exchange: Exchange) -> None:
        go_on.wait(SOON)
        exchange.answer(201, {"status": {"authenticated": True, "user": TOKENS["bob"]}})

    api_server.script = slowly
    tokens = TokenReviews(http)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(tokens.user_of, "bob") for _ in range(4)]
        go_on.set()
        assert {one.result().name for one in asked if (one.result())} == {"bob"}  # type: ignore[union-attr]
    assert len(api_server.requests) == 1


def test_the_cache_is_bounded(http: Http, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "MOST_ANSWERS", 2)
    tokens = TokenReviews(http)
    for token in ("alice", "bob", "mallory"):
        tokens.user_of(token)
    assert len(tokens._answers._futures) == 2
    tokens.user_of("mallory")
    tokens.user_of("alice")
    assert [spec["token"] for spec in judge.tokens] == ["alice", "bob", "mallory", "alice"]


def test_tokens_are_not_kept(http: Http, judge: Judge) -> None:
    tokens = TokenReviews(http)
    tokens.user_of("alice")
    assert "alice" not in repr(tokens._answers._futures.keys())
    assert len(judge.tokens) == 1


def test_a_certificate_says_who_asks(
    ports: Ports, access: Access, judge: Judge, tmp_path: Path
) -> None:
    server, clients = Authority(), Authority()
    port = ports.start(PAGES, tls=serving(server, clients.ca), access=access)
    alice = trusting(server)
    alice.load_cert_chain(*clients.files("alice", tmp_path, "readers", "writers"))
    assert Client(port.port, alice).get("/metrics").status == 200
    assert judge.accesses[0]["groups"] == ["readers", "writers", "system:authenticated"]
    assert judge.tokens == []


def test_administrators_need_no_review(
    ports: Ports, access: Access, api_server: FaultServer, authority: Authority, tmp_path: Path
) -> None:
    port = ports.start(PAGES, tls=serving(authority, authority.ca), access=access)
    admin = with_certificate(authority, tmp_path, "admin", "system:masters")
    assert Client(port.port, admin).get("/debug", "PUT").status == 200
    assert api_server.requests == []


def test_a_certificate_of_somebody_else_is_refused(
    ports: Ports, access: Access, authority: Authority, tmp_path: Path
) -> None:
    port = ports.start(PAGES, tls=serving(authority, authority.ca), access=access)
    stranger = trusting(authority)
    stranger.load_cert_chain(*Authority().files("admin", tmp_path, "system:masters"))
    with pytest.raises(OSError):  # noqa: PT011 - the alert comes in several shapes
        Client(port.port, stranger).get("/metrics")
    assert Client(port.port, trusting(authority)).get("/healthz").status == 200


def test_a_certificate_without_a_name_is_nobody() -> None:
    assert user_of_certificate({"subject": ((("organizationName", "system:masters"),),)}) is None


def test_a_star_stands_at_the_end_of_a_path(http: Http) -> None:
    with pytest.raises(PortError, match=r"only a trailing \* in /a\*b"):
        Access(Credentials(TokenReviews(http)).user, AccessReviews(http), ["/a*b"])


def test_a_page_that_asks_is_judged_by_objects_and_not_by_its_path(
    ports: Ports, access: Access, authority: Authority, api_server: FaultServer
) -> None:
    asked: list[Any] = []

    def review(exchange: Exchange) -> None:
        spec = exchange.json()["spec"]
        if exchange.json()["kind"] == "TokenReview":
            exchange.answer(201, {"status": {"authenticated": True, "user": TOKENS["alice"]}})
            return
        asked.append(spec["resourceAttributes"])
        allowed = spec["resourceAttributes"]["namespace"] == "hers"
        exchange.answer(201, {"status": {"allowed": allowed}})

    def page(request: PageRequest) -> Answer:
        namespace = request.query["namespace"]
        return text(200, str(request.may(Attributes("get", "pods", namespace, "p"))))

    api_server.script = review
    port = ports.start({"/why": Page(page, asks=True)}, tls=serving(authority), access=access)
    client = Client(port.port, trusting(authority))
    for namespace, answer in (("hers", "True\n"), ("other", "False\n")):
        got = client.get(f"/why?namespace={namespace}", authorization="Bearer alice")
        assert (got.status, got.body) == (200, answer)
    about = {"verb": "get", "resource": "pods", "name": "p"}
    assert asked == [{**about, "namespace": "hers"}, {**about, "namespace": "other"}]

    api_server.script = lambda exchange: exchange.error(500, message="etcd is gone")
    got = client.get("/why?namespace=third", authorization="Bearer alice")
    assert (got.status, got.body) == (503, "access cannot be checked: etcd is gone\n")
