"""The loop: leading or not, how long it sleeps, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.core_harness import Call, Cluster
from tests.scripted import scripted

from bayplan.framework import WAIT
from bayplan.inbox.messages import Message
from bayplan.queue.states import QueueState
from bayplan.scheduler import DRAIN_SECONDS
from bayplan.testing import make_node, make_pod


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


def test_the_loop_schedules_what_comes_in_and_ends_when_it_is_told() -> None:
    kind = scripted("Hold", permit=(WAIT, 600.0))
    cluster = Cluster(kind, bare=True)
    hold = cluster.plugin(kind)
    waits, goes = make_pod("waits"), make_pod("goes")
    cluster.add(node(), waits)

    def then() -> None:
        hold.script["permit"] = cluster.scheduler.stop
        cluster.add(goes)

    cluster.run()
    cluster.inbox.post(Call(then))
    cluster.scheduler.run()
    assert cluster.bound == [("goes", "n1")]
    assert cluster.verdict == (
        "Unschedulable",
        "0/1 nodes are available: 1 the scheduler is ending.",
    )
    assert cluster.in_flight == 0


def test_the_loop_does_not_wait_for_ever_for_a_binding() -> None:
    cluster = Cluster()
    cluster.writer.slow = True
    cluster.add(node(), make_pod("p"))
    cluster.run()

    def late() -> None:
        cluster.clock.time += DRAIN_SECONDS

    cluster.scheduler.stop()
    cluster.inbox.post(Call(late))
    cluster.scheduler.run()
    assert cluster.in_flight == 1


def test_bindings_that_land_late_are_still_taken_note_of() -> None:
    cluster = Cluster()
    cluster.writer.slow = True
    ends, fails = make_pod("ends"), make_pod("fails")
    cluster.add(node(), ends, fails)
    cluster.run()
    first, second = cluster.writer.waiting
    cluster.scheduler.stop()
    cluster.clock.time += DRAIN_SECONDS
    cluster.scheduler.run()
    assert cluster.in_flight == 2
    first(None)
    second(RuntimeError("refused"))
    cluster.scheduler.drain_bindings(1.0)
    assert cluster.in_flight == 0
    assert (cluster.counted_on(ends), cluster.counted_on(fails)) == ("n1", "")
    assert [event.pod for event in cluster.recorder.events] == ["ends"], "that is for the next one"


def test_while_it_does_not_lead_it_schedules_nothing_and_keeps_up() -> None:
    cluster = Cluster()
    cluster.scheduler.active = False
    pod = make_pod("p")
    cluster.inbox.post(Call(lambda: cluster.add(node(), pod)))
    cluster.inbox.post(Call(cluster.scheduler.stop))
    cluster.scheduler.run()
    assert not cluster.bound
    assert cluster.state(pod) is QueueState.ACTIVE


def test_the_loop_sleeps_no_longer_than_until_something_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []
    cluster = Cluster(scripted("Hold", permit=(WAIT, 0.25)), bare=True)
    drain = cluster.inbox.drain

    def noting_drain(timeout: float) -> Iterator[Message]:
        asked.append(timeout)
        return drain(0.0)

    monkeypatch.setattr(cluster.inbox, "drain", noting_drain)
    cluster.scheduler.take_in(wait=True)
    cluster.add(node(), make_pod("p"))
    cluster.run()
    cluster.scheduler.take_in(wait=True)
    assert (asked[0], asked[-1]) == (1.0, 0.25)
