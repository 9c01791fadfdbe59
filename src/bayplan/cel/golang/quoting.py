"""Strings of Go: bytes that are mostly UTF-8, and the output of `%q`."""

from __future__ import annotations

from typing import Final

ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def utf8(text: str) -> bytes:
    """The bytes of a Go string; Python holds bytes other than UTF-8 as lone surrogates."""
    return text.encode(errors="surrogateescape")


def printable(text: str) -> str:
    """The text without bytes that are no UTF-8."""
    return text if text.isascii() else utf8(text).decode(errors="replace")


def quote(text: str) -> str:
    """`%q` of a string."""
    return '"' + "".join(_escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80 or 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
