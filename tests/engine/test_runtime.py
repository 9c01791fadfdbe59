"""A profile's framework: PostFilter plugins are asked until one decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.handles import make_handle
from tests.plugins.harness import table_of
from tests.scripted import Scripted, scripted

from bayplan.config.points import Point
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.engine.what_if import WhatIf
from bayplan.framework import PostFilterResult, Status
from bayplan.framework.cycle_state import CycleState
from bayplan.telemetry.instrument import Instrument
from bayplan.testing import make_node, make_pod

NO = Status.unschedulable("no")
POD = make_pod("p").obj()


class Durations(Instrument):
    """Remembers which points ran, and how they ended."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str]] = []

    def extension_point(self, point: str, profile: str, status: str, seconds: float) -> None:
        self.points.append((point, status))


def ask(*answers: Any, instrument: Instrument | None = None) -> tuple[Any, list[Scripted]]:
    """What these PostFilter plugins come to, for a Pod that fits nowhere."""
    nodes = table_of(make_node("n1"), make_node("n2"))
    handle = make_handle(nodes)
    plugins = [
        scripted(f"P{i}", post_filter=answer)(None, handle) for i, answer in enumerate(answers)
    ]
    enabled = {Point.POST_FILTER: [(plugin, 0) for plugin in plugins]}
    what_if = WhatIf(handle.nominator, handle.services)
    framework = Framework("test", enabled, handle, what_if, instrument or Instrument())
    diagnosis = Diagnosis(nodes, CycleState(), POD)
    diagnosis.override(np.flatnonzero(nodes.exists), NO.by("F"))
    asked = framework.plugins.post_filter
    return framework.post_filter(CycleState(), POD, diagnosis, asked), plugins


def test_the_first_plugin_that_makes_room_ends_the_search() -> None:
    room = PostFilterResult(Status(), "n1")
    result, plugins = ask(PostFilterResult(NO), room, PostFilterResult(NO))
    assert result == room
    assert [plugin.calls for plugin in plugins] == [["post_filter"], ["post_filter"], []]


def test_without_room_all_reasons_are_told_and_the_last_nomination_counts() -> None:
    result, _ = ask(
        PostFilterResult(Status.unschedulable("a"), "n1"),
        PostFilterResult(Status.unschedulable("b"), ""),
        PostFilterResult(Status.unschedulable("c")),
    )
    assert result == PostFilterResult(Status.unschedulable("a", "b", "c"), "")


def test_an_unresolvable_answer_ends_the_search() -> None:
    hopeless = PostFilterResult(Status.unresolvable("never"))
    result, plugins = ask(hopeless, PostFilterResult(Status()))
    assert result == hopeless
    assert plugins[1].calls == []


def test_an_error_ends_the_search_with_its_plugin_named() -> None:
    result, _ = ask(PostFilterResult(Status.error("oh")), PostFilterResult(Status()))
    assert result.status == Status.error("oh").by("P0")


@pytest.mark.parametrize("answer", [None, NO, OSError("disk")])
def test_another_answer_is_a_fault(answer: Any) -> None:
    with pytest.raises(AttemptFault) as caught:
        ask(answer)
    assert (caught.value.point, caught.value.plugin) == (Point.POST_FILTER, "P0")


def test_the_duration_is_reported_with_the_outcome() -> None:
    durations = Durations()
    ask(PostFilterResult(NO), instrument=durations)
    assert durations.points == [("PostFilter", "Unschedulable")]


def test_a_profiles_what_if_has_its_filters_once_the_framework_is_made() -> None:
    handle = make_handle()
    what_if = WhatIf(handle.nominator, handle.services)
    assert not what_if.stages
    mine = scripted("Mine", filter=None)(None, handle)
    framework = Framework("test", {Point.FILTER: [(mine, 0)]}, handle, what_if, Instrument())
    assert [stage.name for stage in what_if.stages] == ["Mine"]
    assert framework.search.what_if is what_if
