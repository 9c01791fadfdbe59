"""A question of moves on the scheduler's port."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.improve.test_improve import runs, two_nodes

from bayplan.app.pages import answer_pages
from bayplan.app.questions import Questions
from bayplan.inbox.messages import Message
from bayplan.server.pages import Attributes, PageRequest

RIGHTS = (Attributes("list", "nodes"), Attributes("list", "pods"))
EVERYTHING = frozenset(RIGHTS)


class Port:
    """The page of a scheduler whose thread answers at once."""

    def __init__(self) -> None:
        cluster = two_nodes(runs("a", "n1"), runs("b", "n2", 2))
        questions = Questions(self)  # type: ignore[arg-type]
        self._page = answer_pages(cluster.core, questions, lambda: "")["/improve"]

    def post(self, message: Message) -> None:
        """In place of the inbox."""
        message.run()  # type: ignore[union-attr]

    def ask(self, may: frozenset[Attributes] = EVERYTHING, **asked: Any) -> tuple[int, str]:
        body = json.dumps(asked).encode()
        request = PageRequest("POST", "/improve", {}, body, may.__contains__)
        answer = self._page.answer(request)
        return answer.status, answer.body.decode()


def test_the_running_scheduler_makes_a_plan() -> None:
    status, text = Port().ask(goal="for", subject="waits")
    assert (status, json.loads(text)["sentence"]) == (200, "1 move, and Pod default/waits fits.")


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"goal": "for", "subject": "nobody"}, 422, "there is no Pod default/nobody"),
        ({"goal": "empty", "subject": "n9"}, 422, "there is no node n9"),
        ({"goal": "cost", "subject": "1"}, 422, "no profile has the plugin DomainCost"),
        ({"goal": "balance"}, 400, "this is no question: "),
        ({"goal": "for", "more": 1}, 400, "this is no question: "),
    ],
)
def test_a_goal_that_is_none_is_refused(asked: dict[str, Any], status: int, said: str) -> None:
    code, text = Port().ask(**asked)
    assert code == status
    assert text.startswith(said)


@pytest.mark.parametrize("right", RIGHTS, ids=["nodes", "pods"])
def test_moves_are_for_who_may_list_everything(right: Attributes) -> None:
    assert Port().ask(frozenset({right}), goal="survive")[0] == 403
