"""Strings: version 2 of cel-go's extension. Positions and lengths count characters.

Source: cel-go ext/strings.go.
"""

from __future__ import annotations

from bayplan.cel.budget import check_length
from bayplan.cel.errors import EvaluationError
from bayplan.cel.functions.formatting import interpolate
from bayplan.cel.functions.registry import (
    INT,
    LIST,
    STRING,
    function,
    list_of,
    method,
)
from bayplan.cel.golang.printing import text_of
from bayplan.cel.golang.quoting import ESCAPES
from bayplan.cel.values import Value, weight

_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED = str.maketrans(ESCAPES)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def _check_position(position: int, length: int) -> None:
    if not 0 <= position <= length:
        raise EvaluationError(f"index out of range: {position}")


@method("charAt", STRING, INT)
def char_at(text: str, position: int) -> str:
    """The character at a position; empty at the end."""
    _check_position(position, len(text))
    return text[position : position + 1]


@method("indexOf", STRING, STRING)
@method("indexOf", STRING, STRING, INT)
def index_of(text: str, part: str, start: int = 0) -> int:
    """The position of the first `part` at or behind `start`, or -1."""
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return min(start, len(text)) if not part else text.find(part, min(start, len(text)))


@method("lastIndexOf", STRING, STRING)
def last_index_of(text: str, part: str) -> int:
    """The position of the last `part`, or -1."""
    return len(text) if not part else text.rfind(part)


@method("lastIndexOf", STRING, STRING, INT)
def last_index_of_from(text: str, part: str, start: int) -> int:
    """The position of the last `part` at or before `start`, or -1."""
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


@method("replace", STRING, STRING, STRING)
@method("replace", STRING, STRING, STRING, INT)
def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """With the first `count` `old` replaced by `new`; all of them for a negative count."""
    places = len(text) + 1 if not old else text.count(old)
    count = places if count < 0 else min(count, places)
    check_length(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


@method("split", STRING, STRING)
@method("split", STRING, STRING, INT)
def split(text: str, separator: str, count: int = -1) -> list[str]:
    """The parts between the separators; the characters, where it is empty.

    At most `count` of them, the last one undivided; all of them for a negative count.
    """
    if count == 0:
        return []
    if separator:
        return text.split(separator, min(count - 1, len(text)) if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


@method("substring", STRING, INT)
def substring_from(text: str, start: int) -> str:
    """The text from a position on."""
    _check_position(start, len(text))
    return text[start:]


@method("substring", STRING, INT, INT)
def substring(text: str, start: int, end: int) -> str:
    """The text from a position up to another."""
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    _check_position(start, len(text))
    _check_position(end, len(text))
    return text[start:end]


@method("join", list_of(STRING))
@method("join", list_of(STRING), STRING, cost=lambda parts, _: len(parts))
def join(parts: list[Value], separator: str = "") -> str:
    """All elements as one text, with a separator between them."""
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {text_of(part)}")
    check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


method("lowerAscii", STRING)(lambda text: text.translate(_LOWER))
method("upperAscii", STRING)(lambda text: text.translate(_UPPER))
method("trim", STRING)(lambda text: text.strip(_SPACES))
function("strings.quote", STRING)(lambda text: f'"{text.translate(_QUOTED)}"')
method("format", STRING, LIST, cost=lambda _, arguments: weight(arguments))(interpolate)
