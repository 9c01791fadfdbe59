"""IP addresses and networks: `ip()`, `cidr()` and their methods.

Source: k8s.io/apiserver/pkg/cel/library, and Go's net/netip, whose error texts surface.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import ClassVar

from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.functions.addresses import Address, parse_address
from bayplan.cel.functions.registry import STRING, exactly, function, method, takes_what
from bayplan.cel.golang.quoting import quote
from bayplan.cel.values import Extension


@dataclass(frozen=True)
class IP(Extension):
    """An IP address."""

    type_name: ClassVar[str] = "net.IP"
    address: Address

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
    address: Address
    bits: int

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


def _is_link_local_multicast(address: Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global_unicast(address: Address) -> bool:
    # Private addresses count.
    special = address.is_unspecified or address.is_loopback or address.is_link_local
    return not (special or address.is_multicast or address == IPv4Address("255.255.255.255"))


def _cidr(text: str) -> CIDR:
    try:
        return parse_cidr(text)
    except EvaluationError as reason:
        message = f"network address parse error during conversion from string: {reason}"
        raise EvaluationError(message) from None


def _contains_ip(network: CIDR, value: IP) -> bool:
    return _contains_cidr(network, CIDR(value.address, value.address.max_prefixlen))


def _contains_ip_text(network: CIDR, text: str) -> bool:
    try:
        return _contains_ip(network, parse_ip(text))
    except EvaluationError:
        no_such_overload()  # as cel-go says it of an argument of the wrong type


def _contains_cidr(network: CIDR, other: CIDR) -> bool:
    if network.address.version != other.address.version or network.bits > other.bits:
        return False
    return network.prefix(network.bits) == other.prefix(network.bits)


def _masked(network: CIDR) -> CIDR:
    whole = ip_network((network.address, network.bits), strict=False)
    return CIDR(whole.network_address, network.bits)


_IP, _CIDR = exactly(IP), exactly(CIDR)

function("ip", STRING)(parse_ip)
function("isIP", STRING)(takes_what(parse_ip))
function("ip.isCanonical", STRING)(lambda text: parse_ip(text).text() == text)
function("string", _IP)(IP.text)
method("family", _IP)(lambda value: value.address.version)
method("isUnspecified", _IP)(lambda value: value.address.is_unspecified)
method("isLoopback", _IP)(lambda value: value.address.is_loopback)
method("isLinkLocalMulticast", _IP)(lambda value: _is_link_local_multicast(value.address))
method("isLinkLocalUnicast", _IP)(lambda value: value.address.is_link_local)
method("isGlobalUnicast", _IP)(lambda value: _is_global_unicast(value.address))
function("cidr", STRING)(_cidr)
function("isCIDR", STRING)(takes_what(parse_cidr))
function("string", _CIDR)(CIDR.text)
method("containsIP", _CIDR, _IP)(_contains_ip)
method("containsIP", _CIDR, STRING)(_contains_ip_text)
method("containsCIDR", _CIDR, _CIDR)(_contains_cidr)
method("containsCIDR", _CIDR, STRING)(lambda network, text: _contains_cidr(network, _cidr(text)))
method("ip", _CIDR)(lambda network: IP(network.address))
method("prefixLength", _CIDR)(lambda network: network.bits)
method("masked", _CIDR)(_masked)
