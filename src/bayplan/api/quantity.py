"""resource.Quantity: the notations of Kubernetes amounts, read exactly.

Source: the "Quantity" type of the Kubernetes API reference. A number with an optional SI suffix
(``n u m k M G T P E``), a binary suffix (``Ki`` .. ``Ei``) or a decimal exponent (``1e3``).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

Amount = str | int | float

_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{s: Fraction(1000 ** (i + 1)) for i, s in enumerate("kMGTPE")},
    **{f"{s}i": Fraction(1024 ** (i + 1)) for i, s in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(n|u|m|k|Ki|[MGTPE]i?))?", re.ASCII
)
_MAX = 2**63 - 1
_LONGEST = 1000
_EXPONENT = 3 * _LONGEST
"""Beyond that every amount but 0 is larger than `_MAX`, or smaller than any unit."""


class QuantityError(ValueError):
    """The text is no quantity."""


@lru_cache(maxsize=65536)
def parse(text: Amount) -> Fraction:
    """The exact amount that ``text`` stands for, where an exponent is at most 3000.

    A larger one counts as 3000, so nobody can make us compute numbers of a million digits.

    Raises:
        QuantityError: ``text`` is in none of the notations, or has more than 1000 characters.
    """
    return _parse(text)


def _parse(text: Amount) -> Fraction:
    plain = _plain(text)
    match = _QUANTITY.fullmatch(plain)
    if match is None or isinstance(text, bool):
        raise QuantityError(f"{text!r} is not a quantity (examples: 500m, 2, 1.5Gi, 1e3)")
    number, exponent, suffix = match.groups()
    if exponent:
        power = max(-_EXPONENT, min(int(exponent[1:]), _EXPONENT))
        return Fraction(number) * Fraction(10) ** power
    return Fraction(number) * _SUFFIXES[suffix or ""]


def _plain(text: Amount) -> str:
    if isinstance(text, int) and text.bit_length() > 3 * _LONGEST:  # str() has a limit, too
        raise QuantityError(f"a number of {text.bit_length()} bits is not a quantity")
    plain = str(text).strip()
    if len(plain) > _LONGEST:
        start = plain[:20]
        raise QuantityError(f"{start!r}... ({len(plain)} characters) is not a quantity")
    return plain


def measured(text: Amount) -> float:
    """`parse` as a float, for amounts that do not come again: nothing is cached.

    Raises:
        QuantityError: as `parse`.
        OverflowError: there is no such float.
    """
    return float(_parse(text))


def _ceil(amount: Fraction) -> int:
    return min(math.ceil(amount), _MAX) if amount >= 0 else max(math.floor(amount), -_MAX)


@lru_cache(maxsize=65536)
def value(text: Amount) -> int:
    """Whole units, rounded away from zero, held within 64 bits (bytes, counts)."""
    return _ceil(parse(text))


@lru_cache(maxsize=65536)
def milli(text: Amount) -> int:
    """Thousandths, rounded away from zero, held within 64 bits (milli-CPU)."""
    return _ceil(parse(text) * 1000)


def base(resource: str) -> str:
    """The resource of a column ``resource@kind``, see `bayplan.cache.queue_tree.kinds`."""
    return resource.partition("@")[0]


def of(resource: str, text: Amount) -> int:
    """The amount in the unit that the scheduler counts ``resource`` in: milli for cpu."""
    return milli(text) if base(resource) == "cpu" else value(text)


def shown(resource: str, amount: int) -> str:
    """``amount``, in the unit of `of`, as a person reads it: cores, or bytes with a suffix."""
    resource = base(resource)
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource not in _BYTES and not resource.startswith("hugepages-"):
        return str(amount)
    for power, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if abs(amount) >= 1 << power:
            return f"{amount / (1 << power):.4g}{suffix}"
    return str(amount)


def shown_apart(resource: str, one: int, other: int) -> tuple[str, str]:
    """Two unequal amounts as `shown` or, where both would look the same, exactly."""
    texts = shown(resource, one), shown(resource, other)
    if texts[0] != texts[1]:
        return texts
    return canonical(resource, one), canonical(resource, other)


def canonical(resource: str, amount: int) -> str:
    """``amount``, in the unit of `of`, exactly and as Kubernetes writes it: 300m, 2, 1536Mi."""
    resource = base(resource)
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if amount and (resource in _BYTES or resource.startswith("hugepages-")):
        for power, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if amount % (1 << power) == 0:
                return f"{amount >> power}{suffix}"
    return str(amount)


_BYTES = frozenset({"memory", "ephemeral-storage"})
