"""Scalar types of the configuration, as strict as Go's decoder is about them.

Durations are written as in Go ("1m30s") and held as float seconds. Wrong input is a ValueError
whatever its type is: pydantic turns that error, and no other, into a complaint about the field.
"""

from __future__ import annotations

import base64
import binascii
import re
from decimal import Decimal
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from bayplan.support.go_durations import NANOSECONDS, duration_text

_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX_INT64 = 2**63 - 1

T = TypeVar("T")


def parse_duration(value: object) -> float:
    """Seconds of a Go duration such as "1h2m3.5s".

    Raises:
        ValueError: `value` is no such text, or lies beyond what 64 bits of nanoseconds hold.
    """
    if not isinstance(value, str):
        shown = "null" if value is None else value
        raise ValueError(f"must be a duration such as 15s or 1m30s, not {shown}")  # noqa: TRY004
    sign = -1 if value.startswith("-") else 1
    body = value.removeprefix("-" if sign < 0 else "+")
    if body == "0":
        return 0.0
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise ValueError(f'must be a duration such as 15s or 1m30s, not "{value}"')
    nanoseconds = sum(int(Decimal(number) * NANOSECONDS[unit]) for number, unit in parts)
    if nanoseconds > _MAX_INT64:
        raise ValueError(f'duration "{value}" is too long')
    return sign * nanoseconds / 10**9


def format_duration(seconds: float) -> str:
    """The text that Go prints for a duration of so many seconds."""
    return duration_text(round(seconds * 10**9))


def _parse_base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("must be base64 text")  # noqa: TRY004
    try:
        return base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except binascii.Error as error:
        raise ValueError(f"must be base64 text: {error}") from None


def zero_means(default: float | str) -> AfterValidator:
    """A validator that takes the zero value for "not set", where kube-scheduler does so."""
    return AfterValidator(lambda value: value or default)


Int32 = Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(strict=True, ge=-(2**63), le=_MAX_INT64)]
Float32 = Annotated[float, Field(strict=True, ge=-3.4028235e38, le=3.4028235e38)]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
Bytes = Annotated[
    bytes,
    BeforeValidator(_parse_base64),
    PlainSerializer(
        lambda value: base64.b64encode(value).decode(), return_type=str, when_used="json"
    ),
]
# A list of the file, held as a tuple.
Items = Annotated[tuple[T, ...], Field(strict=False)]
# An element of a list of texts: null there is the empty text, as it is for Go.
Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
