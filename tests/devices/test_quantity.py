import pytest

from bayplan.devices.quantity import of_whole, quantity


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0", "0"),
        ("1Gi", "1Gi"),
        ("1024Mi", "1Gi"),
        ("1025Mi", "1025Mi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5", "1500m"),
        ("1500m", "1500m"),
        ("0.500", "500m"),
        ("2.000", "2"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("10e2", "1e3"),
        ("100M", "100M"),
        ("1100Ki", "1100Ki"),
        ("100Ki", "100Ki"),
        ("-1Gi", "-1Gi"),
        ("0.1n", "1n"),
        ("1n", "1n"),
        ("12345678901234567890", "12345678901234567890"),
    ],
)
def test_a_quantity_is_written_as_the_api_writes_it(text: str, written: str) -> None:
    assert str(quantity(text)) == written


def test_computed_amounts_take_the_notation_they_are_given() -> None:
    assert str(of_whole(2**31, "BinarySI")) == "2Gi"
    assert str(of_whole(1000, "BinarySI")) == "1k"


def test_identical_quantities_have_the_same_notation() -> None:
    assert quantity("1Gi").identical(quantity("1Gi"))
    assert not quantity("1Gi").identical(quantity("1024Mi"))


@pytest.mark.parametrize(
    ("text", "whole"), [("1500m", 2), ("1u", 1), ("10E", 10 * 10**18), ("-1500m", -2)]
)
def test_whole_units_are_rounded_away_from_zero(text: str, whole: int) -> None:
    assert quantity(text).whole == whole
