from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.queue.support import by_priority, pod

from bayplan.queue.heap import PodHeap
from bayplan.queue.queued_pod import QueuedPod


def queued(name: str, priority: int = 0) -> QueuedPod:
    return QueuedPod(pod(name, priority).obj(), 0.0)


def drain(heap: PodHeap) -> list[str]:
    names = []
    while (first := heap.pop()) is not None:
        names.append(first.uid)
    return names


def heap_of(*pods: QueuedPod) -> PodHeap:
    heap = PodHeap(by_priority)
    for each in pods:
        heap.add(each)
    return heap


def test_pods_come_out_by_key_and_equal_ones_as_they_came_in() -> None:
    heap = heap_of(queued("low", 1), queued("high", 9), queued("first", 5), queued("second", 5))
    assert drain(heap) == ["high", "first", "second", "low"]


def test_a_pod_that_was_taken_out_does_not_come_out() -> None:
    gone = queued("gone", 9)
    heap = heap_of(gone, queued("stays"))
    assert heap.discard(gone)
    assert gone not in heap
    first = heap.peek()
    assert first is not None
    assert first.uid == "stays"
    assert drain(heap) == ["stays"]


def test_taking_out_a_pod_that_is_not_in_changes_nothing() -> None:
    heap = heap_of(queued("a"))
    assert not heap.discard(queued("b"))
    assert len(heap) == 1


def test_a_pod_whose_key_changed_takes_its_new_place_once() -> None:
    riser = queued("riser", 1)
    heap = heap_of(riser, queued("middle", 5))
    riser.pod = pod("riser", 9).obj()
    heap.update(riser)
    assert len(heap) == 2
    assert drain(heap) == ["riser", "middle"]


def test_an_update_that_leaves_the_key_alone_keeps_the_pod_before_later_ones() -> None:
    early = queued("early")
    heap = heap_of(early, queued("late"))
    early.pod = pod("early").label("new", "label").obj()
    heap.update(early)
    assert drain(heap) == ["early", "late"]


def test_an_empty_heap_has_no_first_pod() -> None:
    heap = heap_of()
    assert heap.peek() is None
    assert heap.pop() is None


def test_stale_entries_do_not_pile_up() -> None:
    heap = heap_of(queued("stays"))
    for i in range(1000):
        passing = queued(f"passing-{i}")
        heap.add(passing)
        heap.discard(passing)
    assert len(heap._heap) < 100
    assert drain(heap) == ["stays"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-5, 5), st.booleans())))
def test_it_orders_like_a_sorted_list_of_the_pods_that_are_in(
    steps: list[tuple[int, int, bool]],
) -> None:
    heap = heap_of()
    model: dict[str, tuple[int, int]] = {}
    for order, (number, priority, add) in enumerate(steps):
        each = queued(str(number), priority)
        if add:
            heap.add(each)
            model[each.uid] = (-priority, order)
        else:
            assert heap.discard(each) is (model.pop(each.uid, None) is not None)
    assert {q.uid for q in heap} == set(model)
    assert drain(heap) == sorted(model, key=lambda uid: model[uid])
