from typing import Any

import pytest

from bayplan.config import ConfigError
from bayplan.config.source import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 8),
        ("-010", -8),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("08", 8),
        ("1e3", 1000),
        ("1.50", 1.5),
        ("1e21", 1e21),
        ("-.5", -0.5),
        ("_1", "_1"),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("y", True),
        ("Off", False),
        ("TRUE", True),
        ("yES", "yES"),
        ("~", None),
        ("''", ""),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!int 5", 5),
        ("!!float 5", 5),
        ("!!bool yes", True),
        ("!!null x", None),
        ("!secret 5", "5"),
        ("=", "="),
    ],
)
def test_a_scalar_is_what_kubernetes_makes_of_it(text: str, value: Any) -> None:
    found = parse(f"a: {text}\n").data["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int foo", 'line 1: "foo" is no int'),
        ("a: !!int ''", 'line 1: "" is no int'),
        ("a: !!bool 5", 'line 1: "5" is no bool'),
        ("b: 1\na: .NaN", "line 2: .NaN is no JSON number"),
        ("a: &x [*x]", "line 1: the anchor contains itself"),
        ("a: 1\n b: 2", "line 2: mapping values are not allowed here"),
        ("a: \x00", "unacceptable character"),
        ('{"a": }', "line 1: Expecting value"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
    ],
)
def test_text_that_cannot_be_read_says_where(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "duplicates"),
    [
        ("a: 1\nb: 2", []),
        ("a: 1\na: 2", ["a: duplicate field (line 2)"]),
        ("a: 1\n'a': 2\na: 3", ["a: duplicate field (line 2)", "a: duplicate field (line 3)"]),
        ("x:\n- {b: 1, b: 2}", ["x[0].b: duplicate field (line 2)"]),
        ("<<: {a: 1}\na: 2", ["a: duplicate field (line 2)"]),
        ("<<: [{a: 1}, {a: 2}]", ["a: duplicate field (line 1)"]),
        ('{"x": {"a": 1, "a": 2}}', ["a: duplicate field"]),
    ],
)
def test_a_key_that_comes_twice_is_noted_with_its_place(text: str, duplicates: list[str]) -> None:
    assert [str(error) for error in parse(text).duplicates] == duplicates


def test_merged_keys_stand_behind_own_ones_and_earlier_before_later() -> None:
    text = "a: 1\n<<: [{b: 2}, {c: 3, b: 9}]\n"
    assert parse(text).data == {"a": 1, "b": 2, "c": 3}


def test_keys_become_texts() -> None:
    assert parse("1: a\ntrue: b\n1.5: c\n").data == {"1": "a", "true": "b", "1.5": "c"}


@pytest.mark.parametrize(("text", "more"), [("a: 1", False), ("a: 1\n---\nb: 2", True)])
def test_only_the_first_document_is_read(text: str, more: bool) -> None:
    document = parse(text)
    assert (document.data, document.more) == ({"a": 1}, more)
