"""`python -m tests.judge_slices CASES`: layouts of slices against the best of all ways."""

from __future__ import annotations

import random
import sys

import numpy as np
from tests.slice_judge import Question, Rack, best, rank_of

from bayplan.cache.group_topology import SlicePlacement
from bayplan.groups.slice_layout import layout
from bayplan.groups.slice_problem import SliceProblem
from bayplan.groups.slice_tables import Weights


def check(seed: int) -> bool:
    """Lay out random slices on a random tree; whether they fit.

    Raises:
        AssertionError: the layout is not as good as the best way.
    """
    draw = random.Random(seed)
    depth = draw.choice([0, 1, 1, 2])
    racks = sorted(_rack(draw, number, depth) for number in range(draw.randint(1, 7)))
    size = each = draw.choice([1, 1, 2, 3])
    ratios, outer = [0] * depth, dict[int, int]()
    for position in reversed(range(depth)):
        if draw.random() < 0.5:
            ratios[position] = draw.choice([1, 2, 3])
            each *= ratios[position]
            outer[position] = each
    number = draw.randint(1, max(1, 12 // each))
    even = draw.random() < 0.5
    question = Question(racks, number * each, size, outer, even=even)
    levels = [sorted({rack.path[position] for rack in racks}) for position in range(depth)]
    above = [
        np.array([level.index(rack.path[position]) for rack in racks])
        for position, level in enumerate(levels)
    ]
    room = np.array([rack.room for rack in racks])
    problem = SliceProblem(room // size, room, above, ratios, number)
    weights = Weights(room, [*map(len, levels), len(racks)], problem.inner)
    wanted = best(question)
    for placement in SlicePlacement:
        found = layout(problem, weights, placement)
        rank = None if found is None else rank_of(question, (found.slices * size).tolist())
        assert (rank is None) == (wanted is None), (seed, placement, question)
        if placement is (SlicePlacement.BALANCED if even else SlicePlacement.TIGHTEST):
            assert rank == wanted, (seed, placement, question, rank, wanted)
    return wanted is not None


def _rack(draw: random.Random, number: int, depth: int) -> Rack:
    block = draw.randint(0, 2)
    path = (f"z{block % 2}", f"b{block}")[2 - depth :]
    return Rack(f"r{number}", path, draw.randint(0, 6))


def main() -> None:
    """Check so many seeds."""
    cases = int(sys.argv[1])
    fit = sum(map(check, range(cases)))
    sys.stdout.write(f"{cases} cases, of which {fit} fit: none worse than the best way\n")


if __name__ == "__main__":
    main()
