"""Stages: both forms of a plugin answer in columns, and nonsense ends the attempt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from typing import Any

import numpy as np
import pytest
from tests.plugins.harness import table_of

from bayplan.cache.node_table import NodeTable
from bayplan.config.points import Point
from bayplan.engine import stages
from bayplan.engine.faults import AttemptFault, InvalidScoreError
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.engine.stages import FilterStage, ScoreStage
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Normalizer, Plugin
from bayplan.framework.status import SKIP, SUCCESS, WAIT, Code, Status
from bayplan.telemetry.instrument import Instrument
from bayplan.testing import make_node, make_pod

POD = make_pod("p").obj()
STATE = CycleState()


def no_reasons(*_: Any) -> Status:
    return Status.unschedulable("never asked")


class Failures(Instrument):
    """Counts plugins that raised."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []

    def plugin_failed(self, plugin: str, point: str) -> None:
        self.failed.append((plugin, point))


def call() -> Any:
    return ProfilePlugins("test", {}, Failures()).call


def plugin(**members: Any) -> Any:
    made: type[Any] = type("Mine", (Plugin,), members)
    return made(None, None)


def nodes() -> NodeTable:
    return table_of(*(make_node(f"n{i}") for i in range(4)))


def first(table: NodeTable, *wanted: int) -> Any:
    mask = np.zeros(len(table), np.bool_)
    mask[list(wanted)] = True
    return mask


# Filter


def test_a_one_node_filter_is_asked_about_the_undecided_nodes_alone() -> None:
    asked: list[str] = []
    answers = {
        "n0": None,
        "n1": SUCCESS,
        "n2": Status.unschedulable("no"),
        "n3": Status.unschedulable("no"),
    }

    def judge(_: Any, state: Any, pod: Any, node: Any) -> Any:
        asked.append(node.name)
        return answers[node.name]

    table = nodes()
    stage = FilterStage(plugin(filter=judge), call())
    codes = stage.codes(STATE, POD, table, first(table, 0, 1, 2))
    assert asked == ["n0", "n1", "n2"]
    assert codes[0] == codes[1] == codes[3] == 0
    assert stage.status(STATE, POD, int(codes[2])) == Status.unschedulable("no").by("Mine")
    again = stage.codes(STATE, POD, table, first(table, 3))
    assert again[3] == codes[2], "equal statuses have one code"


@pytest.mark.parametrize(
    ("answer", "negative", "status"),
    [
        (Status(reasons=("fine",)), False, None),
        (Status.unresolvable("x"), False, Status.unresolvable("x").by("Mine")),
        (Status.pending("x"), False, Status.pending("x").by("Mine")),
        (
            Status.error("x"),
            True,
            Status.error('running "Mine" filter plugin: x').by("Mine"),
        ),
        (WAIT, True, Status.error('running "Mine" filter plugin: ').by("Mine")),
        (SKIP, True, Status.error('running "Mine" filter plugin: ').by("Mine")),
    ],
    ids=["success", "unresolvable", "pending", "error", "wait", "skip"],
)
def test_codes_tell_success_rejections_and_errors_apart(
    answer: Status, negative: bool, status: Status | None
) -> None:
    table = nodes()
    stage = FilterStage(plugin(filter=lambda *_: answer), call())
    code = int(stage.codes(STATE, POD, table, first(table, 0))[0])
    if status is None:
        assert code == 0
        return
    assert (code < 0) is negative
    assert stage.status(STATE, POD, code) == status


def test_a_column_filter_answers_for_all_rows_in_its_own_codes() -> None:
    column = plugin(
        filter_nodes=lambda _self, state, pod, table: np.arange(len(table)) - 1,
        reasons=lambda _self, state, pod, code: (
            Status.error("broken") if code < 0 else Status.unschedulable(f"reason {code}")
        ),
    )
    table = nodes()
    stage = FilterStage(column, call())
    codes = stage.codes(STATE, POD, table, table.exists)
    assert codes[:3].tolist() == [-1, 0, 1]
    assert stage.status(STATE, POD, 1) == Status.unschedulable("reason 1").by("Mine")
    assert stage.status(STATE, POD, -1).code is Code.ERROR


def test_a_plugin_may_answer_for_another() -> None:
    stage = FilterStage(plugin(filter=lambda *_: Status.unschedulable("x").by("Other")), call())
    table = nodes()
    code = int(stage.codes(STATE, POD, table, first(table, 0))[0])
    assert stage.status(STATE, POD, code).plugin == "Other"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"filter": lambda *_: 1 / 0}, "ZeroDivisionError: division by zero"),
        ({"filter": lambda *_: "no"}, "TypeError: 'no' was returned, not a Status"),
        (
            {"filter_nodes": lambda *_: np.zeros(3, np.int64), "reasons": no_reasons},
            r"ValueError: an array of shape \(3,\) was returned, not \(64,\)",
        ),
        (
            {"filter_nodes": lambda *_: None, "reasons": no_reasons},
            "TypeError: None was returned, not an array of 64 codes",
        ),
        (
            {"filter_nodes": lambda *_: np.zeros(64, np.bool_), "reasons": no_reasons},
            "ValueError: codes must be integers, not bool",
        ),
        (
            {"filter_nodes": lambda *_: np.zeros(64), "reasons": no_reasons},
            "ValueError: codes must be integers, not float64",
        ),
        ({"filter": lambda *_: False}, "TypeError: False was returned, not a Status or None"),
        ({"filter": lambda *_: True}, "TypeError: True was returned, not a Status or None"),
        ({"filter": lambda *_: 0}, "TypeError: 0 was returned"),
        ({"filter": lambda *_: ""}, "TypeError: '' was returned"),
        ({"filter": lambda *_: []}, r"TypeError: \[\] was returned"),
    ],
)
def test_a_filter_that_breaks_ends_the_attempt(members: Any, text: str) -> None:
    table = nodes()
    stage = FilterStage(plugin(**members), call())
    with pytest.raises(AttemptFault, match=f'running Filter plugin "Mine": {text}'):
        stage.codes(STATE, POD, table, table.exists)


def test_statuses_are_remembered_through_an_attempt_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages, "MAX_STATUSES", 10)
    texts = iter(range(1000))
    stage = FilterStage(plugin(filter=lambda *_: Status.unschedulable(f"{next(texts)}")), call())
    table = nodes()
    begin = stage.codes(STATE, POD, table, table.exists)
    for _ in range(5):
        stage.codes(STATE, POD, table, table.exists)
    assert stage.status(STATE, POD, int(begin[3])).message == "3", "the attempt goes on"
    stage.begin()
    after = stage.codes(STATE, POD, table, table.exists)
    assert after[:4].tolist() == [1, 2, 3, 4]
    stage.begin()
    assert stage.status(STATE, POD, 1).message == "24"


@pytest.mark.parametrize(
    ("meaning", "text"),
    [
        (lambda *_: dict[int, Status]()[1], "KeyError: 1"),
        (lambda *_: "full", "TypeError: reasons returned 'full' for code 1, not a Status"),
    ],
)
def test_a_code_without_a_meaning_ends_the_attempt(meaning: Any, text: str) -> None:
    stage = FilterStage(plugin(filter_nodes=lambda *_: None, reasons=meaning), call())
    with pytest.raises(AttemptFault, match=text):
        stage.status(STATE, POD, 1)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_plugin_that_blocks_is_asked_on_workers(blocking: bool) -> None:
    threads: set[int] = set()

    def judge(*_: Any) -> None:
        threads.add(get_ident())

    table = nodes()
    with ThreadPoolExecutor(2) as pool:
        blocker = plugin(filter=judge, blocking=blocking)
        FilterStage(blocker, call(), pool).codes(STATE, POD, table, table.exists)
        FilterStage(blocker, call(), None).codes(STATE, POD, table, first(table))
    assert (get_ident() in threads) is not blocking


@pytest.mark.parametrize(
    ("depends", "local", "on_pods"),
    [
        (Depends.NODE, True, False),
        (Depends.PODS, True, True),
        (Depends.NODE | Depends.PODS, True, True),
        (Depends.CLUSTER, False, False),
        (Depends.CLUSTER | Depends.PODS, False, True),
    ],
)
def test_what_an_answer_depends_on(depends: Depends, local: bool, on_pods: bool) -> None:
    filtering = FilterStage(plugin(filter=None, filter_depends=depends), call())
    scoring = ScoreStage(plugin(score=None, score_depends=depends), 1, call())
    assert (filtering.local, filtering.on_pods) == (local, on_pods)
    assert (scoring.local, scoring.on_pods) == (local, on_pods)


# Score


def test_a_one_node_score_is_asked_about_feasible_nodes_alone() -> None:
    asked: list[str] = []

    def judge(_: Any, state: Any, pod: Any, node: Any) -> int:
        asked.append(node.name)
        return 7

    table = nodes()
    scores = ScoreStage(plugin(score=judge), 1, call()).raw(STATE, POD, table, first(table, 1, 3))
    assert asked == ["n1", "n3"]
    assert scores[:4].tolist() == [0, 7, 0, 7]


@pytest.mark.parametrize(
    ("normalizer", "raw", "normalized"),
    [
        (None, [0, 50, 100], [0, 50, 100]),
        (Normalizer(), [0, 5, 20], [0, 25, 100]),
        (Normalizer(reverse=True), [0, 5, 20], [100, 75, 0]),
        (Normalizer(), [0, 0, 0], [0, 0, 0]),
        (Normalizer(reverse=True), [0, 0, 0], [100, 100, 100]),
        (Normalizer(), [1, 3], [33, 100]),
        (Normalizer(), [], []),
    ],
)
def test_scores_are_normalized_as_the_plugin_says(
    normalizer: Normalizer | None, raw: list[int], normalized: list[int]
) -> None:
    stage = ScoreStage(plugin(score=None, normalizer=normalizer), 1, call())
    assert stage.normalized(STATE, POD, np.array(raw, np.int64)).tolist() == normalized


def test_narrow_integers_are_normalized_as_wide_ones() -> None:
    raw = np.array([1, 3, 200], np.uint8)
    assert Normalizer()(raw, 200).tolist() == [0, 1, 100]
    assert Normalizer(reverse=True)(raw, 200).tolist() == [100, 99, 0]


@pytest.mark.parametrize(("maximum", "normalized"), [(0, 100), (4, 50)])
def test_the_score_of_one_row_is_normalized_without_an_array_around_it(
    maximum: int, normalized: int
) -> None:
    score = np.array([2 if maximum else 0], np.uint8)[0]
    assert int(Normalizer(reverse=True)(score, maximum)) == normalized


def test_a_plugin_may_normalize_by_itself() -> None:
    def halve(_: Any, state: Any, pod: Any, scores: Any) -> Any:
        return scores // 2

    stage = ScoreStage(plugin(score=lambda *_: 150, normalize_score=halve), 1, call())
    table = nodes()
    raw = stage.raw(STATE, POD, table, first(table, 0))
    assert stage.normalized(STATE, POD, raw[:1]).tolist() == [75]
    assert not stage.local


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"score": lambda *_: 7}, [7, 7]),
        ({"score": lambda _p, _s, _pod, n: 1 + n.row, "normalizer": Normalizer()}, [33, 100]),
        ({"score": lambda *_: 9, "normalize_score": lambda _s, _t, _p, x: x + len(x)}, [11, 11]),
    ],
    ids=["as they are", "by the highest", "by the plugin"],
)
def test_scores_of_all_rows_are_normalized_among_the_feasible(
    members: Any, expected: list[int], trusted: bool
) -> None:
    table = nodes()
    stage = ScoreStage(plugin(**members), 3, call(), trusted=trusted)
    scores = stage.scores(STATE, POD, table, first(table, 0, 2))
    assert scores is not None
    assert scores.shape == (len(table),)
    assert scores[[0, 2]].tolist() == expected


@pytest.mark.parametrize("writeable", [False, True])
def test_a_column_that_nobody_may_write_to_is_normalized_once_for_the_same_nodes(
    writeable: bool,
) -> None:
    column = np.zeros(64, np.int64)
    column[:4] = [1, 2, 3, 4]
    column.setflags(write=writeable)
    members = {"score_nodes": lambda *_: column, "normalizer": Normalizer()}
    stage, table = ScoreStage(plugin(**members), 1, call(), trusted=True), nodes()
    found = [
        stage.scores(STATE, POD, table, first(table, *feasible), where)
        for feasible, where in (((0, 1), 5), ((0, 1), 5), ((0, 3), 6), ((0, 3), None))
    ]
    said = [scores[:2].tolist() for scores in found if scores is not None]
    assert said == [[50, 100], [50, 100], [25, 50], [25, 50]]
    assert (found[0] is found[1]) is not writeable
    assert found[2] is not found[3]


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        ({"score": lambda *_: 101}, 101),
        ({"score": lambda *_: -1}, -1),
        ({"score": lambda *_: -1, "normalizer": Normalizer()}, -1),
        ({"score": lambda *_: 1, "normalize_score": lambda _s, _t, _p, scores: scores * 500}, 500),
    ],
    ids=["above", "below", "below, normalized", "above, normalized"],
)
def test_a_score_outside_of_its_bounds_ends_the_attempt(members: Any, wrong: int) -> None:
    table = nodes()
    stage = ScoreStage(plugin(**members), 1, call())
    feasible = first(table, 0, 1)
    text = f'plugin "Mine" returns an invalid score {wrong}, it should in the range of .0, 100. '
    with pytest.raises(AttemptFault, match=text):
        stage.normalized(STATE, POD, stage.raw(STATE, POD, table, feasible)[feasible])


@pytest.mark.parametrize(
    ("members", "point", "hint"),
    [
        ({"score": lambda *_: 101}, "Score", True),
        ({"score": lambda *_: -1}, "Score", False),
        (
            {"score": lambda *_: 1, "normalize_score": lambda _s, _t, _p, scores: scores * 500},
            "NormalizeScore",
            False,
        ),
    ],
)
def test_a_score_out_of_bounds_is_counted_and_says_what_helps(
    members: Any, point: str, hint: bool
) -> None:
    table, failures = nodes(), Failures()
    stage = ScoreStage(plugin(**members), 1, ProfilePlugins("test", {}, failures).call)
    with pytest.raises(AttemptFault) as caught:
        stage.scores(STATE, POD, table, first(table, 0, 1))
    assert failures.failed == [("Mine", point)]
    assert isinstance(caught.value.cause, InvalidScoreError)
    assert ("normalizer = Normalizer()" in str(caught.value)) is hint


def test_what_is_said_of_nodes_that_are_not_feasible_does_not_matter() -> None:
    stage = ScoreStage(plugin(score_nodes=lambda *_: np.full(64, 999)), 1, call())
    table = nodes()
    assert stage.raw(STATE, POD, table, first(table)).shape == (64,)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"score": lambda *_: 1 / 0}, "Score plugin .Mine.: ZeroDivisionError"),
        ({"score": lambda *_: None}, "TypeError: scores must be integers, not None"),
        ({"score": lambda *_: "12"}, "TypeError: scores must be integers, not '12'"),
        ({"score": lambda *_: 12.7}, "TypeError: scores must be integers, not 12.7"),
        ({"score": lambda *_: True}, "TypeError: scores must be integers, not True"),
        (
            {"score_nodes": lambda *_: [1] * 64},
            r"TypeError: \[1, .*\] was returned, not an array of 64 scores",
        ),
        ({"score_nodes": lambda *_: np.zeros(64)}, "scores must be integers, not float64"),
        ({"score_nodes": lambda *_: np.zeros(3, np.int64)}, "an array of shape"),
        (
            {"score": lambda *_: 1, "normalize_score": lambda *_: np.zeros(9, np.int64)},
            "NormalizeScore plugin .Mine.: ValueError: an array of shape",
        ),
        (
            {"score": lambda *_: 1, "normalize_score": lambda *_: 1 / 0},
            "NormalizeScore plugin .Mine.: ZeroDivisionError",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_score_that_breaks_ends_the_attempt(members: Any, text: str) -> None:
    table = nodes()
    stage = ScoreStage(plugin(**members), 1, call())
    with pytest.raises(AttemptFault, match=text):
        stage.normalized(STATE, POD, stage.raw(STATE, POD, table, table.exists)[table.exists])


def test_an_attempt_that_is_over_stays_over() -> None:
    def end(*_: Any) -> None:
        raise AttemptFault(None, "webhook", RuntimeError("enough"))

    failures = Failures()
    caller = ProfilePlugins("test", {}, failures).call
    with pytest.raises(AttemptFault, match=r"^enough$"):
        caller(plugin(), Point.FILTER, end)
    assert failures.failed == []
    with pytest.raises(AttemptFault, match=r"^running Filter plugin"):
        caller(plugin(), Point.FILTER, lambda: 1 / 0)
    assert failures.failed == [("Mine", "Filter")]
