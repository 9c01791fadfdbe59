"""IP addresses and networks: `ip()`, `cidr()` and their methods.

Source: k8s.io/apiserver/pkg/cel/library, and Go's net/netip, whose error texts surface.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.functions.registry import STRING, exactly, function, method
from bayplan.cel.golang import quote
from bayplan.cel.values import Extension

Address: TypeAlias = IPv4Address | IPv6Address
_HEX: Final = re.compile(r"[0-9a-fA-F]*")


@dataclass(frozen=True)
class IP(Extension):
    """An IP address."""

    type_name: ClassVar[str] = "net.IP"
    go_type: ClassVar[str] = "cel.IP"
    conversion_name: ClassVar[str] = "IP"
    address: Address

    def equals(self, other: Any) -> bool:
        """Whether the addresses are the same."""
        return bool(self.address == other.address)

    def text(self) -> str:
        """The canonical text."""
        return str(self.address)

    def key(self) -> object:
        """The address."""
        return self.address


@dataclass(frozen=True)
class CIDR(Extension):
    """A network: an address, which may have more bits than the prefix, and the prefix length."""

    type_name: ClassVar[str] = "net.CIDR"
    go_type: ClassVar[str] = "cel.CIDR"
    conversion_name: ClassVar[str] = "CIDR"
    address: Address
    bits: int

    def equals(self, other: Any) -> bool:
        """Whether address and length are the same."""
        return (self.address, self.bits) == (other.address, other.bits)

    def text(self) -> str:
        """The text."""
        return f"{self.address}/{self.bits}"

    def key(self) -> object:
        """Both parts."""
        return self.address, self.bits

    def prefix(self, bits: int) -> int:
        """The first `bits` bits of the address."""
        return int(self.address) >> (self.address.max_prefixlen - bits)


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


def _is_mapped(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def parse_ip(text: str) -> IP:
    """An IP address without a zone.

    Raises:
        EvaluationError: `text` is none.
    """
    try:
        address, zone = parse_address(text)
    except EvaluationError as reason:
        message = f"IP Address {quote(text)} parse error during conversion from string: {reason}"
        raise EvaluationError(message) from None
    if zone:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def parse_cidr(text: str) -> CIDR:
    """A network.

    Raises:
        EvaluationError: `text` is none.
    """
    try:
        network = _prefix(text)
    except EvaluationError as reason:
        prefix = "network address parse error during conversion from string"
        message = f"{prefix}: netip.ParsePrefix({quote(text)}): {reason}"
        raise EvaluationError(message) from None
    if _is_mapped(network.address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return network


def _prefix(text: str) -> CIDR:
    start, slash, bits = text.rpartition("/")
    if not slash:
        raise EvaluationError("no '/'")
    address, zone = parse_address(start)
    if zone:
        raise EvaluationError("IPv6 zones cannot be present in a prefix")
    plain = re.fullmatch(r"[1-9][0-9]*|[0-9]", bits)
    if plain is None or len(bits) > 19:
        raise EvaluationError(f"bad bits after slash: {quote(bits)}")
    if int(bits) > address.max_prefixlen:
        raise EvaluationError("prefix length out of range")
    return CIDR(address, int(bits))


_IP, _CIDR = exactly(IP), exactly(CIDR)


@function("ip", STRING)
def ip(text: str) -> IP:
    """The address that a string stands for."""
    return parse_ip(text)


@function("isIP", STRING)
def is_ip(text: str) -> bool:
    """Whether a string is an address."""
    try:
        parse_ip(text)
    except EvaluationError:
        return False
    return True


@function("ip.isCanonical", STRING)
def is_canonical(text: str) -> bool:
    """Whether a string is the canonical text of its address."""
    return parse_ip(text).text() == text


@method("family", _IP)
def family(value: IP) -> int:
    """4 or 6."""
    return value.address.version


@method("isUnspecified", _IP)
def is_unspecified(value: IP) -> bool:
    """Whether it is 0.0.0.0 or ::."""
    return value.address.is_unspecified


@method("isLoopback", _IP)
def is_loopback(value: IP) -> bool:
    """Whether it is 127.0.0.0/8 or ::1."""
    return value.address.is_loopback


@method("isLinkLocalMulticast", _IP)
def is_link_local_multicast(value: IP) -> bool:
    """Whether it is 224.0.0.0/24 or ff02 with any flags."""
    packed = value.address.packed
    if value.address.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


@method("isLinkLocalUnicast", _IP)
def is_link_local_unicast(value: IP) -> bool:
    """Whether it is 169.254.0.0/16 or fe80::/10."""
    return value.address.is_link_local


@method("isGlobalUnicast", _IP)
def is_global_unicast(value: IP) -> bool:
    """Whether it is none of the special ones; private ones count."""
    address = value.address
    special = address.is_unspecified or address.is_loopback or address.is_link_local
    return not (special or address.is_multicast or address == IPv4Address("255.255.255.255"))


@function("string", _IP)
@function("string", _CIDR)
def to_string(value: IP | CIDR) -> str:
    """The text."""
    return value.text()


@function("cidr", STRING)
def cidr(text: str) -> CIDR:
    """The network that a string stands for."""
    try:
        return parse_cidr(text)
    except EvaluationError as reason:
        message = f"network address parse error during conversion from string: {reason}"
        raise EvaluationError(message) from None


@function("isCIDR", STRING)
def is_cidr(text: str) -> bool:
    """Whether a string is a network."""
    try:
        parse_cidr(text)
    except EvaluationError:
        return False
    return True


@method("containsIP", _CIDR, _IP)
def contains_ip(network: CIDR, value: IP) -> bool:
    """Whether an address is in the network."""
    return contains_cidr(network, CIDR(value.address, value.address.max_prefixlen))


@method("containsIP", _CIDR, STRING)
def contains_ip_text(network: CIDR, text: str) -> bool:
    """The same for the text of an address.

    Raises:
        EvaluationError: it is none; cel-go takes that as an argument of the wrong type.
    """
    try:
        return contains_ip(network, parse_ip(text))
    except EvaluationError:
        no_such_overload()


@method("containsCIDR", _CIDR, _CIDR)
def contains_cidr(network: CIDR, other: CIDR) -> bool:
    """Whether another network is within the network."""
    if network.address.version != other.address.version or network.bits > other.bits:
        return False
    return network.prefix(network.bits) == other.prefix(network.bits)


@method("containsCIDR", _CIDR, STRING)
def contains_cidr_text(network: CIDR, text: str) -> bool:
    """The same for the text of a network."""
    return contains_cidr(network, cidr(text))


@method("ip", _CIDR)
def address_of(network: CIDR) -> IP:
    """The address."""
    return IP(network.address)


@method("prefixLength", _CIDR)
def prefix_length(network: CIDR) -> int:
    """The number of bits."""
    return network.bits


@method("masked", _CIDR)
def masked(network: CIDR) -> CIDR:
    """The network with no other bits in its address."""
    whole = ip_network((network.address, network.bits), strict=False)
    return CIDR(whole.network_address, network.bits)
