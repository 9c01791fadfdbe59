"""IP addresses, parsed as in Go's net/netip, with Go's error texts."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NoReturn, TypeAlias

from bayplan.cel.errors import EvaluationError
from bayplan.cel.golang.quoting import quote

Address: TypeAlias = IPv4Address | IPv6Address
_HEX: Final = re.compile(r"[0-9a-fA-F]*")


def parse_address(text: str) -> tuple[Address, str]:
    """netip.ParseAddr: the address and its zone.

    Raises:
        EvaluationError: with Go's text, when it is none.
    """
    first = re.search(r"[.:%]", text)
    if first is None:
        _refuse(text, "unable to parse IP")
    if first[0] == "%":
        _refuse(text, "missing IPv6 address")
    if first[0] == ".":
        return IPv4Address(_fields(text, text)), ""
    return _parse_v6(text)


def _refuse(text: str, reason: str, at: str = "") -> NoReturn:
    place = f" (at {quote(at)})" if at else ""
    raise EvaluationError(f"ParseAddr({quote(text)}): {reason}{place}")


def _fields(whole: str, text: str) -> bytes:
    fields: list[int] = []
    digits = ""
    for index, char in enumerate(text):
        if "0" <= char <= "9":
            if digits == "0":
                _refuse(whole, "IPv4 field has octet with leading zero")
            digits += char
            if int(digits) > 255:
                _refuse(whole, "IPv4 field has value >255")
        elif char == ".":
            if not digits or index == len(text) - 1:
                _refuse(whole, "IPv4 field must have at least one digit", text[index:])
            if len(fields) == 3:
                _refuse(whole, "IPv4 address too long")
            fields.append(int(digits))
            digits = ""
        else:
            _refuse(whole, "unexpected character", text[index:])
    if len(fields) < 3:
        _refuse(whole, "IPv4 address too short")
    return bytes([*fields, int(digits or "0")])


def _parse_v6(text: str) -> tuple[IPv6Address, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        _refuse(text, "zone must be a non-empty string")
    parts = bytearray()
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return IPv6Address(0), zone
    while len(parts) < 16:
        group = _group(text, rest)
        if rest[len(group) :].startswith("."):
            parts += _embedded(text, rest, gap, len(parts))
            rest = ""
            break
        parts += int(group, 16).to_bytes(2, "big")
        rest = _behind_colon(text, rest[len(group) :])
        if rest.startswith(":"):
            if gap >= 0:
                _refuse(text, "multiple :: in address", rest)
            gap, rest = len(parts), rest[1:]
        if not rest:
            break
    return _finished_v6(text, rest, parts, gap), zone


def _group(text: str, rest: str) -> str:
    match = _HEX.match(rest)
    group = match[0] if match else ""
    if len(group) > 4:
        _refuse(text, "each group must have 4 or less digits", rest)
    if not group:
        _refuse(text, "each colon-separated field must have at least one digit", rest)
    return group


def _behind_colon(text: str, rest: str) -> str:
    if rest and rest[0] != ":":
        _refuse(text, "unexpected character, want colon", rest)
    if rest == ":":
        _refuse(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _embedded(text: str, rest: str, gap: int, count: int) -> bytes:
    if gap < 0 and count != 12:
        reason = "embedded IPv4 address must replace the final 2 fields of the address"
        _refuse(text, reason, rest)
    if count > 12:
        reason = "too many hex fields to fit an embedded IPv4 at the end of the address"
        _refuse(text, reason, rest)
    return _fields(text, rest)


def _finished_v6(text: str, rest: str, parts: bytearray, gap: int) -> IPv6Address:
    if rest:
        _refuse(text, "trailing garbage after address", rest)
    if len(parts) < 16:
        if gap < 0:
            _refuse(text, "address string too short")
        parts[gap:gap] = bytes(16 - len(parts))
    elif gap >= 0:
        _refuse(text, "the :: must expand to at least one field of zeros")
    return IPv6Address(bytes(parts))
