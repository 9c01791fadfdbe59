"""IP addresses and networks: `ip()`, `cidr()` and their methods.

Source: k8s.io/apiserver/pkg/cel/library, and Go's net/netip, whose error texts surface.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, ClassVar

from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.functions.addresses import Address, parse_address
from bayplan.cel.functions.registry import STRING, exactly, function, method
from bayplan.cel.golang.quoting import quote
from bayplan.cel.values import Extension


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
