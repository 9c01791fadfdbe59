"""What tests compare on clusters that have nodes of their own."""

import pytest
from e2e.cluster import without_cordoned


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "0/4 nodes are available: 2 Insufficient cpu, 2 node(s) were unschedulable.",
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="only-theirs-are-cordoned",
        ),
        pytest.param(
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) were unschedulable.",
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.",
            id="one-of-ours-too",
        ),
        pytest.param(
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. "
            "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling.",
            "0/1 nodes are available: 1 Insufficient cpu. preemption: "
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            id="preemption",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) were unschedulable. "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            "no nodes available to schedule pods",
            id="there-are-only-theirs",
        ),
        pytest.param("gated by a", "gated by a", id="another-text"),
    ],
)
def test_a_message_is_given_as_it_would_be_without_the_two_cordoned_nodes_of_others(
    message: str, expected: str
) -> None:
    assert without_cordoned(message, 2) == expected
