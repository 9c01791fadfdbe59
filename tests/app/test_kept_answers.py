"""What was answered is answered again while nothing has changed, and no longer."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.core_harness import Cluster

from bayplan.app import kept_answers
from bayplan.app.kept_answers import KeptAnswers
from bayplan.app.pages import answer_pages
from bayplan.app.questions import SAVED_SECONDS, Questions
from bayplan.inbox.messages import Message
from bayplan.server.pages import Answer, Attributes, PageRequest
from bayplan.testing import make_node, make_pod


def test_an_answer_is_kept_for_a_second_at_most_and_until_something_changes() -> None:
    generation, now = [1], [0.0]
    kept = KeptAnswers(lambda: generation[0], lambda: now[0])
    assert kept.get("q") is None
    kept.put("q", 1, b"a")
    assert kept.get("q") == b"a"
    now[0] = 0.9
    assert kept.get("q") == b"a"
    now[0] = 1.0
    assert kept.get("q") is None
    kept.put("q", 1, b"a")
    generation[0] = 2
    assert kept.get("q") is None


def test_so_many_are_kept_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST", 2)
    kept = KeptAnswers(lambda: 1, lambda: 0.0)
    for name in "abca":
        kept.put(name, 1, name.encode())
    assert [kept.get(name) for name in "abc"] == [b"a", None, b"c"]


class Port:
    """The page ``/why`` of a scheduler whose thread answers at once; who may what is counted."""

    def __init__(self) -> None:
        self.cluster, self.answers = Cluster(), 0
        self.cluster.add(make_node("n1").capacity(cpu="4", pods=10), make_pod("big").req(cpu="9"))
        self.cluster.run()
        self.questions = Questions(self, lambda: 0.0)  # type: ignore[arg-type]
        core = self.cluster.core
        self._page = answer_pages(core, self.questions, lambda: "")["/why"]
        self.asked = Counter[str]()
        self.may_nodes = True

    def post(self, message: Message) -> None:
        """In place of the inbox."""
        self.answers += 1
        message.run()  # type: ignore[union-attr]

    def get(self, **query: str) -> Answer:
        def may(wanted: Attributes) -> bool:
            self.asked[wanted.resource] += 1
            return wanted.resource != "nodes" or self.may_nodes

        query = {"namespace": "default", "pod": "big", **query}
        return self._page.answer(PageRequest("GET", "/why", query, b"", may))


def test_the_same_question_is_answered_once_as_long_as_nothing_changes() -> None:
    port = Port()
    first = port.get()
    assert first.status == 200
    assert port.get() == first
    assert port.answers == 1
    port.may_nodes = False
    assert b"n1" not in port.get().body
    assert port.answers == 2
    port.may_nodes = True
    port.cluster.add(make_node("n2").capacity(cpu="16", pods=10))
    port.cluster.scheduler.take_in(wait=False)
    assert b"n2" in port.get().body
    assert port.answers == 3


def test_an_attempt_makes_new_answers() -> None:
    port = Port()
    port.get()
    port.cluster.add(make_pod("other").req(cpu="1"))
    port.cluster.run()
    port.get()
    assert port.answers == 2


def test_who_is_refused_for_asking_too_much_costs_no_review_and_is_told_when_to_come() -> None:
    port = Port()
    kept = port.get()
    before = port.asked.copy()
    port.questions.charge(SAVED_SECONDS + 0.1)
    refused = port.get(pod="other")
    assert refused.status == 429
    assert refused.retry_after >= 2
    assert port.asked == before
    assert port.get(verdict="whole").status == 429
    assert port.get() == kept  # it costs the scheduling thread nothing
    assert port.answers == 1
