"""Times in layouts of Go's package time, such as ``2006-01-02T15:04:05Z07:00``."""

from __future__ import annotations

import re
from datetime import UTC, datetime

RFC3339 = "2006-01-02T15:04:05Z07:00"

_DIRECTIVES = {
    "2006": "%Y", "January": "%B", "Jan": "%b", "Monday": "%A", "Mon": "%a", "MST": "%Z",
    "Z07:00": "%z", "Z0700": "%z", "-07:00": "%z", "-0700": "%z", "-07": "%z",
    "002": "%j", "01": "%m", "02": "%d", "03": "%I", "04": "%M", "05": "%S", "06": "%y",
    "15": "%H", "PM": "%p", "pm": "%p", "_2": "%d", "1": "%m", "2": "%d", "3": "%I", "4": "%M",
    "5": "%S", "%": "%%",
}  # fmt: skip
_PART = re.compile("|".join(map(re.escape, sorted(_DIRECTIVES, key=len, reverse=True))))
_FRACTION = re.compile(r"(?<=\d)[.,](\d{1,9})")
_LAYOUT_FRACTION = re.compile(r"(?<=05)[.,](0+|9+)")


def parse_time(layout: str, text: str) -> datetime | None:
    """The time in ``text``, in UTC unless there is a zone; None for another layout.

    A fraction of a second may follow the seconds, whether or not the layout has one.
    """
    directives = _PART.sub(lambda part: _DIRECTIVES[part[0]], _LAYOUT_FRACTION.sub("", layout))
    fraction = _FRACTION.search(text) if "%S" in directives else None
    for known in (None, fraction):
        plain = text if known is None else text[: known.start()] + text[known.end() :]
        try:
            time = datetime.strptime(plain, directives)  # noqa: DTZ007 - the zone is set below
        except ValueError:
            continue
        if known is not None:
            time = time.replace(microsecond=int(known[1].ljust(6, "0")[:6]))
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return None
