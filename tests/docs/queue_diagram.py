"""Draws the queue's states and moves as the Mermaid diagram of docs/architecture.md.

``python -m tests.docs.queue_diagram`` prints it.
"""

from __future__ import annotations

from bayplan.queue.states import MOVES, QueueState


def queue_diagram() -> str:
    """The diagram, fenced for Markdown."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [
        f'    state "{state.value}" as {_id(state)}' for state in QueueState if " " in state.value
    ]
    for came_from, moves in MOVES.items():
        lines += [f"    {_id(came_from)} --> {_id(to)}: {why}" for to, why in moves.items()]
    return "\n".join([*lines, "```"])


def _id(state: QueueState) -> str:
    return state.value.replace(" ", "_")


if __name__ == "__main__":
    print(queue_diagram())  # noqa: T201
