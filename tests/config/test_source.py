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


LAUGHS = "a0: &a0 [x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
MERGES = "m0: &m0 {a: 1}\n" + "".join(
    f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 10)}]}}\n" for i in range(1, 12)
)
ALIASES = "aliases stand for more than 10000 values"
HOSTILE = {
    "aliases of aliases": (LAUGHS, ALIASES),
    "merges of merges": (MERGES, ALIASES),
    "lists in lists": ("- " * 5000, "is nested deeper than 200 levels"),
    "mappings in mappings": ("a: " + "{a: " * 5000, "is nested deeper than 200 levels"),
    "open brackets": ("[" * 5000, "is nested deeper than 200 levels"),
    "JSON in JSON": ('{"a": ' * 5000, "is nested deeper than 200 levels"),
    "an integer": ("a:\n  b: " + "9" * 5001, "line 2: a.b: a number of 5001 digits"),
    "a hexadecimal integer": ("a: 0x" + "f" * 5001, "line 1: a: a number of 5003 digits"),
    "an integer in JSON": ('{"a": ' + "9" * 5001 + "}", "a number of 5001 digits"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_text_that_would_take_all_memory_or_time_is_refused(name: str) -> None:
    text, message = HOSTILE[name]
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert str(error.value).endswith(message)


def test_aliases_that_come_to_little_are_followed() -> None:
    text = "a: &a [1, 2]\nb: [*a, *a]\n"
    assert parse(text).data == {"a": [1, 2], "b": [[1, 2], [1, 2]]}
