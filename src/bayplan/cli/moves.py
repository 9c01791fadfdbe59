"""A plan of ``bayplan improve``, as the page shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bayplan.cli.improve_apply import read
from bayplan.improve.applying import Plan, RefusedError, read_plan
from bayplan.view.board import Answer, Followed


def plan_in(path: Path) -> Plan:
    """The plan in a file.

    Raises:
        RefusedError: there is none in it, or one without an outcome.
    """
    data = read(str(path))
    try:
        plan = read_plan(data)
    except RefusedError as error:
        raise RefusedError(f"{path}: {error}") from None
    if not plan.reached:
        raise RefusedError(f"{path}: there is nothing to show: {plan.sentence}")
    return plan


def moves(plan: Plan, board: Followed) -> Callable[[], Answer]:
    """What a plan does to the cluster of ``board``, each time as that is then.

    Returns:
        ``moves``; ``goal``: nodes by Pod of the goal; ``placed``: nodes by Pod, where Pods come;
        ``leaving``: likewise, where they leave; ``elsewhere``: Pods that are not where they were.
    """

    def answer() -> Answer:
        there = set[tuple[str, str]]()
        for node in {move.from_ for move in plan.moves}:
            found = board.node(node) or {"pods": ()}
            there |= {(one["pod"], node) for one in found["pods"]}
        stays = [move for move in plan.moves if (move.pod, move.from_) in there]
        return {
            "sentence": plan.sentence,
            "moves": [
                {"step": one.step, "pod": one.pod, "from": one.from_, "to": one.to}
                for one in plan.moves
            ],
            "goal": plan.placed,
            "placed": {**{one.pod: one.to for one in stays}, **plan.placed},
            "leaving": {one.pod: one.from_ for one in stays},
            "elsewhere": [one.pod for one in plan.moves if one not in stays],
        }

    return answer
