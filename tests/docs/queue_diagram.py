"""Draws the queue's places and moves as the Mermaid diagram of docs/architecture.md.

``python -m tests.docs.queue_diagram`` prints it.
"""

from __future__ import annotations

from bayplan.queue.places import MOVES, Place


def queue_diagram() -> str:
    """The diagram, fenced for Markdown."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{place.value}" as {_id(place)}' for place in Place if " " in place.value]
    for came_from, moves in MOVES.items():
        lines += [f"    {_id(came_from)} --> {_id(to)}: {why}" for to, why in moves.items()]
    return "\n".join([*lines, "```"])


def _id(place: Place) -> str:
    return place.value.replace(" ", "_")


if __name__ == "__main__":
    print(queue_diagram())  # noqa: T201
