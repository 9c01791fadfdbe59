"""The scheduler's page of columns: to whom what is shown, what it costs, and who shows it on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.view.support import cluster

from bayplan.app import questions
from bayplan.app.pages import answer_pages
from bayplan.app.questions import Questions
from bayplan.inbox.messages import Message
from bayplan.server.pages import Answer, Attributes, PageRequest
from bayplan.testing import make_pod
from bayplan.view import board as boards
from bayplan.view.board import AskedBoard, RefusedError

NODES, PODS = Attributes("list", "nodes"), Attributes("list", "pods")
IN_SHOP = Attributes("list", "pods", "shop")


class Port:
    """The page of a scheduler whose thread answers at once."""

    def __init__(self) -> None:
        self.cluster, self.now = cluster(), 0.0
        self.questions = Questions(self, lambda: self.now)  # type: ignore[arg-type]
        self._page = answer_pages(self.cluster.core, self.questions, lambda: "")["/bays"]

    def post(self, message: Message) -> None:
        """In place of the inbox."""
        message.run()  # type: ignore[union-attr]

    def get(self, *may: Attributes, **query: str) -> Answer:
        return self._page.answer(PageRequest("GET", "/bays", query, b"", lambda a: a in may))


def shown(answer: Answer) -> Any:
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


@pytest.mark.parametrize(
    ("may", "namespace", "seen"),
    [
        ((NODES, PODS), "", {"shop", "bank"}),
        ((NODES, PODS), "shop", {"shop", "bank"}),
        ((NODES, IN_SHOP), "shop", {"shop"}),
        ((PODS, IN_SHOP), "shop", {"shop"}),
        ((IN_SHOP,), "shop", {"shop"}),
    ],
    ids=["all", "all, asked about one", "nodes and one", "Pods but no nodes", "one"],
)
def test_all_is_for_who_may_list_nodes_and_pods_else_it_is_one_namespace(
    may: tuple[Attributes, ...], namespace: str, seen: set[str]
) -> None:
    bays = shown(Port().get(*may, namespace=namespace))
    everything = "bank" in seen
    assert {name.partition("/")[0] for name in bays["pending"]["name"]} == seen
    assert bays["named"] is everything
    assert ("n10" in bays["nodes"]["name"]) is everything
    assert ("bank" in json.dumps(bays)) is everything
    assert sum(bays["nodes"]["requested/cpu"]) == 5000


@pytest.mark.parametrize(
    ("may", "namespace", "why"),
    [
        ((), "", "namespace is needed"),
        ((IN_SHOP,), "", "namespace is needed"),
        ((IN_SHOP,), "bank", "may not list pods in the namespace bank"),
        ((NODES,), "shop", "may not list pods in the namespace shop"),
    ],
    ids=str,
)
def test_all_others_are_refused(may: tuple[Attributes, ...], namespace: str, why: str) -> None:
    answer = Port().get(*may, namespace=namespace)
    assert answer.status == 403
    assert why in answer.body.decode()


def test_encoding_is_paid_for_like_the_time_of_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    port, paid = Port(), list[float]()
    monkeypatch.setattr(port.questions, "charge", paid.append)
    assert port.get(NODES, PODS).status == 200
    assert len(paid) == 2
    assert min(paid) > 0


def test_who_has_asked_too_much_is_told_when_to_ask_again() -> None:
    port = Port()
    port.questions.charge(questions.SAVED_SECONDS + 0.05)
    answer = port.get(NODES, PODS)
    assert answer.status == 429
    assert "ask again in 1.0 s" in answer.body.decode()


@pytest.fixture
def asked() -> tuple[AskedBoard, Cluster, Callable[[], None]]:
    port = Port()

    def get(path: str) -> bytes:
        assert path == "/bays?namespace=shop"
        port.now += 60
        answer = port.get(IN_SHOP, namespace="shop")
        if answer.status != 200:
            raise RefusedError(answer.status, answer.body.decode())
        return answer.body

    clock = [0.0]

    def later() -> None:
        clock[0] += boards.ASKED_SECONDS

    return AskedBoard(get, "shop", lambda: clock[0]), port.cluster, later


def test_a_page_of_one_namespace_reads_all_anew_when_something_has_changed(
    asked: tuple[AskedBoard, Cluster, Callable[[], None]],
) -> None:
    board, made, later = asked
    assert board.look() == 1
    bays = json.loads(gzip.decompress(board.packed()))
    assert (bays["generation"], bays["named"]) == (1, False)
    later()
    assert board.look() == 1
    assert board.since(1) == []
    made.add(make_pod("new").namespace("shop").req(cpu="1").node("n1"))
    assert board.look() == 1
    later()
    assert board.look() == 2
    assert board.since(1) is None
    for question in (board.why_not, board.node):
        with pytest.raises(RefusedError, match="only for those who may list nodes"):
            question("n1")


def test_while_the_scheduler_is_silent_the_last_picture_stands(
    asked: tuple[AskedBoard, Cluster, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    board, _, later = asked
    before = board.packed()

    def silent(_: str) -> bytes:
        raise RefusedError(502, "silent")

    monkeypatch.setattr(board, "_get", silent)
    later()
    assert board.trouble() == ""
    assert board.packed() == before
    assert board.trouble() == "silent"
    with pytest.raises(RefusedError, match="silent"):
        AskedBoard(silent, "shop").look()
