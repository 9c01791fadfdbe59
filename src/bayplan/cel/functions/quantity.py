"""Quantities: `quantity()`, the values of `device.capacity`, and their methods.

Source: k8s.io/apimachinery/pkg/api/resource. A quantity is a whole number times a power of ten. It
is `small` while the API machinery keeps it in 64 bits: `isInteger()` and `asInteger()` depend on
that form, not on the amount alone.
"""

from __future__ import annotations

import math
import re
from typing import Any

from bayplan.cel.errors import AbortedError, EvaluationError
from bayplan.cel.functions.registry import (
    INT,
    STRING,
    define_order,
    exactly,
    function,
    method,
    takes_what,
)
from bayplan.cel.values import INT_MAX, INT_MIN, Extension

_PARTS = re.compile(
    r"(?P<value>(?P<sign>[+-]?)0*(?P<number>[0-9]*)(?:\.(?P<fraction>[0-9]*))?)"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORMAT = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_NANO = -9
_MAX_DIGITS = 4000  # Python reads no longer numbers
_MAX_EXPONENT = 100_000  # beyond it, comparing would take forever


class Quantity(Extension):
    """`number` * 10 ** `exponent`."""

    type_name = "kubernetes.Quantity"
    __slots__ = ("derived", "exponent", "number", "original", "small")

    def __init__(self, number: int, exponent: int, small: bool, original: str | None) -> None:
        """`original` is the text it was read from; a sum has none."""
        self.number = number
        self.exponent = exponent
        self.small = small
        self.original = original
        self.derived = original is None

    @staticmethod
    def parse(text: str) -> Quantity:
        """The quantity that `text` stands for.

        Raises:
            EvaluationError: with Go's text, when it is none.
        """
        parts = _PARTS.fullmatch(text)
        if not text or parts is None:
            raise EvaluationError(f"quantities must match the regular expression '{_FORMAT}'")
        number, fraction = parts["number"] or "0", parts["fraction"] or ""
        if len(text) > _MAX_DIGITS:
            raise AbortedError("operation cancelled: actual cost limit exceeded")
        base, exponent = _interpret(parts["suffix"])
        digits = len(number) + len(fraction)
        sign = -1 if parts["sign"] == "-" else 1
        if base == 10:
            scale, room, factor = exponent - len(fraction), 18 - digits, 1
        else:
            scale, factor = 0, 1 << exponent
            room = -1 if fraction else 14 - len(number) - exponent * 3 // 10
        if room >= 0 and scale >= _NANO:
            value = int(number + fraction) * factor
            if value <= INT_MAX:
                return Quantity(sign * value, scale, True, text)
        if parts["value"] in {".", "+.", "-.", "+", "-"}:
            raise EvaluationError("unable to parse numeric part of quantity")
        amount = int(number + fraction) * (1 if base == 10 else 1 << exponent)
        return _large(sign, amount, scale if base == 10 else -len(fraction), base, text)

    def go_name(self) -> str:
        """What `%T` prints: sums are held by a pointer."""
        return f"*{super().go_name()}" if self.derived else super().go_name()

    def equals(self, other: Any) -> bool:
        """Whether the amounts are equal."""
        return self.compare(other) == 0

    def same_type(self, other: Any) -> bool:
        """Whether `other` is a quantity, not a computed one: Go compares those by pointer."""
        return type(other) is Quantity and not other.derived

    def text(self) -> str:
        """The text it was read from; a plain number for a sum."""
        return self.original or f"{self.number}e{self.exponent}"

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1 for less than, equal to or greater than `other`."""
        left, right, _ = self._aligned(other)
        return (left > right) - (left < right)

    def _aligned(self, other: Quantity) -> tuple[int, int, int]:
        low = min(self.exponent, other.exponent)
        if max(self.exponent, other.exponent) - low > _MAX_EXPONENT:
            raise AbortedError("operation cancelled: actual cost limit exceeded")
        left = self.number * 10 ** (self.exponent - low)
        right = other.number * 10 ** (other.exponent - low)
        return left, right, low

    def plus(self, other: Quantity, sign: int = 1) -> Quantity:
        """The sum with `other`, or the difference for a `sign` of -1."""
        if self.small and other.small:
            # Go's negation of the least int is itself.
            number = other.number if other.number == INT_MIN else sign * other.number
            if number == 0:
                return Quantity(self.number, self.exponent, True, None)
            if self.number == 0:
                return Quantity(number, other.exponent, True, None)
            small = Quantity(number, other.exponent, True, None)
            left, right, exponent = self._aligned(small)
            if all(INT_MIN <= each <= INT_MAX for each in (left, right, left + right)):
                return Quantity(left + right, exponent, True, None)
        left, right, exponent = self._aligned(other)
        return Quantity(left + sign * right, exponent, False, None)

    def as_int(self) -> int | None:
        """The amount as an int, if the quantity's form allows an int."""
        if not self.small or self.exponent < 0 or (self.exponent > 18 and self.number):
            return None
        amount = self.number * 10**self.exponent if self.number else 0
        return amount if INT_MIN <= amount <= INT_MAX else None


def _interpret(suffix: str) -> tuple[int, int]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return 2, _BINARY[suffix]
    if suffix[0] in "eE" and re.fullmatch(r"[+-]?[0-9]+", suffix[1:]):
        exponent = int(suffix[1:])
        if INT_MIN <= exponent <= INT_MAX:
            return 10, (exponent + 2**31) % 2**32 - 2**31
    raise EvaluationError("unable to parse quantity's suffix")


def _large(sign: int, amount: int, exponent: int, base: int, text: str) -> Quantity:
    # Rounded up to nano units; binary ones are capped.
    if amount:
        if exponent - _NANO > _MAX_EXPONENT:
            raise AbortedError("operation cancelled: actual cost limit exceeded")
        if exponent >= _NANO:
            amount *= 10 ** (exponent - _NANO)
        elif _NANO - exponent > len(str(amount)):
            amount = 1
        else:
            amount = -(-amount // 10 ** (_NANO - exponent))
        exponent = _NANO
    if base == 2 and amount > INT_MAX * 10**-_NANO:
        amount, exponent = INT_MAX, 0
    return Quantity(sign * amount, exponent, False, text)


def _as_approximate_float(amount: Quantity) -> float:
    try:
        number = float(amount.number)
    except OverflowError:
        number = math.inf if amount.number > 0 else -math.inf
    return number * float(f"1e{amount.exponent}") if amount.exponent else number


def _as_integer(amount: Quantity) -> int:
    number = amount.as_int()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _of_int(number: int) -> Quantity:
    return Quantity(number, 0, True, None)


_QUANTITY = exactly(Quantity)

function("quantity", STRING)(Quantity.parse)
function("isQuantity", STRING)(takes_what(Quantity.parse))
function("sign", _QUANTITY)(lambda amount: (amount.number > 0) - (amount.number < 0))
define_order(_QUANTITY)
method("asApproximateFloat", _QUANTITY)(_as_approximate_float)
method("asInteger", _QUANTITY)(_as_integer)
method("isInteger", _QUANTITY)(lambda amount: amount.as_int() is not None)
method("add", _QUANTITY, _QUANTITY)(Quantity.plus)
method("add", _QUANTITY, INT)(lambda amount, number: amount.plus(_of_int(number)))
method("sub", _QUANTITY, _QUANTITY)(lambda amount, other: amount.plus(other, -1))
method("sub", _QUANTITY, INT)(lambda amount, number: amount.plus(_of_int(number), -1))
