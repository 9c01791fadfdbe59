"""The scheduler's page of Queues: of all, and of what a namespace may know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.queues import queue, queue_cluster

from bayplan.app.pages import answer_pages
from bayplan.app.questions import Questions
from bayplan.inbox.messages import Message
from bayplan.server.pages import Attributes, PageRequest
from bayplan.testing import make_node, make_pod

EVERYTHING = {Attributes("list", "nodes"), Attributes("list", "pods")}
IN_SHOP = {Attributes("list", "pods", "shop")}


class Port:
    """The page of a scheduler with two Queues; its thread answers at once."""

    def __init__(self) -> None:
        cluster = self.cluster = queue_cluster()
        cluster.add(queue("bank", "bank"), queue("shop", "shop", parent="all"))
        cluster.add(queue("all"))
        cluster.add(make_node("n1").capacity(cpu="4"))
        cluster.add(make_pod("db").namespace("bank").req(cpu="1").node("n1"))
        cluster.add(make_pod("web").namespace("shop").req(cpu="2").node("n1"))
        questions = Questions(self)  # type: ignore[arg-type]
        self._page = answer_pages(cluster.core, questions, lambda: "")["/queues"]

    def post(self, message: Message) -> None:
        """In place of the inbox."""
        message.run()  # type: ignore[union-attr]

    def get(self, may: set[Attributes], **query: str) -> tuple[int, str]:
        answer = self._page.answer(PageRequest("GET", "/queues", query, b"", may.__contains__))
        return answer.status, answer.body.decode()


def test_who_may_list_everything_sees_all_queues() -> None:
    status, text = Port().get(EVERYTHING)
    answer: dict[str, Any] = json.loads(text)
    assert (status, answer["kind"]) == (200, "QueuesAnswer")
    used = {one["queue"]: one["resources"]["cpu"]["used"] for one in answer["queues"]}
    assert used == {"all": 2000, "shop": 2000, "bank": 1000}


def test_the_page_says_whose_turn_it_is_by_the_attempts_of_the_running_scheduler() -> None:
    port = Port()
    port.cluster.add(make_pod("a").namespace("bank").req(cpu="1"))
    port.cluster.add(make_pod("b").namespace("shop").req(cpu="1"))
    before = places(port)
    turns = port.cluster.core.profiles.policy.turns
    assert turns is not None
    turns.tried(turns.tenant(make_pod("a").namespace("bank").obj()), 100)
    assert before == {"all": (2, 0.0), "shop": (2, 0.0), "bank": (1, 0.0)}
    assert places(port) == {"all": (1, 0.0), "shop": (1, 0.0), "bank": (2, 100.0)}
    assert places(port) == places(port)


def places(port: Port) -> dict[str, tuple[int, float]]:
    """By queue, turn and attempts."""
    listed = json.loads(port.get(EVERYTHING)[1])["queues"]
    return {one["queue"]: (one["turn"], one["attempts"]) for one in listed}


def test_who_may_list_pods_of_a_namespace_sees_the_queues_of_these() -> None:
    status, text = Port().get(IN_SHOP, namespace="shop")
    [shop] = json.loads(text)["queues"]
    assert (status, shop["queue"], shop["users"], shop["faults"]) == (200, "shop", {}, [])
    assert "bank" not in text


@pytest.mark.parametrize("namespace", ["", "bank"])
def test_all_others_are_refused(namespace: str) -> None:
    assert Port().get(IN_SHOP, namespace=namespace)[0] == 403
