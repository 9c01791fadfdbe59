"""Point: the extension points, each spelled once.

A member's value is its name in configuration files, `Point.display` the one in metrics, logs and
messages. What a plugin implements at a point is in `bayplan.framework.points`.
"""

from __future__ import annotations

import enum


class Point(enum.StrEnum):
    """An extension point; the members are in the order of the pipeline."""

    display: str

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    NORMALIZE_SCORE = "normalizeScore"
    RESERVE = "reserve"
    UNRESERVE = "unreserve"
    PERMIT = "permit"
    PRE_BIND_PRE_FLIGHT = "preBindPreFlight"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"
    PLACEMENT_FEASIBLE = "placementFeasible"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"
    CARRY_OUT = "carryOut"

    def __init__(self, name: str) -> None:
        self.display = name[0].upper() + name[1:]


_STEPS = frozenset(
    {
        Point.NORMALIZE_SCORE,
        Point.UNRESERVE,
        Point.PRE_BIND_PRE_FLIGHT,
        Point.PLACEMENT_FEASIBLE,
        Point.CARRY_OUT,
    }
)
"""Steps of other points: they have methods of their own, but no configuration names them."""

EXTENSION_POINTS = tuple(point for point in Point if point not in _STEPS)
"""The points that a configuration names; the last three place groups of Pods."""

SCORE_POINTS = frozenset({Point.SCORE, Point.PLACEMENT_SCORE})
"""The points where plugins have weights."""

PLACEMENT_POINTS = frozenset({Point.PLACEMENT_GENERATE, Point.PLACEMENT_SCORE})
"""The points that are about sets of nodes for groups of Pods."""
