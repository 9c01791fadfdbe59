"""Values, printed as by Go's `%v`; error texts contain such values."""

from __future__ import annotations

from bayplan.cel.budget import BUDGET
from bayplan.cel.errors import AbortedError
from bayplan.cel.golang.numbers import format_float
from bayplan.cel.golang.times import timestamp_text
from bayplan.cel.values import (
    LISTS,
    Duration,
    Extension,
    Map,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    weight,
)
from bayplan.support.go_durations import duration_text


def text_of(value: Value) -> str:
    """`%v` of a value, as error texts have it."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind in (int, Uint):
        return str(int(value))
    if kind is float:
        return format_float(value)
    if weight(value) > BUDGET:
        raise AbortedError("operation cancelled: actual cost limit exceeded")
    if kind in LISTS:
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, Map):
        pairs = (f"{text_of(key)}: {text_of(item)}" for key, item in value.entries.values())
        return f"{{{', '.join(pairs)}}}"
    return _text_of_others(value)


def _text_of_others(value: Value) -> str:
    if value is None:
        return "NULL_VALUE"
    if isinstance(value, bytes):
        return f"[{' '.join(map(str, value))}]"
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value, " ")
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Optional):
        return f"optional({text_of(value.value)})" if value.present else "optional.none()"
    assert isinstance(value, Extension)
    return value.text()
