"""Fingerprints and placements: as the libraries of the exporters write them."""

from __future__ import annotations

import random
from struct import pack

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import length

from bayplan.plugins.node_resource_topology_match.fingerprint import (
    PlacementError,
    fingerprint,
    placement,
    xxh64,
)


@length(300)
@given(st.binary(max_size=300), st.integers(0, 2**64 - 1))
def test_the_hash_is_that_of_the_xxhash_package(data: bytes, seed: int) -> None:
    assert xxh64(data, seed) == xxhash.xxh64_intdigest(data, seed)


@length(100)
@given(st.sets(st.tuples(st.text(max_size=40), st.text(max_size=60)), max_size=60), st.randoms())
def test_a_fingerprint_is_that_of_the_xxhash_package(
    pods: set[tuple[str, str]], rng: random.Random
) -> None:
    digest = xxhash.xxh64_intdigest
    hashes = sorted(digest(n.encode(), digest(ns.encode())) for ns, n in pods)
    whole = xxhash.xxh64(b"".join(pack("<Q", h) for h in hashes)).hexdigest()
    shuffled = list(pods)
    rng.shuffle(shuffled)
    assert fingerprint(shuffled) == f"pfp0v001{whole}"


def test_the_fingerprint_of_no_pods_is_a_known_one() -> None:
    assert fingerprint([]) == "pfp0v001ef46db3751d8e999"


LETTERS = [c for c in map(chr, range(0x21, 0x7F)) if c not in '"&<>\\']


def digits(number: int) -> str:
    """A number as its format defines it: up to 63 one letter, else digits before a last letter."""
    if number < 64:
        return LETTERS[number]
    high, last = divmod(number - 64, 64)
    more = ""
    while True:
        high, digit = divmod(high, 25)
        more = LETTERS[64 + digit] + more
        if not high:
            return more + LETTERS[last]


def encoded(zones: dict[tuple[str, str, str], int], count: int) -> tuple[str, dict[int, str]]:
    """What an exporter writes of these containers on a node with ``count`` zones."""
    order = sorted(zones, key=lambda c: xxhash.xxh64_intdigest("\0".join(c).encode()))
    per_zone = {z: [i for i, c in enumerate(order) if zones[c] == z] for z in range(count)}
    busiest = max(per_zone, key=lambda z: len(per_zone[z]))
    vectors = {
        z: "".join(digits(b - a) for a, b in zip([0, *numbers], numbers, strict=False))
        for z, numbers in per_zone.items()
        if z != busiest and numbers
    }
    return f"npv0v001::ve=leb89::cc={len(order)}::nn={count}::bn={busiest}", vectors


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65, 127, 128, 1663, 1664, 40063, 40064])
def test_a_difference_of_any_length_is_read(number: int) -> None:
    containers = [("ns", f"p{i}", "c") for i in range(number + 1)]
    order = sorted(containers, key=lambda c: xxhash.xxh64_intdigest("\0".join(c).encode()))
    zones = dict.fromkeys(containers, 0) | {order[number]: 1}
    metadata, vectors = encoded(zones, 3)
    assert placement(metadata, vectors, containers) == zones


@length(100)
@given(st.lists(st.integers(0, 3), max_size=300))
def test_a_placement_is_read_as_it_was_written(places: list[int]) -> None:
    zones = {("ns", f"p{i}", "c"): zone for i, zone in enumerate(places)}
    metadata, vectors = encoded(zones, 4)
    assert placement(metadata, vectors, list(zones)) == zones


@pytest.mark.parametrize(
    ("metadata", "vectors"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("npv0v002::ve=leb89::cc=1::nn=2::bn=0", {}, id="another version"),
        pytest.param("npv0v001::ve=base64::cc=1::nn=2::bn=0", {}, id="another encoding"),
        pytest.param("npv0v001::ve=leb89::cc=2::nn=2::bn=0", {}, id="another number"),
        pytest.param("npv0v001::ve=leb89::cc=1::nn=2::bn=2", {}, id="busiest is no zone"),
        pytest.param("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {0: "!"}, id="busiest has a vector"),
        pytest.param("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {2: "!"}, id="no such zone"),
        pytest.param("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {1: '"'}, id="no digit"),
        pytest.param("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {1: "a"}, id="number too high"),
        pytest.param("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {1: "!!"}, id="twice"),
        pytest.param("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {1: "~"}, id="cut off"),
        pytest.param("npv0v001::ve=leb89::cc=x::nn=2::bn=0", {}, id="no number"),
    ],
)
def test_a_placement_that_cannot_be_right_is_refused(
    metadata: str, vectors: dict[int, str]
) -> None:
    with pytest.raises(PlacementError):
        placement(metadata, vectors, [("ns", "p", "c")])
