"""``python -m e2e.allocations``: judge random problems; prints differences, made small."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from e2e.allocations.compare import Outcome, compare
from e2e.allocations.generator import generate
from e2e.allocations.judge import Judge
from e2e.allocations.shrink import shrink
from e2e.provider.programs import ALLOCJUDGE


def main() -> int:
    """Judge the problems that the arguments ask for; 1 where there are differences."""
    parser = argparse.ArgumentParser(prog="python -m e2e.allocations", description=__doc__)
    parser.add_argument("--number", type=int, default=5000, help="how many problems")
    parser.add_argument("--seed", type=int, default=1, help="the first one's seed")
    parser.add_argument("--shown", type=int, default=3, help="differences that are printed small")
    options = parser.parse_args()
    outcomes: Counter[Outcome] = Counter()
    different = []
    with Judge(ALLOCJUDGE.binary()) as judge:
        for seed in range(options.seed, options.seed + options.number):
            difference = compare(judge, generate(seed), outcomes)
            if difference is None:
                continue
            different.append(seed)
            if len(different) <= options.shown:
                small = shrink(generate(seed), lambda p: compare(judge, p) is not None)
                print(f"seed {seed}:", json.dumps(small, indent=1), compare(judge, small), sep="\n")
    print(f"{options.number} problems, {len(different)} differences: {different[:20]}")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:8} nodes: {outcome}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
