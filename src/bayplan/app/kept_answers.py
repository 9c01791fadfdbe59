"""Kept answers: what was answered is answered again, as long as nothing has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

MOST = 1000
"""Answers that are kept; some 1.5 kB each."""
SECONDS = 1.0
"""The longest: answers say for how long a Pod waits, and timers change what is said."""


class KeptAnswers:
    """Encoded answers by question. Any thread.

    Args:
        generation: a number that is another one after each change; of any thread.
        clock: monotonic seconds.
    """

    def __init__(
        self, generation: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._generation, self._clock = generation, clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[int, float, bytes]] = {}

    def get(self, question: Hashable) -> bytes | None:
        """The answer, where nothing has changed since; else None."""
        with self._lock:
            generation, at, answer = self._kept.get(question, (-1, 0.0, b""))
        fresh = generation == self._generation() and self._clock() - at < SECONDS
        return answer if fresh else None

    def put(self, question: Hashable, generation: int, answer: bytes) -> None:
        """The answer to a question, as of ``generation``."""
        with self._lock:
            self._kept.pop(question, None)
            if len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[question] = generation, self._clock(), answer
