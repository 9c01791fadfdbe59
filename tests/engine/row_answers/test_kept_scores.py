"""Kept raw scores: narrow columns, none for a stage that gives zero everywhere."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from tests.core_harness import Cluster

from bayplan.engine.row_answers.kept_scores import KeptScores
from bayplan.engine.stages import ScoreStage
from bayplan.framework.interface import Depends, Normalizer, Plugin


class Score(Plugin):
    score_depends = Depends.NODE
    normalizer: ClassVar[Normalizer | None] = None

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


class Scaled(Score):
    normalizer = Normalizer()


class Reversed(Score):
    normalizer = Normalizer(reverse=True)


def stage(cls: type[Score], weight: int = 1) -> ScoreStage:
    handle = Cluster(Score, bare=True).plugin(Score).handle
    return ScoreStage(cls(None, handle), weight, lambda _p, _m, method, *args: method(*args))


ALL = slice(None)


def test_a_stage_that_gives_zero_everywhere_takes_no_memory_and_adds_a_constant() -> None:
    one, three = stage(Scaled), stage(Reversed, 3)
    kept = KeptScores([one, three])
    for each in (one, three):
        kept.write(each, ALL, np.zeros(4, np.int64), 4)
    assert kept.nbytes == 0
    assert kept.total(ALL, {}) == kept.constant == 300
    kept.write(three, np.array([2]), np.array([5]), 4)
    assert kept.nbytes == 4
    assert kept.constant == 0
    measures = kept.measures(np.ones(4, np.bool_))
    assert np.asarray(kept.total(ALL, measures)).tolist() == [300, 300, 0, 300]
    kept.write(three, np.array([2]), np.array([0]), 4)
    assert (kept.nbytes, kept.constant) == (0, 300)


@pytest.mark.parametrize(
    ("highest", "width"), [(255, 1), (256, 2), (70_000, 4)], ids=["byte", "two", "four"]
)
def test_columns_are_as_wide_as_their_highest_score(highest: int, width: int) -> None:
    kept = KeptScores([one := stage(Scaled)])
    kept.write(one, ALL, np.array([1, 2, 3]), 3)
    kept.write(one, np.array([1]), np.array([highest]), 3)
    assert kept.nbytes == 3 * width
    assert kept.measures(np.array([True, True, True])) == {"Scaled": highest}
    assert kept.measures(np.array([True, False, True])) == {"Scaled": 3}


@pytest.mark.parametrize("values", [[0, 5, 0], [5, 300, 5], [5, -3, 1 << 40], [5, 5, 6]])
def test_one_score_is_written_as_some_are(values: list[int]) -> None:
    both = [KeptScores([one := stage(Scaled)]) for _ in range(2)]
    versions = set()
    for value in values:
        both[0].write(one, np.array([1]), np.array([value]), 3)
        both[1].write_one(one, 1, value, 3)
        columns = [{n: c.tolist() for n, c in kept.columns.items()} for kept in both]
        assert columns[0] == columns[1]
        assert both[0].constant == both[1].constant
        versions.add(tuple(kept.version for kept in both))
    assert all(one == other for one, other in versions)


def test_scores_below_zero_are_kept_too() -> None:
    kept = KeptScores([one := stage(Score)])
    kept.write(one, ALL, np.array([1, 200, 3]), 3)
    kept.write(one, np.array([1, 2]), np.array([-5, 1 << 40]), 3)
    assert np.asarray(kept.total(ALL, {})).tolist() == [1, -5, 1 << 40]


def test_the_version_is_another_one_only_when_a_score_is() -> None:
    kept = KeptScores([one := stage(Scaled)])
    versions = []
    for values in ([1, 2, 3], [1, 2, 3], [1, 2, 4]):
        kept.write(one, ALL, np.array(values), 3)
        versions.append(kept.version)
    kept.write(one, np.array([2]), np.array([4]), 3)
    assert versions[0] == versions[1] != versions[2] == kept.version


@pytest.mark.parametrize("maximum", [0, 4])
@pytest.mark.parametrize("cls", [Score, Scaled, Reversed])
def test_one_row_has_the_score_that_it_has_among_all(cls: type[Score], maximum: int) -> None:
    kept = KeptScores([one := stage(cls)])
    kept.write(one, ALL, np.array([0, 4]), 2)
    measures = {one.name: maximum}
    every = np.asarray(kept.total(ALL, measures)).tolist()
    for _ in range(2):
        assert [kept.total_of(row, measures) for row in (0, 1)] == every
    others = {one.name: 8}
    every = np.asarray(kept.total(ALL, others)).tolist()
    assert [kept.total_of(row, others) for row in (0, 1)] == every
