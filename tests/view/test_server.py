"""The page's server over real HTTP: who is let in, and what is answered."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

import pytest
from tests.core_harness import Cluster
from tests.view.support import board, cluster, patched

from bayplan.testing import make_node, make_pod
from bayplan.view import board as boards
from bayplan.view import server as serving
from bayplan.view.board import Board, RefusedError, Supposes, Supposition
from bayplan.view.files import STATIC
from bayplan.view.session import POLICY, Session


@dataclass
class Site:
    """A page that is served, and a browser that was let in."""

    cluster: Cluster
    board: Board
    session: Session
    port: int
    cookie: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: str, method: str = "GET", body: str = "", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"Cookie": self.cookie, **{k.replace("_", "-"): v for k, v in headers.items()}}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        data = answer.read()
        if answer.headers["content-encoding"] == "gzip":
            data = gzip.decompress(data)
        return Answer(answer.status, data.decode(), answer.headers)

    def enter(self) -> None:
        """Exchange the token for the cookie, as the page does."""
        answer = self.get("/session", "POST", self.session.token)
        assert answer.status == 204
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def changes(self, since: int) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", f"/changes?since={since}", headers={"Cookie": self.cookie})
        return connection.getresponse()


@dataclass
class Answer:
    """What came back."""

    status: int
    text: str
    headers: http.client.HTTPMessage

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@contextmanager
def served(
    supposes: Supposes | None = None,
    plan: Callable[[], dict[str, Any]] | None = None,
    turn: Callable[[float], None] | None = None,
) -> Iterator[Site]:
    made, lock = cluster(), threading.Lock()

    def ask(answer: Any) -> Any:
        with lock:
            return answer()

    shown = Board(made.core, ask)
    listening = serving.bound("127.0.0.1", 0)
    session = Session("127.0.0.1", listening.getsockname()[1])
    page = serving.application(shown, session, shown.why, "a tést", supposes, plan, turn)
    server = serving.server(page)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Site(made, shown, session, listening.getsockname()[1], lock=lock)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def site() -> Iterator[Site]:
    with served() as made:
        yield made


def test_nobody_sees_the_cluster_without_the_token_which_lets_one_browser_in(site: Site) -> None:
    for path in ("/bays", "/changes?since=0", "/why?namespace=a&pod=b", "/why-not?pod=a/b", "/x"):
        assert site.get(path).status == 401
    assert site.get("/session", "POST", "guess").status == 403
    assert site.get("/session", "POST", "x" * 5000).status == 413
    site.enter()
    assert site.get("/bays").status == 200
    assert site.get("/session", "POST", site.session.token).status == 403
    assert site.get("/bays", Cookie="").status == 401
    assert site.get("/bays", Cookie=site.cookie + "x").status == 401


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(site: Site) -> None:
    answer = site.get("/session", "POST", site.session.token)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert f"bayplan-view-{site.port}=" in cookie


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_other_names_and_other_sites_are_refused_whatever_they_ask_for(
    site: Site, headers: dict[str, str]
) -> None:
    site.enter()
    for path in ("/", "/static/view.js", "/bays"):
        answer = site.get(path, **headers)
        assert answer.status == 403, path
        assert "access-control-allow-origin" not in answer.headers


def test_a_port_that_is_called_localhost_is_the_page_too(site: Site) -> None:
    assert site.get("/", Host=f"localhost:{site.port}").status == 200


def test_every_answer_forbids_what_does_not_come_from_here(site: Site) -> None:
    for path in ("/", "/bays", "/nothing", "/static/none.js"):
        headers = site.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_the_page_loads_nothing_from_elsewhere_and_has_no_script_in_its_text(site: Site) -> None:
    page = site.get("/").text
    assert "<script>" not in page
    assert " style=" not in page
    assert " on" not in page.replace(" on the", "").replace(" on each", "")
    for file in STATIC.iterdir():
        text = file.read_text()
        assert "http://" not in text.replace("http://www.w3.org/", "")
        assert "https://" not in text
        assert "innerHTML" not in text
        assert site.get(f"/static/{file.name}").text == text


@pytest.mark.parametrize("name", ["..%2fserver.py", "%2e%2e/server.py", "../server.py", "x"])
def test_no_other_file_is_served(site: Site, name: str) -> None:
    site.enter()
    assert site.get(f"/static/{name}").status == 404


def test_the_first_load_is_the_document_of_the_command(site: Site) -> None:
    site.enter()
    answer = site.get("/bays")
    assert answer.json == json.loads(json.dumps(site.board.document()))
    assert unquote(answer.headers["x-bayplan-source"]) == "a tést"


def test_changes_come_as_they_happen_and_lead_to_what_a_new_reader_gets(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "SECONDS", 0.0)
    site.enter()
    reader = site.get("/bays").json
    stream = site.changes(reader["generation"])
    assert stream.headers["content-type"].startswith("text/event-stream")
    for number in range(3):
        with site.lock:
            site.cluster.add(make_node(f"x{number}").capacity(cpu="4", pods=10))
            site.cluster.add(make_pod(f"on-{number}").req(cpu="1").node(f"x{number}"))
        while f"x{number}" not in reader["nodes"]["name"]:
            line = stream.readline()
            if line.startswith(b"data: "):
                delta = json.loads(line.removeprefix(b"data: "))
                reader = patched(reader, delta)
                reader["generation"] = delta["generation"]
    while reader["generation"] < site.board.look():
        line = stream.readline()
        if line.startswith(b"data: "):
            delta = json.loads(line.removeprefix(b"data: "))
            reader = patched(reader, delta)
            reader["generation"] = delta["generation"]
    assert reader == site.get("/bays").json
    stream.close()


def test_who_has_missed_too_much_is_told_to_begin_anew(site: Site) -> None:
    site.enter()
    site.board.look()
    stream = site.changes(99)
    lines = [stream.readline() for _ in range(3)]
    assert b"event: reset\n" in lines
    stream.close()
    assert site.get("/changes?since=x").status == 400


def test_why_is_the_answer_of_the_command_and_why_not_is_a_column_of_nodes(site: Site) -> None:
    site.enter()
    why = site.get("/why?namespace=shop&pod=big").json
    assert why["kind"] == "PodAnswer"
    assert why["sentence"].startswith("shop/big waits: 0/3 nodes are available")
    verdict = site.get("/why-not?pod=shop/big").json
    [rejected] = verdict["rejected"]
    assert rejected["plugin"] == "NodeResourcesFit"
    assert rejected["nodes"] == 3
    assert verdict["node"] == [0, 0, 0]
    site.cluster.add(make_pod("small").req(cpu="2"))
    verdict = site.get("/why-not?pod=default/small").json
    names = site.get("/bays").json["nodes"]["name"]
    assert [names[row] for row, code in enumerate(verdict["node"]) if code == 0] == ["n10"]
    for path in ("/why?namespace=shop&pod=none", "/why-not?pod=shop/none", "/node?name=none"):
        assert site.get(path).status == 404
    assert site.get("/why?namespace=shop").status == 400


def test_a_node_has_its_pods_by_name(site: Site) -> None:
    site.enter()
    [pod] = site.get("/node?name=n1").json["pods"]
    assert pod["pod"] == "shop/web-1"
    assert pod["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_old_changes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "DELTAS", 2)
    made, now = cluster(), [0.0]
    shown = board(made, clock=lambda: now[0])
    first = shown.look()
    for number in range(3):
        now[0] += 1
        made.add(make_node(f"x{number}"))
        assert shown.look() == first + number + 1
    assert shown.since(first) is None
    assert len(shown.since(first + 1) or ()) == 2
    assert shown.since(first + 3) == []
    assert shown.since(first + 4) is None


def test_more_open_pages_than_there_is_room_for_are_told_to_come_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "PAGES_OPEN", 3)
    with served() as site:
        site.enter()
        since = site.board.look()
        streams = [site.changes(since) for _ in range(2)]
        assert site.get("/").status == 503
        for stream in streams:
            stream.close()


@pytest.mark.parametrize("number", ["", "0", "-1", "1001", "9" * 5000, "x", "²"])
def test_a_number_of_nodes_that_cannot_be_added_is_refused(site: Site, number: str) -> None:
    site.enter()
    answer = site.get(f"/suppose?{urlencode({'number': number, 'like': 'n1'})}")
    assert (answer.status, answer.text) == (400, "number must be from 1 to 1000")


def test_what_nobody_can_suppose_is_refused(site: Site) -> None:
    site.enter()
    assert site.get("/bays").headers["x-bayplan-supposes"] == "no"
    for path in ("/suppose?number=1&like=n1", "/suppose?other=yes", "/plan"):
        answer = site.get(path)
        assert (answer.status, answer.text) == (404, "nothing can be supposed of this source\n")


class _Slow:
    has_other = False

    def __init__(self) -> None:
        self.asked, self.may_end = threading.Event(), threading.Event()

    def suppose(self, what: Supposition) -> dict[str, Any]:
        self.asked.set()
        assert self.may_end.wait(30)
        return {"what": what}


def test_one_cluster_is_supposed_at_a_time_and_only_by_configurations_that_are_there() -> None:
    slow = _Slow()
    with served(slow) as site, ThreadPoolExecutor(1) as pool:
        site.enter()
        assert site.get("/bays").headers["x-bayplan-supposes"] == "nodes"
        assert site.get("/suppose?other=yes").status == 400
        first = pool.submit(site.get, "/suppose?label=zone&value=a&number=2&like=n1")
        assert slow.asked.wait(30)
        assert site.get("/plan").status == 429
        slow.may_end.set()
        assert first.result().json == {"what": [["zone", "a"], [2, "n1"], False]}


def test_another_moment_is_shown_to_those_who_may_look_where_there_is_one() -> None:
    asked: list[float] = []

    def turn(at: float) -> None:
        if at > 100:
            raise RefusedError(400, "this moment is not in the recording")
        asked.append(at)

    with served(turn=turn) as site:
        assert site.get("/moment?at=7", "POST").status == 401
        site.enter()
        assert site.get("/moment?at=7").status == 405
        for wrong in ("", "soon", "nan", "-1", "1e3", "9" * 400):
            assert site.get(f"/moment?at={wrong}", "POST").status == 400
        assert site.get("/moment?at=101", "POST").text == "this moment is not in the recording\n"
        assert site.get("/moment?at=7.125", "POST").status == 200
        origin = {"Origin": "http://example.com"}
        assert site.get("/moment?at=8", "POST", **origin).status == 403
        assert asked == [7.125]
    with served() as site:
        site.enter()
        assert site.get("/moment?at=7", "POST").status == 404
