"""Which methods make a plugin part of which point, and what makes it row-local."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.config.points import Point
from bayplan.engine.profile_plugins import ProfilePlugins, Trust, is_local
from bayplan.framework.interface import Depends, Plugin
from bayplan.framework.points import FORMS, extension_points, methods
from bayplan.telemetry.instrument import Instrument
from bayplan.telemetry.metrics import Metrics


def plugin(name: str = "Mine", **members: Any) -> type[Any]:
    return type(name, (Plugin,), members)


def nothing(*_: Any) -> None:
    """A method."""


@pytest.mark.parametrize(
    ("point", "form"), [(point, form) for point, forms in FORMS.items() for form in forms]
)
def test_the_methods_of_a_form_make_a_plugin_part_of_its_point(point: Point, form: type) -> None:
    members: dict[str, Any] = dict.fromkeys(methods(form), nothing)
    cls = type("Mine", (Plugin,), members)
    assert extension_points(cls) == {point}
    assert isinstance(cls(None, None), form)


def test_other_methods_do_not() -> None:
    assert extension_points(plugin(events_to_register=nothing, add_pod=nothing)) == frozenset()


def test_a_plugin_is_not_called_where_it_is_idle() -> None:
    cls = plugin(reserve=nothing, unreserve=nothing, post_bind=nothing)
    one, other = cls(None, None), cls(None, None)
    other.idle = frozenset({Point.POST_BIND})
    both = [(one, 1), (other, 1)]
    points = {Point.RESERVE: both, Point.POST_BIND: both}
    plugins = ProfilePlugins("test", points, Instrument())
    assert plugins.reserve == (one, other)
    assert plugins.post_bind == (one,)


NODE, CLUSTER = Depends.NODE, Depends.CLUSTER


@pytest.mark.parametrize(
    ("members", "local"),
    [
        ({"filter": nothing, "filter_depends": NODE}, True),
        ({"filter": nothing}, False),
        ({"filter_nodes": nothing, "reasons": nothing, "filter_depends": NODE | CLUSTER}, False),
        ({"score": nothing, "score_depends": NODE}, True),
        ({"score_nodes": nothing}, False),
        ({"filter": nothing, "filter_depends": NODE, "score": nothing}, False),
        ({"pre_filter": nothing}, False),
        ({"pre_filter": nothing, "filter_depends": NODE}, True),
        (
            {"score": nothing, "score_depends": NODE, "normalize_score": nothing},
            False,
        ),
    ],
)
def test_a_plugin_is_row_local_when_all_its_answers_are(
    members: dict[str, Any], local: bool
) -> None:
    assert is_local(plugin(**members)(None, None)) is local


def test_plugins_are_found_by_point_each_once() -> None:
    a = plugin("A", filter=nothing, score=nothing)(None, None)
    b = plugin("B", score=nothing)(None, None)
    enabled = {Point.FILTER: [(a, 0)], Point.SCORE: [(b, 2), (a, 3)]}
    plugins = ProfilePlugins("p", enabled, Metrics())
    assert plugins.score == (b, a)
    assert plugins.permit == ()
    assert plugins.rejecting == (a,)
    assert plugins.all == (a, b)
    assert plugins.weights == {"B": 2, "A": 3}


@pytest.mark.parametrize("asked", [True, False])
def test_calls_of_in_tree_plugins_are_timed_only_where_an_instrument_asks(asked: bool) -> None:
    class Timings(Instrument):
        times_plugins = asked

        def __init__(self) -> None:
            self.calls: list[tuple[str, str, str]] = []

        def plugin_called(self, plugin: str, point: str, profile: str, seconds: float) -> None:
            self.calls.append((plugin, point, profile))

    timings = Timings()
    mine, ours = (plugin(name, filter=nothing)(None, None) for name in ("Mine", "Ours"))
    enabled = {Point.FILTER: [(mine, 0), (ours, 0)]}
    plugins = ProfilePlugins("p", enabled, timings, {"Ours": Trust()})
    for each in (mine, ours):
        plugins.call(each, Point.FILTER, nothing)
    calls = [("Mine", "Filter", "p"), ("Ours", "Filter", "p")]
    assert timings.calls == (calls if asked else calls[:1])
