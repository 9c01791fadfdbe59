"""Text to tokens, by the lexical rules of CEL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from bayplan.cel.errors import CompileError

_ESCAPE = (
    r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
)
_STRING = "|".join(
    [
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        r'[rR]"""(?s:.)*?"""',
        r"[rR]'''(?s:.)*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    ]
)
_TOKEN: Final = re.compile(
    rf"""(?P<space>[\t \r\n\f]+|//[^\n]*)
    |(?P<bytes>[bB](?:{_STRING}))
    |(?P<string>{_STRING})
    |(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    |(?P<operator>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])""",
    re.VERBOSE,
)
KEYWORDS: Final = frozenset({"in", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `kind` is a group of the grammar, or the text itself of operators and keywords."""

    kind: str
    text: str
    position: int


def tokens(source: str) -> list[Token]:
    """The tokens of `source`, without spaces and comments, ended by one of the kind "end".

    Raises:
        CompileError: a character fits no token.
    """
    result = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            fail(
                source, position, f"Syntax error: token recognition error at: '{source[position]}'"
            )
        kind, text = str(match.lastgroup), match[0]
        if kind == "operator" or text in KEYWORDS:
            kind = text
        if kind != "space":
            result.append(Token(kind, text, position))
        position = match.end()
    result.append(Token("end", "<EOF>", len(source)))
    return result


def located(source: str, position: int, message: str) -> str:
    """A problem at a place in the source, shown as cel-go shows it."""
    line = source.count("\n", 0, position) + 1
    start = source.rfind("\n", 0, position) + 1
    column = position - start
    snippet = source[start:].partition("\n")[0].replace("\t", " ")
    dots = "".join("." if char < "\x80" else "\uff0e" for char in snippet[:column])
    mark = "\uff3e" if snippet[column : column + 1] > "\x7f" else "^"
    return f"ERROR: <input>:{line}:{column + 1}: {message}\n | {snippet}\n | {dots}{mark}"


def fail(source: str, position: int, message: str) -> NoReturn:
    """Raise the error of a place in the source.

    Raises:
        CompileError: always.
    """
    raise CompileError(f"compilation failed: {located(source, position, message)}")
