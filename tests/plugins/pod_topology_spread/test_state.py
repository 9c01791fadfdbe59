from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from random import Random

import numpy as np
import pytest

from bayplan.plugins.pod_topology_spread.state import _rounded


def neighbours(number: float) -> list[float]:
    return [math.nextafter(number, 0.0), number, math.nextafter(number, math.inf)]


@pytest.mark.parametrize("highest", [1e3, 1e7, 2.0**51], ids=["small", "wide", "at the limit"])
def test_scores_are_rounded_half_away_from_zero(highest: float) -> None:
    random = Random(1)
    whole = [0, 1, 2, 3, *(int(highest * random.random()) for _ in range(2000))]
    scores = [x for n in whole for half in (n, n + 0.5) for x in neighbours(float(half))]
    expected = [int(Decimal(x).to_integral_value(ROUND_HALF_UP)) for x in scores]
    assert _rounded(np.array(scores)).tolist() == expected
