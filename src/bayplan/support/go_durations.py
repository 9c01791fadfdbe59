"""Durations as Go prints them: in messages of Kubernetes, and in configuration files."""

from __future__ import annotations

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""By unit, as Go spells it."""


def duration_text(nanoseconds: int) -> str:
    """time.Duration.String(), such as 1h2m3.5s."""
    total, sign = abs(nanoseconds), "-" if nanoseconds < 0 else ""
    if total == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if total < 1000 * NANOSECONDS[unit]:
            return f"{sign}{_decimal(total, NANOSECONDS[unit])}{unit}"
    minutes, rest = divmod(total, NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, NANOSECONDS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    fraction = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
