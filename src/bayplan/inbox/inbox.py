"""Inbox: how every other thread reaches the scheduling thread.

Reflectors post what they received, binding workers post outcomes, the leader elector and signal
handlers post what is to be done: all of it as `Message`. The scheduling thread takes everything
out between two Pods, and it alone changes the cache and the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue

from bayplan.inbox.messages import Message


class Inbox:
    """A FIFO of messages. Posting is safe from any thread and from a signal handler."""

    def __init__(self) -> None:
        # One token per batch wakes the reader. The batches stand apart, since a SimpleQueue cannot
        # be looked into; a batch is appended before its token, so a thread that got a token finds a
        # batch.
        self._batches: deque[Sequence[Message]] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()

    def post(self, message: Message) -> None:
        """Hand over one message."""
        self._batches.append((message,))
        self._tokens.put(None)

    def post_all(self, batch: Sequence[Message]) -> None:
        """Post messages that belong together; no other message comes in between."""
        self._batches.append(batch)
        self._tokens.put(None)

    def drain(self, timeout: float = 0.0) -> Iterator[Message]:
        """Everything that is there; waits up to ``timeout`` seconds for the first batch."""
        if timeout > 0:
            try:
                self._tokens.get(timeout=timeout)
            except Empty:
                return
            yield from self._batches.popleft()
        while not self._tokens.empty():
            self._tokens.get_nowait()
            yield from self._batches.popleft()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __len__(self) -> int:
        return sum(len(batch) for batch in self._batches.copy())

    def __repr__(self) -> str:
        waiting = [message for batch in self._batches.copy() for message in batch]
        return f"Inbox({waiting})"
