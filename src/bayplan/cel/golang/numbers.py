"""Numbers, parsed as in Go's strconv and printed as by Go's `%v` and `%g`."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from bayplan.cel.errors import EvaluationError
from bayplan.cel.golang.quoting import quote
from bayplan.cel.values import INT_MAX, UINT_MAX

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DIGITS = "[0-9](?:_?[0-9])*"
_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_INFINITY = re.compile(r"[+-]?(?:inf|infinity)", re.IGNORECASE)


def parse_int(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64), None where it fails."""
    if not _INTEGER.fullmatch(text):
        return None
    number = short_int(text)
    return number if number is not None and -INT_MAX - 1 <= number <= INT_MAX else None


def parse_uint(text: str) -> int | None:
    """strconv.ParseUint(text, 10, 64), None where it fails."""
    if not (text.isascii() and text.isdigit()):
        return None
    number = short_int(text)
    return number if number is not None and number <= UINT_MAX else None


def short_int(text: str) -> int | None:
    """The number of decimal digits with a sign; None if it is surely beyond 64 bits.

    Python itself refuses to read numbers of thousands of digits.
    """
    return int(text) if len(text.lstrip("+-0")) <= 20 else None


def parse_float(text: str) -> float | None:
    """strconv.ParseFloat(text, 64), None where it fails or overflows."""
    if _FLOAT.fullmatch(text):
        number = float(text)
        return None if math.isinf(number) else number
    if _INFINITY.fullmatch(text) or text.lower() == "nan":
        return float(text)
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except (OverflowError, ValueError):
            return None
    return None


def atoi(text: str) -> int:
    """strconv.Atoi(text).

    Raises:
        EvaluationError: with Go's text, when it is no number.
    """
    number = parse_int(text)
    if number is None:
        reason = "value out of range" if _INTEGER.fullmatch(text) else "invalid syntax"
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: {reason}")
    return number


def format_float(number: float) -> str:
    """`%v` or `%g` of a float64: the shortest digits that read back the same."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else ("+Inf" if number > 0 else "-Inf")
    shortest = Decimal(repr(number)).normalize()
    exponent = shortest.adjusted()
    if -4 <= exponent < 6:
        return plain_float(number)
    mantissa, _, _ = f"{shortest:e}".partition("e")
    return f"{mantissa}e{exponent:+03d}"


def plain_float(number: float) -> str:
    """strconv.FormatFloat(number, 'f', -1, 64) of a finite number."""
    return f"{Decimal(repr(number)):f}".removesuffix(".0")
