"""`string.format()`: clauses `%s %d %f %e %b %x %X %o`, with a precision for `%f` and `%e`.

Source: cel-go ext/formatting.go, with the locale en_US: digits are grouped by commas, exponents
are written as powers of ten.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

from bayplan.cel.budget import check_length
from bayplan.cel.errors import EvaluationError
from bayplan.cel.golang.numbers import atoi, format_float
from bayplan.cel.golang.printing import text_of
from bayplan.cel.golang.quoting import quote, utf8
from bayplan.cel.golang.times import seconds_text, timestamp_text
from bayplan.cel.values import (
    LISTS,
    TYPE_NAMES,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)

Formatter = Callable[[Value], str]

_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_CLAUSE: Final = re.compile(r"%(?:\.([0-9]*))?(.?)", re.DOTALL)
_SPECIAL_TEXTS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_HEX = "only integers, byte buffers, and strings can be formatted as hex, was given {}"
_ALLOWED: Final[dict[str, tuple[frozenset[str], str]]] = {
    "s": (
        frozenset(TYPE_NAMES.values()) - {"optional_type"},
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps, was given {}",
    ),
    "d": (
        frozenset({"int", "uint"}),
        "decimal clause can only be used on integers, was given {}",
    ),
    "b": (
        frozenset({"int", "uint", "bool"}),
        "only integers and bools can be formatted as binary, was given {}",
    ),
    "o": (
        frozenset({"int", "uint"}),
        "octal clause can only be used on integers, was given {}",
    ),
    "x": (frozenset({"int", "uint", "string", "bytes"}), _HEX),
    "X": (frozenset({"int", "uint", "string", "bytes"}), _HEX),
    "f": (
        frozenset({"double", "string"}),
        "fixed-point clause can only be used on doubles, was given {}",
    ),
    "e": (
        frozenset({"double", "string"}),
        "scientific clause can only be used on doubles, was given {}",
    ),
}
"""By clause, the names of the types that it takes, and what to say of others."""


def interpolate(template: str, arguments: Sequence[Value]) -> str:
    """The template with its clauses replaced by the arguments, in order.

    Raises:
        EvaluationError: a clause is unknown, or does not fit its argument.
    """
    return _interpolate(template, arguments, _formatter)


def _interpolate(
    template: str,
    arguments: Sequence[Value],
    formatter_of: Callable[[str, int], Formatter | None],
) -> str:
    result: list[str] = []
    position = used = length = 0
    while (percent := template.find("%", position)) >= 0:
        result.append(template[position:percent])
        if template.startswith("%%", percent):
            result.append("%")
            position = percent + 2
            continue
        if used >= len(arguments):
            raise EvaluationError(f"index {used} out of range")
        formatter, position = _clause(template, percent, formatter_of)
        result.append(_formatted(formatter, arguments[used]))
        length += len(result[-1])
        check_length(length)
        used += 1
    return "".join([*result, template[position:]])


def check_format(template: str, kinds: Sequence[str]) -> tuple[int | None, str] | None:
    """What is wrong with a template for arguments of types with these names ("dyn": any).

    Returns:
        The index of the argument (None for the call) and the message; None if nothing is wrong.
    """
    used: list[str] = []

    def clause(letter: str) -> Formatter:
        allowed, message = _ALLOWED[letter]

        def check(kind: Value) -> str:
            used.append(kind)
            if kind != "dyn" and kind not in allowed:
                raise EvaluationError(message.format(kind))
            return ""

        return check

    try:
        _interpolate(
            template, kinds, lambda letter, _: clause(letter) if letter in _ALLOWED else None
        )
    except EvaluationError as reason:
        in_argument = str(reason).startswith("error during formatting")
        return len(used) - 1 if in_argument else None, str(reason)
    if len(kinds) > len(used):
        message = (
            f"too many arguments supplied to string.format (expected {len(used)}, got {len(kinds)})"
        )
        return None, message
    return None


def _formatted(formatter: Formatter, argument: Value) -> str:
    try:
        return formatter(argument)
    except EvaluationError as reason:
        raise EvaluationError(f"error during formatting: {reason}") from None


def _clause(
    template: str, percent: int, formatter_of: Callable[[str, int], Formatter | None]
) -> tuple[Formatter, int]:
    if percent + 1 == len(template):
        raise EvaluationError("unexpected end of string")
    match = _CLAUSE.match(template, percent)
    assert match is not None
    digits, letter = match.groups()
    problem = "could not parse formatting clause: "
    if digits is not None and not letter:
        raise EvaluationError(
            f"{problem}error while parsing precision: could not find end of precision specifier"
        )
    try:
        formatter = formatter_of(letter, atoi(digits) if digits is not None else 6)
    except EvaluationError as reason:
        message = "error while parsing precision: error while converting precision to integer"
        raise EvaluationError(f"{problem}{message}: {reason}") from None
    if formatter is None:
        shown = letter.encode()[0:1].decode("latin-1")  # cel-go looks at a byte
        raise EvaluationError(f'{problem}unrecognized formatting clause "{shown}"')
    return formatter, match.end()


def _formatter(letter: str, precision: int) -> Formatter | None:
    if letter not in _ALLOWED:
        return None

    def checked(value: Value) -> str:
        if type_name(value) not in _ALLOWED[letter][0]:
            raise _refuse(letter, value)
        return formatters[letter](value)

    formatters: dict[str, Formatter] = {
        "s": _text,
        "d": lambda value: str(int(value)),
        "b": lambda value: f"{int(value):b}",
        "o": lambda value: f"{int(value):o}",
        "x": _hexadecimal,
        "X": lambda value: _hexadecimal(value).upper(),
        "f": lambda value: _fixed(_double(value, letter), precision),
        "e": lambda value: _scientific(_double(value, letter), precision),
    }
    return checked


def _refuse(letter: str, value: Value) -> EvaluationError:
    return EvaluationError(_ALLOWED[letter][1].format(type_name(value)))


def _text(value: Value) -> str:
    if type(value) in LISTS:
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, Map):
        return _map_text(value)
    if value is None:
        return "null"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            # cel-go prints the error that it does not expect here.
            reason = "invalid UTF-8 in bytes, cannot convert to string"
            message = f"could not convert argument {quote(reason)} to string"
            raise EvaluationError(message) from None
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return f"{seconds_text(value)}s"
    return text_of(value)


def _nested(value: Value) -> str:
    # An element of a list or a map.
    if isinstance(value, Timestamp):
        return f"timestamp({quote(timestamp_text(value))})"
    if isinstance(value, Duration):
        return f"duration({quote(seconds_text(value) + 's')})"
    if type(value) is float:
        if math.isinf(value) or math.isnan(value):
            return quote(format_float(value))
        return f"{value:.6f}"
    if type(value) is str:
        return quote(value)
    if type(value) is bytes:
        return f"b{quote(_text(value))}"
    if type(value) in LISTS or isinstance(value, (Map, TypeValue, bool, int)) or value is None:
        return _text(value)
    raise EvaluationError(f"no formatting function for {type_name(value)}")


def _map_text(mapping: Map) -> str:
    pairs = []
    for key, value in mapping.entries.values():
        if type(key) not in (str, bool, int, Uint):
            message = f"no formatting function for map key of type {type_name(key)}"
            raise EvaluationError(message)
        pairs.append((_nested(key), _nested(value)))
    pairs.sort(key=lambda pair: pair[0])
    return f"{{{', '.join(f'{key}:{value}' for key, value in pairs)}}}"


def _hexadecimal(value: Value) -> str:
    if isinstance(value, str):
        value = utf8(value)
    return value.hex() if isinstance(value, bytes) else f"{int(value):x}"


def _double(value: Value, letter: str) -> float:
    if type(value) is float or value in _SPECIAL_TEXTS:
        return float(value)
    raise _refuse(letter, value)


def _special(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    return ("∞" if number > 0 else "-∞") if math.isinf(number) else None


def _fixed(number: float, precision: int) -> str:
    check_length(precision)
    return _special(number) or f"{number or 0.0:,.{precision}f}"


def _scientific(number: float, width: int) -> str:
    # cel-go takes the precision of the clause for the width.
    check_length(width)
    if special := _special(number):
        return special.rjust(width)
    mantissa, _, exponent = f"{number or 0.0:.6e}".partition("e")
    power = f"{'-' if exponent[0] == '-' else ''}{exponent[1:]}"
    return f"{mantissa}\u00d710{power.translate(_SUPERSCRIPT)}".rjust(width)
