"""Durations and timestamps as Go's package time reads and prints them."""

from __future__ import annotations

import re
from typing import Final

from bayplan.cel.errors import EvaluationError
from bayplan.cel.golang.numbers import plain_float, short_int
from bayplan.cel.values import Duration, Timestamp
from bayplan.support.go_durations import NANOSECONDS

SECOND: Final = 1_000_000_000
DAY: Final = 86_400
MIN_SECONDS, MAX_SECONDS = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")


def parse_duration(text: str) -> Duration | None:
    """time.ParseDuration(text), None where it fails."""
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        part = _DURATION_PART.match(rest, position)
        if part is None or part[3] not in NANOSECONDS or not (part[1] or part[2]):
            return None
        whole, fraction, unit = short_int(part[1] or "0"), part[2] or "", NANOSECONDS[part[3]]
        if whole is None or whole > 2**63 // unit:
            return None
        total += whole * unit + _fraction_of(fraction, unit)
        if total > 2**63:
            return None
        position = part.end()
    if not rest:
        return None
    if text[0] == "-":
        return Duration(-total)
    return Duration(total) if total < 2**63 else None


def _fraction_of(digits: str, unit: int) -> int:
    # Go computes with a float64 here, and stops reading digits at an overflow.
    number, scale = 0, 1.0
    for digit in digits:
        if number > (2**63 - 1) // 10 or number * 10 + int(digit) > 2**63:
            break
        number = number * 10 + int(digit)
        scale *= 10
    return int(float(number) * (float(unit) / scale))


def seconds_text(duration: int) -> str:
    """The text of a duration in seconds, as `string()` gives it, without the unit."""
    whole, rest = divmod(abs(duration), SECOND)
    seconds = float(whole) + float(rest) / 1e9  # time.Duration.Seconds()
    return plain_float(-seconds if duration < 0 else seconds)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar, for every year."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + day_of_year
        - 719_468
    )


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def parse_timestamp(text: str) -> Timestamp | None:
    """time.Parse(time.RFC3339, text), None where it fails.

    Raises:
        EvaluationError: outside of the years 1 to 9999.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    if not 1 <= month <= 12 or hour > 23 or minute > 59 or second > 59:
        return None
    days = days_from_civil(year, month, day)
    if civil_from_days(days) != (year, month, day):
        return None
    offset = 0
    if match[8]:
        if int(match[9]) > 24 or int(match[10]) > 60:
            return None
        offset = (int(match[9]) * 60 + int(match[10])) * (-60 if match[8] == "-" else 60)
    seconds = days * DAY + hour * 3600 + minute * 60 + second - offset
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * SECOND + fraction, offset)


def checked_timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    """A timestamp.

    Raises:
        EvaluationError: outside of the years 1 to 9999.
    """
    if not MIN_SECONDS <= nanoseconds // SECOND <= MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def timestamp_text(timestamp: Timestamp, separator: str = "T") -> str:
    """The text of a timestamp by RFC 3339, or by `time.Time.String()` with the separator " "."""
    seconds, fraction = divmod(timestamp.nanoseconds, SECOND)
    days, time = divmod(seconds + timestamp.offset, DAY)
    year, month, day = civil_from_days(days)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    clock = f"{time // 3600:02d}:{time // 60 % 60:02d}:{time % 60:02d}{digits}"
    sign = "-" if timestamp.offset < 0 else "+"
    minutes = abs(timestamp.offset) // 60
    zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" if timestamp.offset else "Z"
    if separator == " ":
        digits = zone.replace(":", "")
        zone = " +0000 UTC" if zone == "Z" else f" {digits} {digits}"
    return f"{year:04d}-{month:02d}-{day:02d}{separator}{clock}{zone}"
