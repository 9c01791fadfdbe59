"""The standard library: conversions, `size`, `type`, and tests on strings.

Source: cel-go common/stdlib and common/types.
"""

from __future__ import annotations

import math

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
    Duration,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def conversion_error(source: str, target: str) -> EvaluationError:
    """The error of a value that has no counterpart of another type."""
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


@function("size", anything)
@method("size", anything)
def size(value: Value) -> int:
    """The number of characters, bytes, elements or entries."""
    if type(value) in LISTS or isinstance(value, (str, bytes, Map)):
        return len(value)
    raise undefined("size", value)


@function("type", anything)
def type_of(value: Value) -> TypeValue:
    """The type of a value."""
    return TypeValue(type_name(value))


@function("bool", BOOL)
@function("bytes", BYTES)
@function("double", DOUBLE)
@function("duration", DURATION)
@function("dyn", anything)
@function("int", INT)
@function("string", STRING)
@function("timestamp", TIMESTAMP)
@function("uint", UINT)
def identity(value: Value) -> Value:
    """A value that is of the type already."""
    return value


@function("bool", STRING)
def string_to_bool(text: str) -> bool:
    """What strconv.ParseBool reads."""
    if text not in _TRUE | _FALSE:
        raise conversion_error("string", "bool")
    return text in _TRUE


@function("bytes", STRING)
def string_to_bytes(text: str) -> bytes:
    """UTF-8."""
    return utf8(text)


@function("double", INT)
@function("double", UINT)
def integer_to_double(number: int) -> float:
    """The nearest double."""
    return float(number)


@function("double", STRING)
def string_to_double(text: str) -> float:
    """What strconv.ParseFloat reads."""
    number = parse_float(text)
    if number is None:
        raise conversion_error("string", "double")
    return number


@function("duration", STRING)
def string_to_duration(text: str) -> Duration:
    """What time.ParseDuration reads."""
    duration = parse_duration(text)
    if duration is None:
        raise conversion_error("string", "google.protobuf.Duration")
    return duration


@function("int", DOUBLE)
def double_to_int(number: float) -> int:
    """Without the fraction."""
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


@function("int", DURATION)
def duration_to_int(duration: Duration) -> int:
    """Nanoseconds."""
    return int(duration)


@function("int", STRING)
def string_to_int(text: str) -> int:
    """What strconv.ParseInt reads."""
    number = parse_int(text)
    if number is None:
        raise conversion_error("string", "int")
    return number


@function("int", TIMESTAMP)
def timestamp_to_int(timestamp: Timestamp) -> int:
    """Seconds since 1970."""
    return timestamp.nanoseconds // SECOND


@function("int", UINT)
def uint_to_int(number: Uint) -> int:
    """The same number."""
    if number > INT_MAX:
        raise EvaluationError("integer overflow")
    return int(number)


@function("string", BOOL)
@function("string", INT)
@function("string", UINT)
@function("string", DOUBLE)
def plain_to_string(value: Value) -> str:
    """As Go prints it."""
    return text_of(value)


@function("string", BYTES)
def bytes_to_string(data: bytes) -> str:
    """From UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


@function("string", DURATION)
def duration_to_string(duration: Duration) -> str:
    """In seconds."""
    return f"{seconds_text(duration)}s"


@function("string", TIMESTAMP)
def timestamp_to_string(timestamp: Timestamp) -> str:
    """By RFC 3339."""
    return timestamp_text(timestamp)


@function("timestamp", INT)
def int_to_timestamp(seconds: int) -> Timestamp:
    """Seconds since 1970."""
    return checked_timestamp(seconds * SECOND)


@function("timestamp", STRING)
def string_to_timestamp(text: str) -> Timestamp:
    """By RFC 3339."""
    timestamp = parse_timestamp(text)
    if timestamp is None:
        raise conversion_error("string", "google.protobuf.Timestamp")
    return timestamp


@function("uint", DOUBLE)
def double_to_uint(number: float) -> Uint:
    """Without the fraction."""
    if math.isnan(number) or not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


@function("uint", INT)
def int_to_uint(number: int) -> Uint:
    """The same number."""
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


@function("uint", STRING)
def string_to_uint(text: str) -> Uint:
    """What strconv.ParseUint reads."""
    number = parse_uint(text)
    if number is None:
        raise conversion_error("string", "uint")
    return Uint(number)


def _strings(text: Value, other: Value) -> None:
    if type(text) is not str or type(other) is not str:
        no_such_overload()


@method("contains", anything, anything)
def contains(text: Value, part: Value) -> bool:
    """Whether `part` is in the text."""
    _strings(text, part)
    return part in text


@method("startsWith", anything, anything)
def starts_with(text: Value, prefix: Value) -> bool:
    """Whether the text starts with `prefix`."""
    _strings(text, prefix)
    return bool(text.startswith(prefix))


@method("endsWith", anything, anything)
def ends_with(text: Value, suffix: Value) -> bool:
    """Whether the text ends with `suffix`."""
    _strings(text, suffix)
    return bool(text.endswith(suffix))
