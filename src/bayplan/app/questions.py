"""Questions: what others ask the scheduling thread, within a share of the time.

At most `AT_ONCE` questions are open, and they get a share of the thread's time: each costs the CPU
time that it took, and a question that comes while more was spent than has been earned is refused.
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
"""Of the scheduling thread's time, at most, where nothing else is said."""
SAVED_SECONDS = 0.25
"""The most time that is saved up while nobody asks."""
AT_ONCE = 2
WAIT_SECONDS = 5.0
"""How long an asker waits for its place, and then for the answer."""


class BusyError(Exception):
    """The question is not answered now; the text says when to ask again, as `seconds` do."""

    def __init__(self, text: str, seconds: float = 1.0) -> None:
        super().__init__(text)
        self.seconds = seconds


class Questions:
    """See the module's docstring. Any thread but the scheduling one asks.

    Args:
        inbox: the scheduling thread's.
        clock: monotonic seconds.
        share: of that thread's time, 0 to 1; with 0 nothing is answered.
    """

    def __init__(
        self, inbox: Inbox, clock: Callable[[], float] = time.monotonic, share: float = SHARE
    ) -> None:
        self._inbox, self._clock, self._share = inbox, clock, share
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._saved, self._at = SAVED_SECONDS, clock()

    def ask(self, answer: Callable[[], T]) -> T:
        """What ``answer`` returns, called on the scheduling thread.

        Raises:
            BusyError: too much was asked, or the thread did not come to it in `WAIT_SECONDS`.
        """
        self.check()
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

    def check(self) -> None:
        """Raise `BusyError` if a question would be refused now; costs nearly nothing."""
        if not self._share:
            raise BusyError("questions are not answered: --questions-share is 0", 3600.0)
        if (debt := -self._balance()) > 0:
            seconds = debt / self._share
            raise BusyError(f"too many questions, ask again in {seconds:.1f} s", seconds)

    def _balance(self) -> float:
        """Seconds that may be spent now."""
        with self._lock:
            now = self._clock()
            self._saved = min(self._saved + (now - self._at) * self._share, SAVED_SECONDS)
            self._at = now
            return self._saved

    def charge(self, seconds: float) -> None:
        """So much CPU time was spent for whoever asks, also beside the scheduling thread."""
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
        began = time.thread_time()
        try:
            result = self.answer()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self.done.set_exception(error)
        else:
            self.done.set_result(result)
        self.spent(time.thread_time() - began)
