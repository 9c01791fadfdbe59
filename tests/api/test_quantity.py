"""Amounts in every notation of Kubernetes, exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api import quantity

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("007", 7),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("100m", Fraction(1, 10)),
        ("1k", 10**3),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 2**10),
        ("1Mi", 2**20),
        ("1.5Gi", 3 * 2**29),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("1e+2", 100),
        (5, 5),
        (0.25, Fraction(1, 4)),
        (1e22, 10**22),
    ],
)
def test_every_notation_is_read(text: Any, amount: Any) -> None:
    assert quantity.parse(text) == amount


@pytest.mark.parametrize(
    "text", ["", "m", "1.2.3", "1 Gi", "1KI", "1K", "1mi", "1e", "e3", "0x10", "1_000", "٣", "--1"]
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(quantity.QuantityError, match=r"is not a quantity \(examples: 500m"):
        quantity.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9" * 5000, id="digits"),
        pytest.param("1" + "0" * 1000, id="zeros"),
        pytest.param(10**5000, id="integer"),
        pytest.param(-(10**5000), id="negative"),
    ],
)
def test_amounts_of_thousands_of_digits_are_refused_in_a_short_sentence(text: Any) -> None:
    with pytest.raises(quantity.QuantityError, match=r"is not a quantity") as error:
        quantity.parse(text)
    assert len(str(error.value)) < 80


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("1e99999999", MAX),
        ("-1e99999999", -MAX),
        ("1e-99999999", 1),
        ("0e99999999", 0),
        ("." + "0" * 900 + "1e99999999", MAX),
        ("9" * 900 + "e-99999999", 1),
    ],
)
def test_exponents_that_no_memory_can_hold_are_held_within_64_bits(text: str, whole: int) -> None:
    assert quantity.value(text) == whole


@pytest.mark.parametrize(
    ("resource", "one", "other", "texts"),
    [
        ("memory", 2**40, 2**39, ("1Ti", "512Gi")),
        ("memory", 2**45, 2**45 - 2**30, ("32Ti", "32767Gi")),
        ("cpu", 10_000_001, 10_000_000, ("10000001m", "10000")),
    ],
)
def test_amounts_that_differ_by_little_are_shown_apart(
    resource: str, one: int, other: int, texts: tuple[str, str]
) -> None:
    assert quantity.shown_apart(resource, one, other) == texts


@pytest.mark.parametrize(
    ("text", "whole", "thousandths"),
    [
        ("1", 1, 1000),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("100u", 1, 1),
        ("-100u", -1, -1),
        ("8Ei", MAX, MAX),
        ("-8Ei", -MAX, -MAX),
        ("10P", 10**16, min(10**19, MAX)),
    ],
)
def test_units_are_rounded_away_from_zero_and_held_within_64_bits(
    text: str, whole: int, thousandths: int
) -> None:
    assert quantity.value(text) == whole
    assert quantity.milli(text) == thousandths


def test_cpu_counts_in_thousandths_all_else_in_units() -> None:
    assert quantity.of("cpu", "1500m") == 1500
    assert quantity.of("memory", "1500m") == 2


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ("cpu", "0"),
        ("cpu", "2"),
        ("cpu", "300m"),
        ("memory", "0"),
        ("memory", "1536Mi"),
        ("memory", "1Gi"),
        ("memory", "1025"),
        ("hugepages-2Mi", "2Mi"),
        ("nvidia.com/gpu", "1024"),
    ],
)
def test_the_canonical_form_is_kubernetes_own(resource: str, text: str) -> None:
    assert quantity.canonical(resource, quantity.of(resource, text)) == text


@given(resource=st.sampled_from(["cpu", "memory", "pods"]), amount=st.integers(-MAX, MAX))
def test_the_canonical_form_is_exact(resource: str, amount: int) -> None:
    assert quantity.of(resource, quantity.canonical(resource, amount)) == amount
