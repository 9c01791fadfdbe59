"""Questions: what others ask the scheduling thread, within a share of the time.

At most `AT_ONCE` questions are open, and they get `SHARE` of the thread's time: each costs what it
took, and a question that comes while more was spent than has been earned is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Command

T = TypeVar("T")

SHARE = 0.05
"""Of the scheduling thread's time, at most."""
SAVED_SECONDS = 0.25
"""The most time that is saved up while nobody asks."""
AT_ONCE = 2
WAIT_SECONDS = 5.0
"""How long an asker waits for its place, and then for the answer."""


class BusyError(Exception):
    """The question is not answered now; the text says when to ask again."""


class Questions:
    """See the module's docstring. Any thread but the scheduling one asks."""

    def __init__(self, inbox: Inbox, clock: Callable[[], float] = time.monotonic) -> None:
        self._inbox, self._clock = inbox, clock
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._saved, self._at = SAVED_SECONDS, clock()

    def ask(self, answer: Callable[[], T]) -> T:
        """What ``answer`` returns, called on the scheduling thread.

        Raises:
            BusyError: too much was asked, or the thread did not come to it in `WAIT_SECONDS`.
        """
        if (debt := -self._balance()) > 0:
            seconds = debt / SHARE
            raise BusyError(f"too many questions, ask again in {seconds:.1f} s")
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise BusyError(f"more than {AT_ONCE} questions are open, ask again later")
        try:
            question = Question(answer, self.charge)
            self._inbox.post(question)
            try:
                return question.done.result(WAIT_SECONDS)
            except TimeoutError:
                question.done.cancel()
                text = f"the scheduling thread did not answer in {WAIT_SECONDS:.0f} s"
                raise BusyError(text) from None
        finally:
            self._places.release()

    def _balance(self) -> float:
        """Seconds that may be spent now."""
        with self._lock:
            now = self._clock()
            self._saved = min(self._saved + (now - self._at) * SHARE, SAVED_SECONDS)
            self._at = now
            return self._saved

    def charge(self, seconds: float) -> None:
        """So much time was spent for whoever asks, also beside the scheduling thread."""
        with self._lock:
            self._saved -= seconds


@dataclass(frozen=True)
class Question(Command, Generic[T]):
    """A question on its way to the scheduling thread."""

    answer: Callable[[], T] = field(repr=False)
    spent: Callable[[float], None] = field(repr=False)
    done: Future[T] = field(default_factory=Future, repr=False)

    def run(self) -> None:
        """The answer, or why there is none, is in `done`; nothing if nobody waits any more."""
        if not self.done.set_running_or_notify_cancel():
            return
        began = time.perf_counter()
        try:
            result = self.answer()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self.done.set_exception(error)
        else:
            self.done.set_result(result)
        self.spent(time.perf_counter() - began)
