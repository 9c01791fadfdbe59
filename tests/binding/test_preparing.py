"""Pods in PreBind: whoever is first decides, the one who calls back or the worker that finishes."""

from __future__ import annotations

from bayplan.binding.preparing import PreparingPod


def test_a_pod_that_is_called_back_does_not_finish() -> None:
    pod = PreparingPod()
    assert pod.call_back("preempted")
    assert not pod.finish()
    assert pod.called_back == "preempted"


def test_a_pod_that_has_finished_cannot_be_called_back() -> None:
    pod = PreparingPod()
    assert pod.finish()
    assert not pod.call_back("preempted")
    assert pod.called_back == ""


def test_the_first_who_calls_back_says_why() -> None:
    pod = PreparingPod()
    assert pod.call_back("first")
    assert pod.call_back("second")
    assert pod.called_back == "first"


def test_plugins_are_told_once_however_late_they_ask() -> None:
    pod, told = PreparingPod(), []
    pod.on_call_back(lambda: told.append("early"))
    pod.call_back("preempted")
    pod.on_call_back(lambda: told.append("late"))
    pod.call_back("again")
    assert told == ["early", "late"]
