"""Fields of timestamps, in UTC or a time zone, and durations in a unit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bayplan.cel.errors import EvaluationError
from bayplan.cel.functions.registry import DURATION, STRING, TIMESTAMP, method
from bayplan.cel.golang.numbers import atoi
from bayplan.cel.golang.times import (
    DAY,
    MAX_SECONDS,
    MIN_SECONDS,
    SECOND,
    civil_from_days,
    days_from_civil,
)
from bayplan.cel.values import Duration, Timestamp

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = MIN_SECONDS + 2 * DAY, MAX_SECONDS - 2 * DAY


# What is taken from the local time: days since 1970, and nanoseconds of the day.
_FIELDS: Final[dict[str, Callable[[int, int], int]]] = {
    "getFullYear": lambda days, _: civil_from_days(days)[0],
    "getMonth": lambda days, _: civil_from_days(days)[1] - 1,
    "getDayOfYear": lambda days, _: days - days_from_civil(civil_from_days(days)[0], 1, 1),
    "getDayOfMonth": lambda days, _: civil_from_days(days)[2] - 1,
    "getDate": lambda days, _: civil_from_days(days)[2],
    "getDayOfWeek": lambda days, _: (days + 4) % 7,
    "getHours": lambda _, time: time // (3600 * SECOND),
    "getMinutes": lambda _, time: time // (60 * SECOND) % 60,
    "getSeconds": lambda _, time: time // SECOND % 60,
    "getMilliseconds": lambda _, time: time % SECOND // 1_000_000,
}
_UNITS: Final = {"getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND}


def _offset(timestamp: Timestamp, zone: str) -> int:
    hours, colon, minutes = zone.partition(":")
    if not colon:
        return _zone_offset(timestamp, zone)
    hour, minute = atoi(hours), atoi(minutes)
    return (hour * 60 + (-minute if zone.startswith("-") else minute)) * 60


def _zone_offset(timestamp: Timestamp, zone: str) -> int:
    if zone in {"", "UTC"}:
        return 0
    if ".." in zone or zone[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    try:
        info = ZoneInfo(zone)
        # Python's calendar ends where CEL's does: the last days have the offset of those before.
        seconds = min(max(timestamp.nanoseconds // SECOND, _FIRST), _LAST)
        offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(info).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    return int(offset.total_seconds()) if offset else 0


def _define_field(name: str, field: Callable[[int, int], int]) -> None:
    @method(name, TIMESTAMP, STRING)
    def in_zone(timestamp: Timestamp, zone: str) -> int:
        local = timestamp.nanoseconds + _offset(timestamp, zone) * SECOND
        days, time = divmod(local, DAY * SECOND)
        return field(days, time)

    method(name, TIMESTAMP)(lambda timestamp: in_zone(timestamp, "UTC"))


def _define_unit(name: str, unit: int) -> None:
    @method(name, DURATION)
    def in_unit(duration: Duration) -> int:
        # By way of a double, as Go does it.
        whole, rest = divmod(abs(duration), unit)
        number = int(float(whole) + float(rest) / float(unit))
        return -number if duration < 0 else number


for _name, _field in _FIELDS.items():
    _define_field(_name, _field)
for _name, _unit in _UNITS.items():
    _define_unit(_name, _unit)


@method("getMilliseconds", DURATION)
def milliseconds(duration: Duration) -> int:
    """All milliseconds of a duration."""
    return abs(duration) // 1_000_000 * (-1 if duration < 0 else 1)
