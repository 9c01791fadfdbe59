"""Questions to the scheduling thread: answered there, and never more than their share."""

from __future__ import annotations

import threading
import time

import pytest

from bayplan.app import questions
from bayplan.app.questions import BusyError, Question, Questions
from bayplan.inbox.inbox import Inbox


class Thread:
    """What takes the inbox in, as the scheduling thread does."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox, self._ending = inbox, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ending.is_set():
            for message in self._inbox.drain(0.01):
                assert isinstance(message, Question)
                message.run()

    def __enter__(self) -> Thread:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self.thread.join()


def test_an_answer_is_made_on_the_thread_that_takes_the_inbox_in() -> None:
    inbox = Inbox()
    asking = Questions(inbox)
    with Thread(inbox) as scheduling:
        assert asking.ask(threading.current_thread) is scheduling.thread
        with pytest.raises(ZeroDivisionError):
            asking.ask(lambda: 1 / 0)
        assert asking.ask(lambda: "goes on") == "goes on"


def test_what_was_spent_has_to_be_earned_before_the_next_question() -> None:
    inbox, now = Inbox(), [0.0]
    asking = Questions(inbox, lambda: now[0])
    with Thread(inbox):
        asking.ask(lambda: None)
        asking.charge(questions.SAVED_SECONDS + 0.05)
        with pytest.raises(BusyError, match=r"ask again in 1\.\d s"):
            asking.ask(lambda: None)
        now[0] = 2.0
        asking.ask(lambda: None)


def test_a_question_that_nobody_waits_for_any_more_is_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions, "WAIT_SECONDS", 0.01)
    inbox = Inbox()
    answered: list[bool] = []
    with pytest.raises(BusyError, match="did not answer"):
        Questions(inbox).ask(lambda: answered.append(True))
    for message in inbox.drain(0):
        assert isinstance(message, Question)
        message.run()
    assert answered == []


@pytest.mark.parametrize(("share", "wait"), [(0.05, 20.0), (0.5, 2.0)])
def test_the_share_says_how_soon_what_was_spent_is_earned_again(share: float, wait: float) -> None:
    now = [0.0]
    asking = Questions(Inbox(), lambda: now[0], share)
    asking.charge(questions.SAVED_SECONDS + 1.0)
    with pytest.raises(BusyError) as refused:
        asking.check()
    assert refused.value.seconds == pytest.approx(wait)
    now[0] = wait
    asking.check()


def test_without_a_share_nothing_is_answered() -> None:
    with pytest.raises(BusyError, match="--questions-share is 0"):
        Questions(Inbox(), share=0.0).ask(lambda: None)


def test_a_thread_that_does_not_run_meanwhile_spends_nothing() -> None:
    """Others that hold the interpreter are not paid for by whoever asks."""
    spent: list[float] = []
    other = threading.Thread(target=lambda: sum(range(3_000_000)))

    def waits() -> None:
        other.start()
        other.join()

    Question(waits, spent.append).run()
    began = time.thread_time()
    Question(lambda: sum(range(300_000)), spent.append).run()
    assert spent[1] <= time.thread_time() - began
    assert spent[0] < spent[1] * 10
