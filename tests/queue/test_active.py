from __future__ import annotations

from typing import ClassVar

from tests.queue.support import by_priority, pod

from bayplan.framework import QueuedPod as AnyQueuedPod
from bayplan.framework.points import QueueSort
from bayplan.queue.heap import PodHeap, sort_key
from bayplan.queue.queued_pod import QueuedPod


class ByKey:
    name: ClassVar[str] = "ByKey"

    def sort_key(self, queued: AnyQueuedPod) -> tuple[int, float]:
        return by_priority(queued)


class ByLess:
    name: ClassVar[str] = "ByLess"

    def less(self, a: AnyQueuedPod, b: AnyQueuedPod) -> bool:
        return a.pod.name < b.pod.name


def order(queue_sort: QueueSort, *names_and_priorities: tuple[str, int]) -> list[str]:
    queue = PodHeap(sort_key(queue_sort))
    for name, priority in names_and_priorities:
        queue.add(QueuedPod(pod(name, priority).obj(), 0.0))
    return [queued.uid for queued in iter(queue.pop, None)]


def test_a_queue_sort_plugin_may_give_a_key() -> None:
    assert order(ByKey(), ("low", 1), ("high", 2)) == ["high", "low"]


def test_a_queue_sort_plugin_may_compare_two_pods() -> None:
    assert order(ByLess(), ("b", 9), ("a", 1), ("c", 5)) == ["a", "b", "c"]


def test_pods_that_compare_equal_keep_the_order_in_which_they_came() -> None:
    class AllEqual:
        name: ClassVar[str] = "AllEqual"

        def less(self, a: AnyQueuedPod, b: AnyQueuedPod) -> bool:
            return False

    assert order(AllEqual(), ("b", 0), ("a", 0), ("c", 0)) == ["b", "a", "c"]
