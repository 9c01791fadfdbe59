from pathlib import Path

import pytest
from examples.plugins.support import load

from bayplan.framework import SUCCESS, WAIT, Code
from bayplan.testing import make_node, make_pod


@pytest.fixture
def rig():
    return load(Path(__file__).parent, [make_node("n").obj()])


def member(name, size="2", convoy="c"):
    return make_pod(name).labels({"convoy": convoy, "convoy-size": size}).node("n").obj()


def waits(rig, pod):
    """What the scheduler does with a Pod: assume it on its node, then ask for permission.

    Returns the verdict that it waits for, once there is one.
    """
    rig.add(pod)
    assert rig.plugin.permit(None, pod, "n") == (WAIT, 60)
    verdict = []
    rig.waiting.add(pod, {"Convoy": 60}, lambda status, _: verdict.append(status))
    return verdict


def test_a_pod_without_convoy_does_not_wait(rig):
    assert rig.plugin.permit(None, make_pod().obj(), "n") is SUCCESS


def test_the_last_pod_of_a_convoy_lets_all_go(rig):
    first, stranger = waits(rig, member("a")), waits(rig, member("x", convoy="other"))
    last = member("b")
    rig.add(last)
    assert rig.plugin.permit(None, last, "n") is SUCCESS
    assert first == [SUCCESS]
    assert stranger == []


def test_one_that_gives_up_takes_the_others_with_it(rig):
    first = member("a", size="3")
    waits(rig, first)
    second = waits(rig, member("b", size="3"))
    rig.waiting.remove(first.uid)
    rig.plugin.unreserve(None, first, "n")
    assert [status.message for status in second] == ["another Pod of the convoy gave up"]


def test_a_pod_that_replaces_one_that_ended_joins_those_that_run(rig):
    rig.add(member("running"))
    new = member("new")
    rig.add(new)
    assert rig.plugin.permit(None, new, "n") is SUCCESS


def test_a_size_that_is_no_number_is_turned_down(rig):
    status = rig.plugin.permit(None, member("a", size="many"), "n")
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "label convoy-size is no number: 'many'"
