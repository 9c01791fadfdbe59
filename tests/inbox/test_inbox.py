"""The inbox: everything in the order in which it came, and no longer wait than allowed."""

from __future__ import annotations

import threading

from bayplan.api.kinds import NODE, POD
from bayplan.framework import Status
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import BindingEnded, Lead, Replaced, WakeUp
from bayplan.testing import make_pod


def test_messages_and_batches_come_out_in_order() -> None:
    inbox = Inbox()
    pods, nodes = Replaced(POD, []), Replaced(NODE, [])
    inbox.post_all([pods, nodes])
    inbox.post(Lead())
    assert len(inbox) == 3
    assert list(inbox.drain()) == [pods, nodes, Lead()]
    assert list(inbox.drain()) == []
    assert list(inbox.drain(0.001)) == []


def test_what_comes_while_it_is_emptied_comes_out_too() -> None:
    inbox = Inbox()
    inbox.post(Lead())
    seen = []
    for message in inbox.drain():
        seen.append(message)
        if len(seen) == 1:
            inbox.post(WakeUp())
    assert seen == [Lead(), WakeUp()]


def test_a_post_ends_the_wait() -> None:
    inbox = Inbox()
    thread = threading.Thread(target=lambda: inbox.post(WakeUp()))
    thread.start()
    assert list(inbox.drain(30)) == [WakeUp()]
    thread.join()


def test_nothing_that_several_threads_post_is_lost() -> None:
    inbox = Inbox()

    def post_many() -> None:
        for _ in range(500):
            inbox.post(Lead())

    threads = [threading.Thread(target=post_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    seen = 0
    while seen < 2000:
        batch = list(inbox.drain(30))
        assert batch, "a message was lost"
        seen += len(batch)
    for thread in threads:
        thread.join()
    assert len(inbox) == 0


def test_printing_it_says_what_waits() -> None:
    inbox = Inbox()
    inbox.post(BindingEnded(make_pod("p").obj(), Status.error("conflict")))
    inbox.post(WakeUp())
    text = repr(inbox)
    assert "BindingEnded(pod=Pod(default/p)" in text
    assert "conflict" in text
    assert text.endswith("WakeUp()])")
    assert len(inbox) == 2
