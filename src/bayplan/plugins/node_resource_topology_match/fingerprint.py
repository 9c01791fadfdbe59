"""Fingerprints of Pods, and where their containers run: what exporters write besides numbers.

A fingerprint is a hash over the names of the Pods that an object shows, in any order. A placement
says in which zone each container is whose resources are its own: containers are numbered in the
order of their hashes, and each zone but the busiest one lists its numbers as differences.

The formats are those of ``github.com/k8stopologyawareschedwg/podfingerprint`` and
``.../numaplacement``; the hash is xxHash (XXH64), ``github.com/Cyan4973/xxHash``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from struct import iter_unpack, pack

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE = 32

Container = tuple[str, str, str]
"""Namespace, Pod and container, by name."""


class PlacementError(ValueError):
    """A placement contradicts itself or the Pods on the node."""


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """The 64-bit xxHash of ``data``."""
    whole = len(data) - len(data) % _STRIPE
    if whole:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        lanes = [lane & _MASK for lane in lanes]
        for words in iter_unpack("<4Q", data[:whole]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = ((value & _MASK ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        value = seed + _P5
    value = value + len(data) & _MASK
    eights = len(data) - len(data) % 8
    for (word,) in iter_unpack("<Q", data[whole:eights]):
        value = (_rotated(value ^ _round(0, word), 27) * _P1 + _P4) & _MASK
    if len(data) - eights >= 4:
        word = int.from_bytes(data[eights : eights + 4], "little")
        value = (_rotated(value ^ word * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        eights += 4
    for byte in data[eights:]:
        value = _rotated(value ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


@lru_cache(maxsize=1 << 16)
def _of_pod(namespace: str, name: str) -> int:
    return xxh64(name.encode(), xxh64(namespace.encode()))


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of these Pods, by namespace and name."""
    hashes = sorted([_of_pod(namespace, name) for namespace, name in pods])
    return f"pfp0v001{xxh64(pack(f'<{len(hashes)}Q', *hashes)):016x}"


def placement(
    metadata: str, vectors: Mapping[int, str], containers: Sequence[Container]
) -> dict[Container, int]:
    """The zone of each of ``containers``: all with resources of their own.

    Args:
        metadata: the attribute of the object.
        vectors: the attributes of its zones, by number of the zone.
        containers: as the scheduler knows them.

    Raises:
        PlacementError: what is written cannot be right.
    """
    prefix, *fields = metadata.split("::")
    values = dict(field.split("=", 1) for field in fields if "=" in field)
    try:
        count, zones, busiest = (int(values[name]) for name in ("cc", "nn", "bn"))
    except (KeyError, ValueError):
        raise PlacementError(f"{metadata!r} is no placement") from None
    if prefix != "npv0v001" or values.get("ve") != "leb89":
        raise PlacementError(f"{metadata!r} is in a format that is not supported")
    if not 0 <= busiest < zones or busiest in vectors or any(z >= zones for z in vectors):
        raise PlacementError("the placement names zones that there are not")
    by_hash = sorted((xxh64("\0".join(each).encode()), each) for each in set(containers))
    if len(by_hash) != count:
        raise PlacementError(f"it places {count} containers of {len(by_hash)}")
    placed: dict[Container, int] = {}
    for zone, vector in vectors.items():
        for number in _numbers(vector):
            if number >= count or by_hash[number][1] in placed:
                raise PlacementError(f"the vector of node-{zone} is wrong")
            placed[by_hash[number][1]] = zone
    return {each: placed.get(each, busiest) for _, each in by_hash}


_LETTERS = {
    letter: code
    for code, letter in enumerate(c for c in map(chr, range(0x21, 0x7F)) if c not in '"&<>\\')
}
_LAST, _MORE = 64, 25


def _numbers(vector: str) -> Iterator[int]:
    """The numbers of a vector: each is the sum of the differences so far.

    A letter below `_LAST` ends a difference; those before it are digits to the base `_MORE`.
    """
    number, high, long = 0, 0, False
    for letter in vector:
        code = _LETTERS.get(letter)
        if code is None:
            raise PlacementError(f"{letter!r} is no digit of a vector")
        if code >= _LAST:
            high, long = high * _MORE + code - _LAST, True
            continue
        number += (high + 1) * _LAST + code if long else code
        yield number
        high, long = 0, False
    if long:
        raise PlacementError("a vector ends within a number")
