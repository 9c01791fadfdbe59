import pytest

from bayplan.config.scalars import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("15s", 15),
        ("+15s", 15),
        ("-1.5m", -90),
        ("1h2m3.5s", 3723.5),
        ("1.s", 1),
        (".5s", 0.5),
        ("100ms", 0.1),
        ("20us", 2e-5),
        ("20µs", 2e-5),
        ("20μs", 2e-5),
        ("7ns", 7e-9),
        ("0.4ns", 0),
        ("1s1s", 2),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "-", "s", "5", ".s", "1 s", "1d", "1s ", "٣s", "2562048h", 5, 1.5, None, ["1s"]]
)
def test_what_go_does_not_read_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1e-9, "1ns"),
        (1.5e-6, "1.5µs"),
        (0.1, "100ms"),
        (1, "1s"),
        (10, "10s"),
        (59.5, "59.5s"),
        (60, "1m0s"),
        (600, "10m0s"),
        (3600, "1h0m0s"),
        (3723.5, "1h2m3.5s"),
        (-90, "-1m30s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == seconds
