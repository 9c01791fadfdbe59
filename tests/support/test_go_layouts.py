from __future__ import annotations

import pytest

from bayplan.support.go_layouts import RFC3339, parse_time


@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        (RFC3339, "2024-03-01T12:30:45Z", "2024-03-01T12:30:45+00:00"),
        (RFC3339, "2024-03-01T12:30:45.123456789+02:00", "2024-03-01T12:30:45.123456+02:00"),
        ("2006-01-02", "2024-03-01", "2024-03-01T00:00:00+00:00"),
        ("Jan _2 15:04:05 2006", "Mar 1 12:30:45 2024", "2024-03-01T12:30:45+00:00"),
        ("02/01/06 03:04PM", "01/03/24 12:30PM", "2024-03-01T12:30:00+00:00"),
        ("2006-01-02 15:04:05.000", "2024-03-01 12:30:45.5", "2024-03-01T12:30:45.500000+00:00"),
        ("20060102150405", "20240301123045", "2024-03-01T12:30:45+00:00"),
        ("100% 2006", "100% 2024", "2024-01-01T00:00:00+00:00"),
    ],
)
def test_times_are_read_as_go_reads_them(layout: str, text: str, expected: str | None) -> None:
    time = parse_time(layout, text)
    assert (time and time.isoformat()) == expected


@pytest.mark.parametrize("text", ["", "2024-03-01", "2024-13-01T12:30:45Z", "noon", "1709296245"])
def test_another_text_is_no_time(text: str) -> None:
    assert parse_time(RFC3339, text) is None
