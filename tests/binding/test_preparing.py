"""Pods in PreBind: the first of cancel and finish wins."""

from __future__ import annotations

from bayplan.binding.preparing import PreparingPod


def test_a_pod_that_is_called_back_does_not_finish() -> None:
    pod = PreparingPod()
    assert pod.cancel("preempted")
    assert not pod.finish()
    assert pod.cancelled == "preempted"


def test_a_pod_that_has_finished_cannot_be_called_back() -> None:
    pod = PreparingPod()
    assert pod.finish()
    assert not pod.cancel("preempted")
    assert pod.cancelled == ""


def test_the_first_who_calls_back_says_why() -> None:
    pod = PreparingPod()
    assert pod.cancel("first")
    assert pod.cancel("second")
    assert pod.cancelled == "first"


def test_plugins_are_told_once_however_late_they_ask() -> None:
    pod, told = PreparingPod(), []
    pod.on_cancel(lambda: told.append("early"))
    pod.cancel("preempted")
    pod.on_cancel(lambda: told.append("late"))
    pod.cancel("again")
    assert told == ["early", "late"]
