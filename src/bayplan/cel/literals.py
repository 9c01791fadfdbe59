"""The values of literals: numbers, strings with their escapes, bytes."""

from __future__ import annotations

import math
import re
from typing import Final

from bayplan.cel.golang.numbers import short_int
from bayplan.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_ESCAPE: Final = re.compile(
    r"\\(?:([0-3][0-7]{2})|[xX]([0-9a-fA-F]{2})|u(.{4})|U(.{8})|(.))", re.DOTALL
)
_CHARACTERS: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def int_literal(text: str) -> int:
    """The value of an int literal, with its sign.

    Raises:
        ValueError: with cel-go's text, when it does not fit into 64 bits.
    """
    number = _number(text)
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise ValueError("invalid int literal")
    return number


def _number(text: str) -> int | None:
    return int(text, 16) if "0x" in text else short_int(text)


def uint_literal(text: str) -> Uint:
    """The value of a uint literal.

    Raises:
        ValueError: with cel-go's text, when it does not fit into 64 bits.
    """
    number = _number(text[:-1])
    if number is None or number > UINT_MAX:
        raise ValueError("invalid uint literal")
    return Uint(number)


def double_literal(text: str) -> float:
    """The value of a double literal, with its sign.

    Raises:
        ValueError: with cel-go's text, when it is too large.
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError("invalid double literal")
    return number


def _unquote(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if text.startswith(('"""', "'''")) and len(text) >= 6 else 1
    return text[quotes:-quotes], raw


def string_literal(text: str) -> str:
    """The value of a string literal.

    Raises:
        ValueError: with cel-go's text, when an escape is no character.
    """
    body, raw = _unquote(text)
    return body if raw else _ESCAPE.sub(_character, body)


def _character(match: re.Match[str]) -> str:
    octal, byte, short, long, char = match.groups()
    if char:
        return _CHARACTERS.get(char, char)
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)


def bytes_literal(text: str) -> bytes:
    """The value of a bytes literal, of its text behind the b.

    Raises:
        ValueError: with cel-go's text, when it has an escape of code points.
    """
    body, raw = _unquote(text)
    if raw:
        return body.encode()
    parts, position = [], 0
    for match in _ESCAPE.finditer(body):
        octal, byte, short, long, char = match.groups()
        if short or long:
            raise ValueError("unable to unescape string")
        parts.append(body[position : match.start()].encode())
        if char:
            parts.append(_CHARACTERS.get(char, char).encode())
        else:
            parts.append(bytes([int(octal, 8) if octal else int(byte, 16)]))
        position = match.end()
    return b"".join([*parts, body[position:].encode()])
