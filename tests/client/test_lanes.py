"""The lanes, with a clock that the test sets and no network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.properties import length

from bayplan.client.errors import ApiError, Forbidden, NotFound, ServerError, Timeout, Unreachable
from bayplan.client.lanes import EVENT_PAUSE, EVENTS_IN_FLIGHT, LONGEST_PAUSE, Lanes
from bayplan.client.request import ApiRequest, Lane

BIND, STATUS, EVENT = Lane.BIND, Lane.STATUS, Lane.EVENT


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def request(lane: Lane = STATUS, path: str = "/", **fields: Any) -> ApiRequest:
    return ApiRequest("POST", path, lambda _: None, lane=lane, **fields)


def make(clock: Clock, **settings: Any) -> Lanes:
    return Lanes(clock=clock, jitter=lambda: 0.0, **settings)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def taken(lanes: Lanes) -> list[str]:
    """The paths of everything that may be sent now."""
    paths = []
    while (request := lanes.take()) is not None:
        paths.append(request.path)
    return paths


def source(*requests: ApiRequest) -> Callable[[], ApiRequest | None]:
    waiting = list(requests)
    return lambda: waiting.pop(0) if waiting else None


def patch(path: str, body: bytes) -> ApiRequest:
    return ApiRequest("PATCH", path, lambda _: None, body=body, idempotent=True)


def test_patches_of_one_path_go_one_after_the_other(clock: Clock) -> None:
    lanes = make(clock)
    first, second, third = (patch("/a", body) for body in (b"1", b"2", b"3"))
    other = patch("/b", b"4")
    for each in (first, second, third, other):
        lanes.put(each)
    assert [lanes.take(), lanes.take(), lanes.take()] == [first, other, None]
    assert lanes.statistics().waiting[STATUS] == 2
    assert not lanes.empty
    # Until the first one has succeeded or failed for good, whatever else has.
    assert lanes.settle(other, b"")
    assert not lanes.settle(first, Unreachable("refused"))
    assert lanes.take() is None
    clock.now += 60
    assert lanes.take() is first
    assert lanes.settle(first, Forbidden("no"))
    assert [lanes.take(), lanes.take()] == [second, None]
    assert lanes.settle(second, b"")
    assert lanes.take() is third
    assert lanes.settle(third, b"")
    assert lanes.empty


def test_what_waits_for_a_patch_is_drained_too(clock: Clock) -> None:
    lanes = make(clock)
    first, second = patch("/a", b"1"), patch("/a", b"2")
    lanes.put(first)
    lanes.put(second)
    assert [lanes.take(), lanes.take()] == [first, None]
    assert lanes.drain() == [second]
    assert lanes.settle(first, b"")
    assert lanes.empty


def test_a_deletion_between_patches_of_one_path_holds_nothing_up_for_ever(clock: Clock) -> None:
    lanes = make(clock)
    first, last = patch("/a", b"1"), patch("/a", b"3")
    deletion = ApiRequest("DELETE", "/a", lambda _: None, idempotent=True)
    for each in (first, deletion, last):
        lanes.put(each)
    for each in (first, deletion, last):
        assert [lanes.take(), lanes.take()] == [each, None]
        assert lanes.settle(each, b"")
    assert lanes.empty


def test_what_is_drained_before_its_next_try_holds_nothing_up(clock: Clock) -> None:
    lanes = make(clock, qps=1.0, burst=1)
    first, second = patch("/a", b"1"), patch("/a", b"2")
    lanes.put(first)
    assert lanes.take() is first
    assert not lanes.settle(first, Unreachable("refused"))
    clock.now += 0.5
    # Its next try is due, but the rate limit does not let it go yet.
    assert lanes.take() is None
    assert lanes.drain() == [first]
    lanes.put(second)
    clock.now += 1
    assert lanes.take() is second


class Racing(deque[ApiRequest]):
    """A lane to which another thread appends just after it was found to be empty."""

    late: ApiRequest | None = None

    def __len__(self) -> int:
        length = super().__len__()
        if length == 0 and self.late is not None:
            late, self.late = self.late, None
            self.append(late)
        return length


def test_a_status_write_that_comes_while_the_next_is_chosen_has_its_place(clock: Clock) -> None:
    lanes = make(clock)
    racing = Racing()
    lanes._lanes = (deque(), racing, deque())
    racing.late = first = request(path="/a")
    assert [lanes.take(), lanes.take()] == [None, first]
    lanes.put(second := request(path="/a"))
    assert lanes.take() is None
    assert lanes.settle(first, b"")
    assert lanes.take() is second
    assert lanes.settle(second, b"")
    assert lanes.empty


def test_lanes_go_before_age(clock: Clock) -> None:
    lanes = make(clock)
    for path, lane in (("e", EVENT), ("s1", STATUS), ("b", BIND), ("s2", STATUS)):
        lanes.put(request(lane, path))
    assert taken(lanes) == ["b", "s1", "s2", "e"]


def test_no_more_are_taken_than_may_be_in_flight(clock: Clock) -> None:
    lanes = make(clock, max_in_flight=2)
    requests = [request(path=str(i)) for i in range(3)]
    for each in requests:
        lanes.put(each)
    assert taken(lanes) == ["0", "1"]
    assert lanes.settle(requests[0], b"")
    assert taken(lanes) == ["2"]


def test_nothing_is_taken_while_nothing_may_be_sent(clock: Clock) -> None:
    leads = False
    lanes = make(clock, may_send=lambda: leads)
    lanes.put(request(path="s"))
    assert taken(lanes) == []
    leads = True
    assert taken(lanes) == ["s"]


def test_the_rate_limit_says_when_the_next_may_go_and_events_have_their_own(clock: Clock) -> None:
    lanes = make(clock, qps=2.0, burst=1)
    for path, lane in (("s1", STATUS), ("s2", STATUS), ("e1", EVENT)):
        lanes.put(request(lane, path))
    assert taken(lanes) == ["s1"]
    assert lanes.pause() == 0.5
    clock.now += 0.5
    assert taken(lanes) == ["s2", "e1"]


@pytest.mark.parametrize(
    ("error", "fields", "delay"),
    [
        pytest.param(Unreachable(""), {}, 0.1, id="never sent"),
        pytest.param(ServerError(""), {"idempotent": True}, 0.1, id="in doubt, harmless"),
        pytest.param(Timeout(""), {}, None, id="in doubt, not harmless"),
        pytest.param(Forbidden(""), {}, None, id="refused"),
        pytest.param(Unreachable(""), {"max_tries": 1}, None, id="tried often enough"),
        pytest.param(Forbidden(""), {"must_know": True}, 0.1, id="a lookup that must be answered"),
        pytest.param(NotFound(""), {"must_know": True}, None, id="a lookup that was answered"),
    ],
)
def test_a_failed_request_is_taken_again_after_its_delay_or_never(
    clock: Clock, error: ApiError, fields: dict[str, Any], delay: float | None
) -> None:
    lanes = make(clock)
    lanes.put(failing := request(path="f", **fields))
    assert taken(lanes) == ["f"]
    assert lanes.settle(failing, error) is (delay is None)
    assert lanes.statistics().to_retry == (delay is not None)
    if delay is None:
        assert lanes.empty
        assert lanes.statistics().failed == 1
        return
    assert taken(lanes) == []
    assert lanes.pause() == pytest.approx(delay)
    lanes.put(request(path="later"))
    clock.now += delay
    assert taken(lanes) == ["f", "later"]
    assert failing.tries == 2


def test_a_status_write_does_not_wait_for_a_binding_that_is_to_be_retried(clock: Clock) -> None:
    lanes = make(clock)
    lanes.put(binding := request(BIND, "b"))
    assert taken(lanes) == ["b"]
    assert not lanes.settle(binding, Unreachable(""))
    lanes.put(request(path="s"))
    assert taken(lanes) == ["s"]


def test_the_event_source_is_asked_when_nothing_else_waits(clock: Clock) -> None:
    lanes = make(clock)
    lanes.set_event_source(source(request(EVENT, "e1"), request(EVENT, "e2")))
    lanes.put(request(path="s"))
    assert taken(lanes) == ["s", "e1", "e2"]


def test_events_that_are_announced_are_gathered_for_a_while(clock: Clock) -> None:
    waiting: list[ApiRequest] = []
    lanes = make(clock)
    lanes.set_event_source(lambda: waiting.pop(0) if waiting else None)
    assert taken(lanes) == []
    assert lanes.pause() == LONGEST_PAUSE
    waiting += [request(EVENT, "e1")]
    assert lanes.announce_event()
    waiting += [request(EVENT, "e2")]
    assert not lanes.announce_event()
    assert taken(lanes) == []
    assert lanes.pause() == pytest.approx(EVENT_PAUSE)
    clock.now += EVENT_PAUSE
    assert taken(lanes) == ["e1", "e2"]


def test_a_source_that_fills_up_gets_half_of_the_places_before_bindings(clock: Clock) -> None:
    lanes = make(clock, max_in_flight=40)
    waiting = [request(EVENT, "e") for _ in range(50)]
    full = True
    lanes.set_event_source(lambda: waiting.pop(0) if waiting else None, lambda: full)
    bindings = [request(BIND, "b") for _ in range(50)]
    for each in bindings:
        lanes.put(each)
    assert taken(lanes) == ["e"] * 20 + ["b"] * 20
    lanes.settle(bindings[0], b"")
    assert taken(lanes) == ["b"]
    full = False
    for each in bindings[1:5]:
        lanes.settle(each, b"")
    assert taken(lanes) == ["b"] * 4


@pytest.mark.parametrize("why", ["no token", "nothing there"])
def test_a_source_that_fills_up_does_not_hold_bindings_back(clock: Clock, why: str) -> None:
    lanes = make(clock, **({"qps": 1, "burst": 2} if why == "no token" else {}))
    waiting = [request(EVENT, f"e{i}") for i in range(3)] if why == "no token" else []
    lanes.set_event_source(lambda: waiting.pop(0) if waiting else None, lambda: True)
    lanes.put(request(BIND, "b1"))
    lanes.put(request(BIND, "b2"))
    assert [path for path in taken(lanes) if path[0] == "b"] == ["b1", "b2"]


def test_events_leave_room_and_a_process_that_ends_gathers_no_more(clock: Clock) -> None:
    lanes = make(clock)
    events = [request(EVENT, f"e{i}") for i in range(EVENTS_IN_FLIGHT + 1)]
    lanes.set_event_source(source(*events))
    assert len(taken(lanes)) == EVENTS_IN_FLIGHT
    lanes.put(request(BIND, "b"))
    assert taken(lanes) == ["b"]
    lanes.settle(events[0], b"")
    assert taken(lanes) == [f"e{EVENTS_IN_FLIGHT}"]
    lanes.settle(events[1], b"")
    assert taken(lanes) == []
    assert not lanes.eager
    lanes.ending = True
    assert lanes.eager


def test_an_outage_does_not_turn_the_event_source_into_retries(clock: Clock) -> None:
    lanes = make(clock)
    lanes.set_event_source(lambda: request(EVENT, "e", max_tries=99))
    for _ in range(5):
        tried = []
        while (event := lanes.take()) is not None:
            tried.append(event)
        for event in tried:
            lanes.settle(event, Unreachable(""))
        clock.now += 60
    assert lanes.statistics().to_retry == EVENTS_IN_FLIGHT


def test_bindings_can_be_dropped_with_those_that_wait_for_another_try(clock: Clock) -> None:
    lanes = make(clock)
    lanes.put(failed := request(BIND, "failed"))
    assert taken(lanes) == ["failed"]
    lanes.settle(failed, Unreachable(""))
    for path, lane in (("b", BIND), ("s", STATUS)):
        lanes.put(request(lane, path))
    assert [each.path for each in lanes.drop_bindings()] == ["b", "failed"]
    clock.now += 60
    assert taken(lanes) == ["s"]


class EveryRequestIsInOnePlace(RuleBasedStateMachine):
    """Whatever happens, a request is waiting, in flight, to be retried, or has ended once.

    Status writes of one path end in the order in which they were put.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.lanes = make(self.clock, max_in_flight=3, qps=5.0, burst=2)
        self.put, self.ended = 0, 0
        self.flying: list[ApiRequest] = []
        self.writes: dict[str, list[ApiRequest]] = {"/a": [], "/b": []}

    @rule(
        method=st.sampled_from(["POST", "PATCH", "DELETE"]),
        path=st.sampled_from(["/a", "/b"]),
        lane=st.sampled_from(Lane),
        idempotent=st.booleans(),
    )
    def submit(self, method: str, path: str, lane: Lane, idempotent: bool) -> None:
        each = ApiRequest(
            method, path, lambda _: None, lane=lane, idempotent=idempotent, max_tries=3
        )
        self.lanes.put(each)
        self.put += 1
        if lane is STATUS:
            self.writes[path].append(each)

    def end(self, each: ApiRequest) -> None:
        self.ended += 1
        if each.lane is STATUS:
            self.writes[each.path].remove(each)

    @rule()
    def take(self) -> None:
        while (each := self.lanes.take()) is not None:
            self.flying.append(each)
            if each.lane is STATUS:
                assert self.writes[each.path][0] is each
        assert len(self.flying) <= 3

    @precondition(lambda self: self.flying)
    @rule(
        data=st.data(),
        outcome=st.sampled_from([b"", Unreachable(""), ServerError(""), Forbidden("")]),
    )
    def settle(self, data: st.DataObject, outcome: bytes | ApiError) -> None:
        each = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        if self.lanes.settle(each, outcome):
            self.end(each)

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def drop(self) -> None:
        for each in self.lanes.drop_bindings():
            self.end(each)

    @rule()
    def drain(self) -> None:
        for each in self.lanes.drain():
            self.end(each)

    @rule()
    def wait_as_long_as_it_says(self) -> None:
        assert 0 <= self.lanes.pause() <= LONGEST_PAUSE
        self.clock.now += self.lanes.pause()

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        now = self.lanes.statistics()
        assert sum(now.in_flight) == len(self.flying)
        assert sum(now.waiting) + len(self.flying) + now.to_retry + self.ended == self.put
        assert self.lanes.empty == (self.ended == self.put)

    def teardown(self) -> None:
        """Everything comes to its end, once the server answers."""
        for _ in range(2 * self.put):
            self.take()
            for each in self.flying:
                assert self.lanes.settle(each, b"")
                self.end(each)
            self.flying.clear()
            self.clock.now += 20
        assert self.lanes.empty
        self.nothing_is_lost_or_doubled()


TestEveryRequestIsInOnePlace = EveryRequestIsInOnePlace.TestCase
TestEveryRequestIsInOnePlace.settings = length(100, steps=40)
