from __future__ import annotations

from bayplan.cache.node_table import CodedColumn
from bayplan.plugins.shared.coded_answers import CodedAnswers


def column(*values: str | None) -> CodedColumn:
    coded = CodedColumn(len(values))
    for row, value in enumerate(values):
        if value is not None:
            coded.codes[row] = coded.code(value)
    return coded


def test_every_value_is_asked_about_once_and_rows_without_value_get_the_absent_answer() -> None:
    asked: list[str] = []

    def is_a(value: str) -> bool:
        asked.append(value)
        return value == "a"

    answers = CodedAnswers(is_a, absent=True)
    values = column("a", "b", None, "a", "b")
    assert answers.of(values).tolist() == [True, False, True, True, False]
    assert answers.of(values).tolist() == [True, False, True, True, False]
    assert asked == ["a", "b"]


def test_a_new_value_is_asked_about_without_asking_the_old_ones_again() -> None:
    asked: list[str] = []

    def length(value: str) -> int:
        asked.append(value)
        return len(value)

    answers = CodedAnswers(length, absent=-5, dtype=int)
    values = column("a", "bb", None)
    assert answers.of(values).tolist() == [1, 2, -5]
    values.codes[2] = values.code("ccc")
    assert answers.of(values).tolist() == [1, 2, 3]
    assert asked == ["a", "bb", "ccc"]


def test_the_column_of_another_table_starts_anew() -> None:
    answers = CodedAnswers(lambda value: value == "a", absent=False)
    assert answers.of(column("a", "b")).tolist() == [True, False]
    assert answers.of(column("b", "a")).tolist() == [False, True]


def test_a_column_without_values_answers_absent_everywhere() -> None:
    assert CodedAnswers(bool, absent=True).of(column(None, None)).tolist() == [True, True]
