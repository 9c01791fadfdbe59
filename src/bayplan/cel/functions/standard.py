"""The standard library: conversions, `size`, `type`, and tests on strings.

Source: cel-go common/stdlib and common/types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.functions.registry import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Kind,
    anything,
    function,
    method,
)
from bayplan.cel.golang.numbers import parse_float, parse_int, parse_uint
from bayplan.cel.golang.printing import text_of
from bayplan.cel.golang.quoting import utf8
from bayplan.cel.golang.times import (
    SECOND,
    checked_timestamp,
    parse_duration,
    parse_timestamp,
    seconds_text,
    timestamp_text,
)
from bayplan.cel.operators import undefined
from bayplan.cel.values import (
    INT_MAX,
    LISTS,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)

_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


@function("size", anything)
@method("size", anything)
def size(value: Value) -> int:
    """The number of characters, bytes, elements or entries."""
    if type(value) in LISTS or isinstance(value, (str, bytes, Map)):
        return len(value)
    raise undefined("size", value)


# -- conversions


def _reader(target: str, parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """The conversion of a string to the type `target`; `parse` gives None where there is none."""

    def read(text: str) -> Value:
        value = parse(text)
        if value is None:
            raise EvaluationError(f"type conversion error from 'string' to '{target}'")
        return value

    return read


string_to_duration = _reader("google.protobuf.Duration", parse_duration)
string_to_timestamp = _reader("google.protobuf.Timestamp", parse_timestamp)


def int_to_timestamp(seconds: int) -> Timestamp:
    """Seconds since 1970."""
    return checked_timestamp(seconds * SECOND)


def _parse_uint(text: str) -> Uint | None:
    number = parse_uint(text)
    return None if number is None else Uint(number)


def _double_to_int(number: float) -> int:
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


def _uint_to_int(number: Uint) -> int:
    if number > INT_MAX:
        raise EvaluationError("integer overflow")
    return int(number)


def _double_to_uint(number: float) -> Uint:
    if math.isnan(number) or not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _int_to_uint(number: int) -> Uint:
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _bytes_to_string(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


_TYPES: Final[dict[str, Kind]] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "duration": DURATION,
    "dyn": anything,
    "int": INT,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "uint": UINT,
}
_CONVERSIONS: Final[tuple[tuple[str, Kind, Callable[[Value], Value]], ...]] = (
    *((name, kind, lambda value: value) for name, kind in _TYPES.items()),
    ("type", anything, lambda value: TypeValue(type_name(value))),
    ("bool", STRING, _reader("bool", _BOOLEANS.get)),
    ("bytes", STRING, utf8),
    ("double", INT, float),
    ("double", UINT, float),
    ("double", STRING, _reader("double", parse_float)),
    ("duration", STRING, string_to_duration),
    ("int", DOUBLE, _double_to_int),
    ("int", DURATION, int),
    ("int", STRING, _reader("int", parse_int)),
    ("int", TIMESTAMP, lambda timestamp: timestamp.nanoseconds // SECOND),
    ("int", UINT, _uint_to_int),
    *(("string", kind, text_of) for kind in (BOOL, INT, UINT, DOUBLE)),
    ("string", BYTES, _bytes_to_string),
    ("string", DURATION, lambda duration: f"{seconds_text(duration)}s"),
    ("string", TIMESTAMP, timestamp_text),
    ("timestamp", INT, int_to_timestamp),
    ("timestamp", STRING, string_to_timestamp),
    ("uint", DOUBLE, _double_to_uint),
    ("uint", INT, _int_to_uint),
    ("uint", STRING, _reader("uint", _parse_uint)),
)
for _name, _kind, _convert in _CONVERSIONS:
    function(_name, _kind)(_convert)


# -- tests on strings


def _define_test(name: str, test: Callable[[str, str], bool]) -> None:
    @method(name, anything, anything)
    def run(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            no_such_overload()
        return test(text, part)


_define_test("contains", str.__contains__)
_define_test("startsWith", str.startswith)
_define_test("endsWith", str.endswith)
