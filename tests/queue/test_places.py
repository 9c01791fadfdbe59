from __future__ import annotations

import pytest

from bayplan.queue.places import MOVES, Place


def test_every_place_has_its_moves_and_can_be_reached_from_outside() -> None:
    assert set(MOVES) == set(Place)
    reached, new = {Place.OUTSIDE}, {Place.OUTSIDE}
    while new:
        new = {to for from_ in new for to in MOVES[from_]} - reached
        reached |= new
    assert reached == set(Place)


@pytest.mark.parametrize("place", [p for p in Place if p is not Place.OUTSIDE])
def test_a_pod_can_leave_from_everywhere(place: Place) -> None:
    assert Place.OUTSIDE in MOVES[place]


@pytest.mark.parametrize(
    ("place", "label"),
    [
        (Place.ACTIVE, "active"),
        (Place.BACKOFF, "backoff"),
        (Place.UNSCHEDULABLE, "unschedulable"),
        (Place.GATED, "unschedulable"),
    ],
)
def test_metrics_count_gated_pods_that_come_in_as_unschedulable(place: Place, label: str) -> None:
    assert place.label == label
