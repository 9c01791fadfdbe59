"""The points around the choice of a node: order, merging of answers, and what an answer may be."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from tests.handles import make_handle
from tests.scripted import Scripted, scripted

from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault
from bayplan.engine.lifecycle import MAX_PERMIT_SECONDS, Lifecycle
from bayplan.engine.profile_plugins import ProfilePlugins, Trust
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.points import QueueLess
from bayplan.framework.status import SKIP, SUCCESS, WAIT, Code, Status
from bayplan.queue.queued_pod import QueuedPod
from bayplan.telemetry.instrument import Instrument
from bayplan.testing import make_pod

POD = make_pod("p").obj()
NO = Status.unschedulable("no")


def plugin(name: str, **script: Any) -> Scripted:
    return scripted(name, **script)(None, make_handle())


def lifecycle(point: Point, *plugins: Scripted, trusted: dict[str, Trust] | None = None) -> Any:
    enabled = {point: [(p, 0) for p in plugins]}
    return Lifecycle(ProfilePlugins("test", enabled, Instrument(), trusted))


# Reserve


def test_reserve_ends_with_the_first_plugin_that_rejects() -> None:
    first, second, third = (
        plugin("A", reserve=None),
        plugin("B", reserve=NO),
        plugin("C", reserve=1),
    )
    run = lifecycle(Point.RESERVE, first, second, third)
    assert run.reserve(CycleState(), POD, "n") == NO.by("B")
    assert (first.calls, third.calls) == (["reserve"], [])


def test_unreserve_runs_backwards_and_goes_on_after_one_that_breaks() -> None:
    order: list[str] = []
    a = plugin("A", unreserve=lambda: order.append("A"))
    b = plugin("B", reserve=None, unreserve=OSError("disk"))
    c = plugin("C", unreserve=lambda: order.append("C"))
    lifecycle(Point.RESERVE, a, b, c).unreserve(CycleState(), POD, "n")
    assert order == ["C", "A"]


# Permit


@pytest.mark.parametrize(
    ("answer", "status", "waits"),
    [
        (None, SUCCESS, {}),
        (SUCCESS, SUCCESS, {}),
        (NO, NO.by("P"), {}),
        ((NO, 5), NO.by("P"), {}),
        ((WAIT, 5), Status(Code.WAIT), {"P": 5.0}),
        ((WAIT, 0.25), Status(Code.WAIT), {"P": 0.25}),
        ((WAIT, 10**9), Status(Code.WAIT), {"P": MAX_PERMIT_SECONDS}),
        ((WAIT, float("inf")), Status(Code.WAIT), {"P": MAX_PERMIT_SECONDS}),
    ],
)
def test_permit_answers(answer: Any, status: Status, waits: dict[str, float]) -> None:
    run = lifecycle(Point.PERMIT, plugin("P", permit=answer))
    assert run.permit(CycleState(), POD, "n") == (status, waits)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (WAIT, r"ValueError: Status\(Wait\) was returned; WAIT needs a positive number of seconds"),
        ((WAIT, 0), "ValueError: .*positive"),
        ((WAIT, -1), "ValueError: .*positive"),
        ((WAIT, float("nan")), "ValueError: .*positive"),
        ((WAIT, True), "TypeError: .*not a Status, or WAIT and seconds"),
        ((WAIT, "60"), "TypeError"),
        (False, "TypeError: False was returned"),
        (0, "TypeError: 0 was returned"),
        (SKIP, 'running Permit plugin "P": $'),
    ],
)
def test_permit_answers_that_are_faults(answer: Any, text: str) -> None:
    run = lifecycle(Point.PERMIT, plugin("P", permit=answer))
    with pytest.raises(AttemptFault, match=text) as caught:
        run.permit(CycleState(), POD, "n")
    assert (caught.value.point, caught.value.plugin) == (Point.PERMIT, "P")


# PreBind


def test_a_plugin_whose_pre_flight_skips_does_not_pre_bind() -> None:
    a, b = plugin("A", pre_bind=None, pre_bind_pre_flight=SKIP), plugin("B", pre_bind=None)
    run, state = lifecycle(Point.PRE_BIND, a, b), CycleState()
    assert run.pre_bind_pre_flight(state, POD, "n") == SUCCESS, "B has no pre-flight, so it runs"
    assert run.pre_bind(state, POD, "n") == SUCCESS
    assert (a.calls, b.calls) == (["pre_bind_pre_flight"], ["pre_bind"])


def test_where_every_pre_flight_skips_there_is_nothing_to_do() -> None:
    run = lifecycle(Point.PRE_BIND, plugin("A", pre_bind=None, pre_bind_pre_flight=SKIP))
    assert run.pre_bind_pre_flight(CycleState(), POD, "n") == SKIP


@pytest.mark.parametrize("answer", [NO, Status.pending("x"), Status.error("x")])
def test_other_pre_flight_answers_are_faults(answer: Status) -> None:
    run = lifecycle(Point.PRE_BIND, plugin("A", pre_bind=None, pre_bind_pre_flight=answer))
    with pytest.raises(AttemptFault) as caught:
        run.pre_bind_pre_flight(CycleState(), POD, "n")
    assert caught.value.cause == answer


# Bind


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, SUCCESS),
        (NO, NO.by("B")),
        (Status.error("gone"), Status.error('running Bind plugin "B": gone').by("B")),
    ],
)
@pytest.mark.parametrize("later", [True, False])
def test_the_first_bind_plugin_that_does_not_skip_has_the_say(
    answer: Status | None, outcome: Status, later: bool
) -> None:
    future: Future[Status | None] = Future()
    given = future if later else answer
    skips, binds, idle = plugin("A", bind=SKIP), plugin("B", bind=given), plugin("C", bind=None)
    outcomes: list[Status] = []
    lifecycle(Point.BIND, skips, binds, idle).bind(CycleState(), POD, "n", outcomes.append)
    if later:
        assert outcomes == []
        future.set_result(answer)
    assert outcomes == [outcome]
    assert idle.calls == []


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (SUCCESS, SUCCESS),
        (Status.error("gone"), Status.error('running Bind plugin "B": gone').by("B")),
        (NO, NO.by("B")),
    ],
)
def test_a_request_to_bind_is_sent_once_and_tells_its_outcome_later(
    answer: Status, outcome: Status
) -> None:
    sent: list[Callable[[Status], None]] = []

    def send(done: Callable[[Status], None]) -> None:
        sent.append(done)

    outcomes: list[Status] = []
    binds, idle = plugin("B", bind=lambda: send), plugin("C", bind=None)
    lifecycle(Point.BIND, binds, idle).bind(CycleState(), POD, "n", outcomes.append)
    assert outcomes == []
    [done] = sent
    done(answer)
    assert outcomes == [outcome]
    assert idle.calls == []


def test_a_request_to_bind_that_cannot_be_sent_is_an_error() -> None:
    def send(_: Callable[[Status], None]) -> None:
        raise OSError("disk")

    outcomes: list[Status] = []
    run = lifecycle(Point.BIND, plugin("B", bind=lambda: send))
    with pytest.raises(AttemptFault, match="disk"):
        run.bind(CycleState(), POD, "n", outcomes.append)
    assert outcomes == []


@pytest.mark.parametrize("later", [OSError("disk"), SystemExit(1)])
def test_a_future_that_ends_in_an_exception_is_an_error(later: BaseException) -> None:
    future: Future[Status] = Future()
    outcomes: list[Status] = []
    run = lifecycle(Point.BIND, plugin("B", bind=future))
    run.bind(CycleState(), POD, "n", outcomes.append)
    future.set_exception(later)
    [outcome] = outcomes
    assert outcome.code is Code.ERROR
    assert outcome.message == f'running Bind plugin "B": {type(later).__name__}: {later}'


@pytest.mark.parametrize(
    ("trusted", "at_once"),
    [({"B": Trust(binds_at_once=True)}, True), ({"B": Trust()}, False), ({}, False)],
)
def test_only_an_in_tree_plugin_that_says_so_binds_without_a_worker(
    trusted: dict[str, Trust], at_once: bool
) -> None:
    run = lifecycle(Point.BIND, plugin("B", bind=None), trusted=trusted)
    assert run.binds_at_once is at_once


# QueueSort


def test_a_users_queue_sort_that_breaks_gives_way_to_the_order_of_entry() -> None:
    sorter = plugin("S", less=OSError("disk"))
    guarded = lifecycle(Point.QUEUE_SORT, sorter).queue_sort()
    assert isinstance(guarded, QueueLess)
    early, late = QueuedPod(POD, 1.0), QueuedPod(POD, 2.0)
    assert guarded.less(early, late)
    assert not guarded.less(late, early)
    assert sorter.calls == ["less"], "it is asked no more"


def test_an_in_tree_queue_sort_is_used_as_it_is() -> None:
    sorter = plugin("S", less=True)
    assert lifecycle(Point.QUEUE_SORT, sorter, trusted={"S": Trust()}).queue_sort() is sorter


# PreEnqueue


@pytest.mark.parametrize("answer", [OSError("disk"), SystemExit(2), False, "no"])
def test_a_pre_enqueue_plugin_that_breaks_holds_the_pod_back(answer: Any) -> None:
    def break_off() -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    [(name, gate)] = lifecycle(Point.PRE_ENQUEUE, plugin("G", pre_enqueue=break_off)).gates()
    assert name == "G"
    assert gate(POD).code is Code.ERROR
