from __future__ import annotations

import pytest

from bayplan.queue.states import MOVES, QueueState


def test_every_place_has_its_moves_and_can_be_reached_from_outside() -> None:
    assert set(MOVES) == set(QueueState)
    reached, new = {QueueState.OUTSIDE}, {QueueState.OUTSIDE}
    while new:
        new = {to for from_ in new for to in MOVES[from_]} - reached
        reached |= new
    assert reached == set(QueueState)


@pytest.mark.parametrize("state", [p for p in QueueState if p is not QueueState.OUTSIDE])
def test_a_pod_can_leave_from_everywhere(state: QueueState) -> None:
    assert QueueState.OUTSIDE in MOVES[state]


@pytest.mark.parametrize(
    ("state", "label"),
    [
        (QueueState.ACTIVE, "active"),
        (QueueState.BACKOFF, "backoff"),
        (QueueState.UNSCHEDULABLE, "unschedulable"),
        (QueueState.GATED, "unschedulable"),
    ],
)
def test_metrics_count_gated_pods_that_come_in_as_unschedulable(
    state: QueueState, label: str
) -> None:
    assert state.label == label
