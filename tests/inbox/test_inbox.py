"""The inbox: everything in the order in which it came, and no longer wait than allowed."""

from __future__ import annotations

import threading

from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Replaced


def test_batches_and_calls_come_out_in_order() -> None:
    inbox = Inbox()
    batch, call = [Replaced("Pod", [])], lambda: None
    inbox.post(batch)  # type: ignore[arg-type]
    inbox.post(call)
    assert len(inbox) == 2
    assert list(inbox.drain()) == [batch, call]
    assert list(inbox.drain()) == []
    assert list(inbox.drain(0.001)) == []


def test_what_comes_while_it_is_emptied_comes_out_too() -> None:
    inbox = Inbox()
    inbox.post(lambda: inbox.post(lambda: None))
    seen = 0
    for item in inbox.drain():
        assert callable(item)
        item()
        seen += 1
    assert seen == 2


def test_a_post_ends_the_wait() -> None:
    inbox = Inbox()
    thread = threading.Thread(target=lambda: inbox.post(lambda: None))
    thread.start()
    assert len(list(inbox.drain(30))) == 1
    thread.join()
