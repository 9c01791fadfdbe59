"""What tests compare on clusters that have nodes of their own."""

import pytest
from e2e.messages import as_if_alone

CORDONED = "node(s) were unschedulable"
HELPLESS = "Preemption is not helpful for scheduling"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            f"0/4 nodes are available: 2 Insufficient cpu, 2 {CORDONED}.",
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="only theirs are cordoned",
        ),
        pytest.param(
            f"0/4 nodes are available: 1 Insufficient cpu, 3 {CORDONED}.",
            f"0/2 nodes are available: 1 Insufficient cpu, 1 {CORDONED}.",
            id="one of ours too",
        ),
        pytest.param(
            f"0/4 nodes are available: 1 {CORDONED}, 3 node(s) didn't satisfy plugin(s) [A].",
            f"0/2 nodes are available: 1 {CORDONED}, 1 node(s) didn't satisfy plugin(s) [A].",
            id="theirs are not even looked at",
        ),
        pytest.param(
            '0/4 nodes are available: persistentvolumeclaim "c" not found. not found',
            '0/2 nodes are available: persistentvolumeclaim "c" not found. not found',
            id="a reason without a number",
        ),
        pytest.param(
            f"0/3 nodes are available: 1 Insufficient cpu, 2 {CORDONED}. preemption: "
            f"0/3 nodes are available: 1 No preemption victims found, 2 {HELPLESS}.",
            "0/1 nodes are available: 1 Insufficient cpu. preemption: "
            "0/1 nodes are available: 1 No preemption victims found.",
            id="preemption",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 {CORDONED}. preemption: "
            f"0/2 nodes are available: 2 {HELPLESS}.",
            "no nodes available to schedule pods",
            id="there are only theirs",
        ),
        pytest.param(f"0/4 nodes are available: 3 {CORDONED}.", f"1 {CORDONED}", id="a part"),
        pytest.param("gated by a", "gated by a", id="another text"),
    ],
)
def test_what_is_said_beside_two_nodes_of_others_is_what_is_expected(
    message: str, expected: str
) -> None:
    assert expected in as_if_alone(message, expected, 2)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            f"0/4 nodes are available: 1 Insufficient cpu, 1 Too many pods, 2 {CORDONED}.",
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="another reason",
        ),
        pytest.param(
            f"0/3 nodes are available: 2 Insufficient cpu, 1 {CORDONED}.",
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="another number of nodes",
        ),
        pytest.param(
            f"0/4 nodes are available: 4 {CORDONED}.", f"1 {CORDONED}", id="too many for a part"
        ),
        pytest.param(
            f"0/4 nodes are available: 2 Insufficient cpu, 2 {CORDONED}. preemption: "
            f"0/4 nodes are available: 4 {HELPLESS}.",
            "0/2 nodes are available: 2 Insufficient cpu. preemption: "
            "0/2 nodes are available: 2 No preemption victims found.",
            id="another second sentence",
        ),
    ],
)
def test_another_message_stays_another_one(message: str, expected: str) -> None:
    assert expected not in as_if_alone(message, expected, 2)
