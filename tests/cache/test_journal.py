"""The journal: what a reader is told, and when it has to start over."""

from __future__ import annotations

import pytest

from bayplan.cache.journal import Journal


def test_a_reader_is_told_what_came_since_its_position() -> None:
    journal = Journal()
    start = journal.position
    journal.append(3)
    journal.append(3)
    middle = journal.position
    journal.append(1)
    assert journal.since(start) == [3, 3, 1]
    assert journal.since(middle) == [1]
    assert journal.since(journal.position) == []


@pytest.mark.parametrize(("appended", "kept"), [(4, 4), (5, 3), (7, 3), (8, 4)])
def test_old_entries_are_dropped_and_who_missed_them_is_told(appended: int, kept: int) -> None:
    journal = Journal(capacity=4)
    for row in range(appended):
        journal.append(row)
    assert journal.position == appended
    assert journal.since(appended - kept) == list(range(appended - kept, appended))
    if appended > kept:
        assert journal.since(appended - kept - 1) is None


def test_before_the_beginning_is_always_forgotten() -> None:
    assert Journal().since(-1) is None
