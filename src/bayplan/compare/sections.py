"""Sections: what is shown of a comparison, as tables and lines, for a terminal and for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bayplan.compare.dump import Change, Difference, DumpComparison
from bayplan.measures import Measures, named
from bayplan.replay.outcome import Sample, figures, numbers, text_of
from bayplan.replay.run import Outcome

MOST = 200
"""Rows of a section."""
CHANGES = {
    Change.ELSEWHERE: "go to another node",
    Change.PENDING_IN_A: "wait with A only",
    Change.PENDING_IN_B: "wait with B only",
    Change.EVICTIONS: "evict others",
    Change.MESSAGE: "wait for other reasons",
}


class Section(NamedTuple):
    """A table.

    Attributes:
        numeric: whether all columns but the first are numbers.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric: bool = False


class Chart(NamedTuple):
    """A number over time, with both configurations; None where there is none."""

    title: str
    a: Sequence[float | None]
    b: Sequence[float | None]


def of_dump(comparison: DumpComparison) -> list[Section]:
    """The tables of two configurations on a cluster file."""
    differences = comparison.differences
    counts = Counter(one.change for one in differences)
    owners = Counter(one.owner for one in differences)
    return [
        Section(
            "Pods that differ",
            ("", "Pods"),
            [(text, f"{counts[change]:,}") for change, text in CHANGES.items() if counts[change]],
            numeric=True,
        ),
        Section(
            "By plugin of B",
            ("plugin", "Pods"),
            [(plugin, f"{count:,}") for plugin, count in comparison.plugins.items()],
            numeric=True,
        ),
        Section(
            "By owner",
            ("owner", "Pods"),
            [(owner, f"{count:,}") for owner, count in owners.most_common(MOST)],
            numeric=True,
        ),
        Section(
            "Differences",
            ("pod", "A", "B", "why"),
            [_row(one) for one in differences[:MOST]],
        ),
        Section("Would be evicted", ("pod", "with"), _evicted(differences)),
        Section("Measures", ("", "A", "B"), _measures(comparison.a, comparison.b), numeric=True),
    ]


def _evicted(differences: Sequence[Difference]) -> Sequence[tuple[str, ...]]:
    """Who would be evicted for a Pod that differs, with only one of the two."""
    a = {victim for one in differences for victim in one.a.victims}
    b = {victim for one in differences for victim in one.b.victims}
    return [(pod, "A" if pod in a else "B") for pod in sorted(a ^ b)][:MOST]


def _row(one: Difference) -> tuple[str, ...]:
    return one.pod, _side(one, one.a.node), _side(one, one.b.node), _why(one)


def _side(one: Difference, node: str) -> str:
    if one.change is Change.EVICTIONS:
        side = one.a if node == one.a.node else one.b
        return f"{node or 'waits'}, evicts {len(side.victims)}"
    return node or "waits"


def _why(one: Difference) -> str:
    waits = one.b.message if one.a.node or not one.a.message else one.a.message
    if one.change is Change.EVICTIONS:
        gone = sorted({*one.a.victims} ^ {*one.b.victims})
        return f"would be evicted with one only: {', '.join(gone)}"
    if one.change is Change.MESSAGE:
        return f"A: {one.a.message} B: {one.b.message}"
    if one.follows:
        return "follows from what was placed before"
    if one.plugin and one.points:
        return f"{one.plugin}: B rates its own node {one.points} higher"
    if one.plugin:
        return f"{one.plugin} rejects A's node: {', '.join(one.reasons)}"
    return waits if not (one.a.node and one.b.node) else ""


def _measures(a: Measures, b: Measures) -> list[tuple[str, ...]]:
    return _both(named(a), named(b))


def _both(a: dict[str, float], b: dict[str, float]) -> list[tuple[str, ...]]:
    return [
        (name, *(text_of(name, side[name]) if name in side else "-" for side in (a, b)))
        for name in dict.fromkeys((*a, *b))
    ]


def of_replays(a: Outcome, b: Outcome) -> list[Section]:
    """The tables of two replays of one recording."""
    rows: list[tuple[str, ...]] = [
        (title, one, other)
        for (title, one), (_, other) in zip(figures(a.summary), figures(b.summary), strict=True)
    ]
    rows += _both(a.summary.means, b.summary.means)
    sections = [Section("The whole time", ("", "A", "B"), rows, numeric=True)]
    for name, outcome in (("A", a), ("B", b)):
        waits = list(outcome.pending.items())[:MOST]
        sections.append(Section(f"Waits at the end with {name}", ("pod", "why"), waits))
    return sections


def charts(a: Sequence[Sample], b: Sequence[Sample]) -> list[Chart]:
    """Every number of the samples over time, but what is always 0."""
    one, other = ([numbers(sample) for sample in side] for side in (a, b))
    names = dict.fromkeys(name for sample in (*one, *other) for name in sample)
    drawn = []
    for name in names:
        chart = Chart(
            name, [sample.get(name) for sample in one], [sample.get(name) for sample in other]
        )
        if any(chart.a) or any(chart.b):
            drawn.append(chart)
    return drawn
