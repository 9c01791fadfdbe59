"""Pods that a plugin did not return for: who is held, until when, and by which sign."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.queue.support import Bench, pod

from bayplan.engine.faults import PLUGIN_TIMEOUT
from bayplan.queue.holds import HOLD_SECONDS
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder

WHY = 'running Filter plugin "Endless": has not returned for 30 s'


def held(bench: Bench, builder: PodBuilder) -> None:
    """As after an attempt that was ended."""
    bench.reject(builder.obj())
    bench.queue.hold(builder.obj(), WHY)


def marked(builder: PodBuilder) -> PodBuilder:
    return builder.condition("PodScheduled", "False", reason=PLUGIN_TIMEOUT, message=WHY)


def test_a_held_pod_lets_all_others_pass() -> None:
    bench = Bench()
    held(bench, pod("poison", 9))
    bench.queue.add(pod("p").obj())
    bench.clock.now += 100
    bench.queue.flush()
    assert bench.names() == ["p"]
    queued = bench.queue.get("poison")
    assert queued is not None
    assert (queued.state, queued.gating_reason) == (QueueState.GATED, WHY)


def test_it_is_tried_again_when_its_time_is_up() -> None:
    bench = Bench()
    held(bench, pod("poison"))
    bench.clock.now += HOLD_SECONDS - 1
    bench.queue.flush()
    assert bench.names() == []
    bench.clock.now += 2
    bench.queue.flush()
    while bench.state("poison") is QueueState.GATED:
        timer = bench.queue.next_timer()
        assert timer, "it is not forgotten"
        bench.clock.now += timer
        bench.queue.flush()
    assert bench.names() == ["poison"]


CHANGES: dict[str, Callable[[PodBuilder], object]] = {
    "labels": lambda p: p.label("fixed", "yes"),
    "annotations": lambda p: p.annotation("fixed", "yes"),
    "spec": lambda p: p.toleration(key="fixed", operator="Exists"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_pod_that_was_mended_is_tried_at_once(change: str) -> None:
    bench = Bench()
    held(bench, pod("poison"))
    bench.queue.add(marked(pod("poison")).obj())
    mended = marked(pod("poison"))
    CHANGES[change](mended)
    bench.backed_off()
    bench.queue.add(mended.obj())
    assert bench.names() == ["poison"]


def test_a_change_of_its_status_alone_lets_nobody_go() -> None:
    bench = Bench()
    held(bench, pod("poison"))
    bench.backed_off()
    bench.queue.add(marked(pod("poison")).obj())
    assert bench.state("poison") is QueueState.GATED


def test_a_scheduler_that_leads_later_knows_it_by_its_condition() -> None:
    bench = Bench()
    bench.queue.add(marked(pod("poison", 9)).obj())
    bench.queue.add(pod("p").obj())
    assert bench.names() == ["p"]
    assert bench.state("poison") is QueueState.GATED


def test_a_scheduler_that_waits_to_lead_sees_the_condition_come() -> None:
    bench = Bench()
    bench.queue.add(pod("poison", 9).obj())
    bench.queue.add(pod("p").obj())
    bench.queue.add(marked(pod("poison", 9)).obj())
    assert bench.names() == ["p"]
    assert bench.state("poison") is QueueState.GATED


def test_what_an_owner_has_made_alike_is_held_as_well_and_nothing_else() -> None:
    bench = Bench()
    first = pod("a-1").owner("ReplicaSet", "a").obj()
    bench.reject(first)
    bench.queue.add(pod("a-2").owner("ReplicaSet", "a").obj())
    bench.queue.add(pod("b-1").owner("ReplicaSet", "b").obj())
    bench.queue.hold(first, WHY)
    bench.queue.add(pod("a-3").owner("ReplicaSet", "a").obj())
    bench.queue.add(pod("a-4").owner("ReplicaSet", "a").label("template", "new").obj())
    assert bench.names() == ["b-1", "a-4"]


def test_a_new_pod_of_the_same_name_is_not_held() -> None:
    bench = Bench()
    held(bench, pod("poison"))
    bench.queue.delete(pod("poison").obj())
    bench.queue.add(pod("poison").uid("another").obj())
    assert bench.names() == ["poison"]
