"""ExactQuantity: an amount without rounding, with the text form of the API server's libraries.

Capacity that a claim consumes is computed from slices and requests and written into the claim's
status, so value and notation must both be right. Source: ``pkg/api/resource/quantity.go`` of
``k8s.io/apimachinery``: amounts are held in steps of 1e-9, a smaller one is rounded away from zero.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from bayplan.api.quantity import Amount, QuantityError, parse

NANO = 10**9
_MAX_INT64 = 2**63 - 1
_DECIMAL_SUFFIXES = {3 * i: name for i, name in enumerate(("n", "u", "m", "", *"kMGTPE"), -3)}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_PARTS = re.compile(r"[+-]?(\d*)\.?(\d*)(.*)", re.ASCII)
_FAST_DIGITS = {"DecimalSI": 18, "DecimalExponent": 18, "BinarySI": 15}


class ExactQuantity(NamedTuple):
    """An amount and its notation.

    Attributes:
        nano: the amount in steps of 1e-9.
        format: DecimalSI, BinarySI or DecimalExponent.
        text: the notation that it came in, where that is kept; else empty.
        small: whether Go holds it as a 64-bit integer, so that copies compare equal there.
    """

    nano: int
    format: str = "DecimalSI"
    text: str = ""
    small: bool = True

    def __str__(self) -> str:
        return self.text or _canonical(self.nano, self.format)

    @property
    def whole(self) -> int:
        """Whole units, rounded away from zero."""
        return _away_from_zero(Fraction(self.nano, NANO))

    def identical(self, other: ExactQuantity) -> bool:
        """Whether Go's ``==`` holds, which looks at the notation too."""
        return self == other and self.small and other.small


def of_whole(units: int, notation: str) -> ExactQuantity:
    """Whole units in a notation (resource.NewQuantity)."""
    return ExactQuantity(units * NANO, notation)


@lru_cache(maxsize=65536)
def quantity(amount: Amount) -> ExactQuantity:
    """Read an amount; raises QuantityError for what is none."""
    text = str(amount).strip()
    exact = parse(text)
    match = _PARTS.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity")
    whole, fraction, suffix = match.groups()
    whole = whole.lstrip("0") or "0"
    notation, exponent = _suffix(suffix)
    small = _held_as_integer(whole, fraction, notation, exponent)
    nano = _away_from_zero(exact * NANO)
    if notation == "BinarySI" and not small:
        nano = max(min(nano, _MAX_INT64 * NANO), -_MAX_INT64 * NANO)
        if 0 < abs(nano) < NANO:
            notation = "DecimalSI"
    if text == "0":
        return ExactQuantity(0, notation, text)
    kept = small and _notation_is_kept(whole, fraction, notation, exponent)
    return ExactQuantity(nano, notation, text if kept else "", small)


def _suffix(suffix: str) -> tuple[str, int]:
    """The format and the exponent: of 2 for BinarySI, of 10 for the others."""
    if suffix in _BINARY_SUFFIXES and suffix:
        return "BinarySI", 10 * _BINARY_SUFFIXES.index(suffix)
    for exponent, name in _DECIMAL_SUFFIXES.items():
        if suffix == name:
            return "DecimalSI", exponent
    return "DecimalExponent", int(suffix[1:])


def _held_as_integer(whole: str, fraction: str, notation: str, exponent: int) -> bool:
    digits = len(whole) + len(fraction)
    if notation == "BinarySI":
        return not fraction and digits + int(exponent * 3 / 10) + 1 <= _FAST_DIGITS[notation]
    return digits <= _FAST_DIGITS[notation] and exponent - len(fraction) >= -9


def _notation_is_kept(whole: str, fraction: str, notation: str, exponent: int) -> bool:
    digits = whole + fraction
    if notation == "BinarySI":
        return int(digits) % 8 != 0
    aligned = (exponent - len(fraction)) % 3 == 0
    return aligned and not digits.endswith("000") and not digits.startswith("0")


def _canonical(nano: int, notation: str) -> str:
    if nano == 0:
        return "0"
    if notation == "BinarySI" and nano % NANO == 0 and abs(nano) >= 1024 * NANO:
        return _binary(nano // NANO)
    decimal = "DecimalSI" if notation == "BinarySI" else notation
    digits, exponent = nano, -9
    while digits % 1000 == 0:
        digits, exponent = digits // 1000, exponent + 3
    if decimal == "DecimalSI":
        return f"{digits}{_DECIMAL_SUFFIXES.get(exponent, '')}"
    return f"{digits}e{exponent}" if exponent else str(digits)


def _binary(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        units, power = units // 1024, power + 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _away_from_zero(number: Fraction) -> int:
    return math.ceil(number) if number >= 0 else math.floor(number)
