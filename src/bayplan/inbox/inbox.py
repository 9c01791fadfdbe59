"""Inbox: how every other thread reaches the scheduling thread.

Reflectors put what they received here, binding workers and HTTP handlers put calls. The scheduling
thread takes everything out between two Pods and is the only one that changes cache and queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

from bayplan.inbox.messages import Message

Call = Callable[[], None]
Item = list[Message] | Call


class Inbox:
    """A FIFO of informer messages (in batches) and calls. `post` is safe from any thread."""

    def __init__(self) -> None:
        self._items: SimpleQueue[Item] = SimpleQueue()

    def post(self, item: Item) -> None:
        """Hand over a batch of messages or a call."""
        self._items.put(item)

    def drain(self, timeout: float = 0.0) -> Iterator[Item]:
        """Everything that is there; waits up to ``timeout`` seconds for the first item."""
        if timeout > 0:
            try:
                yield self._items.get(timeout=timeout)
            except Empty:
                return
        while not self._items.empty():
            yield self._items.get_nowait()

    def __len__(self) -> int:
        return self._items.qsize()
