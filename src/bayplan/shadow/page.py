"""The report as one HTML file that needs nothing else: no script, no request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from bayplan.shadow.report import EXCUSED_WORDS, OUTCOME_WORDS, agreement
from bayplan.shadow.verdict import AGREED, Outcome

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #4a7fb5; --differs: #c2632c }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.bar { display: inline-block; height: .8em; background: var(--bar) }
.differs .bar { background: var(--differs) }
svg { display: block; margin: .3rem 0 1rem; overflow: visible }
polyline { fill: none; stroke: var(--bar); stroke-width: 1.5 }
"""
WIDTH, HEIGHT = 600, 60
"""Of a line of measures, in pixels."""


def render(report: dict[str, Any]) -> bytes:
    """The page of a report (`bayplan.shadow.report.report`)."""
    scheduler = escape(report["scheduler"])
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>shadow of {scheduler}</title><style>{_STYLE}</style>",
        f"<h1>Shadow of {scheduler}</h1>",
        f"<p>{escape(report['since'])} to {escape(report['until'])}{_scope(report)}. "
        f"{escape(agreement(report))}.",
        *_outcomes(report),
        *_section("Not compared", ("decisions", "reason"), _not_compared(report)),
        *_section("Skipped", ("since", "until", "decisions", "reason"), _skipped(report)),
        *_section("Plugins", ("plugin", "prefers ours", "points", "rejects theirs"), _of(report)),
        *_section("Owners that differ most", ("owner", "compared", "differ"), _owners(report)),
        *_measures(report.get("measures", ())),
        *_section("The last differences", ("time", "what"), _differences(report)),
    ]
    return "\n".join(parts).encode()


def _scope(report: dict[str, Any]) -> str:
    scope = ""
    if namespaces := report.get("namespaces"):
        scope += f", namespaces {escape(', '.join(namespaces))}"
    if report["share"] < 1:
        scope += f", {report['share']:.1%} of the Pods"
    if report["behindSeconds"]:
        scope += f", {report['behindSeconds']:g} s behind"
    return scope


def _outcomes(report: dict[str, Any]) -> Iterable[str]:
    yield "<h2>Decisions</h2><table>"
    for name, count in report.get("outcomes", {}).items():
        outcome = Outcome(name)
        row = "" if outcome in AGREED else " class=differs"
        share = count / report["compared"]
        bar = f"<span class=bar style='width:{max(200 * share, 1):.0f}px'></span>"
        cells = f"<td class=n>{count:,}<td class=n>{share:.2%}<td>{bar}<td>{OUTCOME_WORDS[outcome]}"
        yield f"<tr{row}>{cells}"
    yield "</table>"


def _not_compared(report: dict[str, Any]) -> list[list[Any]]:
    return [[n, EXCUSED_WORDS[why]] for why, n in report.get("notCompared", {}).items()]


def _skipped(report: dict[str, Any]) -> list[list[Any]]:
    spans = report.get("skipped", ())
    return [[s["since"], s["until"], s["count"], EXCUSED_WORDS[s["reason"]]] for s in spans]


def _of(report: dict[str, Any]) -> list[list[Any]]:
    plugins = report.get("plugins", {}).items()
    return [[name, of["prefers"], of["points"], of["rejects"]] for name, of in plugins]


def _owners(report: dict[str, Any]) -> list[list[Any]]:
    return [[o["owner"], o["compared"], o["differ"]] for o in report.get("owners", ())[:50]]


def _differences(report: dict[str, Any]) -> list[list[Any]]:
    return [[one["time"], one["sentence"]] for one in report.get("differences", ())]


def _section(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterable[str]:
    if not rows:
        return
    yield f"<h2>{title}</h2><table><tr>{''.join(f'<th>{column}' for column in columns)}"
    for row in rows:
        cells = (
            f"<td class=n>{cell:,}" if isinstance(cell, int) else f"<td>{escape(str(cell))}"
            for cell in row
        )
        yield f"<tr>{''.join(cells)}"
    yield "</table>"


def _measures(moments: Sequence[dict[str, Any]]) -> Iterable[str]:
    """A line for each measure, from the first moment to the last."""
    if len(moments) < 2:
        return
    yield f"<h2>The cluster, {escape(moments[0]['time'])} to {escape(moments[-1]['time'])}</h2>"
    for title, values in lines(moments).items():
        known = [value for value in values if value is not None]
        if not known or max(known) == 0:
            continue
        top = max(known)
        step = WIDTH / (len(values) - 1)
        points = " ".join(
            f"{place * step:.0f},{HEIGHT - HEIGHT * value / top:.1f}"
            for place, value in enumerate(values)
            if value is not None
        )
        said = f"{escape(title)}: {known[0]:.3g} at first, {known[-1]:.3g} at last"
        yield f"<div>{said}, {min(known):.3g} to {top:.3g}</div>"
        yield f"<svg width={WIDTH} height={HEIGHT}><polyline points='{points}'/></svg>"


def lines(moments: Sequence[dict[str, Any]]) -> dict[str, list[float | None]]:
    """The measures that are drawn, by title, a value for each moment; None where there is none."""
    drawn: dict[str, list[float | None]] = {}

    def draw(title: str, place: int, value: float | None) -> None:
        drawn.setdefault(title, [None] * len(moments))[place] = value

    for place, moment in enumerate(moments):
        draw("Pods", place, moment["pods"])
        draw("largest share in use, mean of the nodes", place, moment["dominant"]["mean"])
        draw("its spread (standard deviation)", place, moment["dominant"]["deviation"])
        for name, share in moment["stranded"].items():
            draw(f"stranded {name}, share", place, share)
        for name, devices in moment["devices"].items():
            draw(f"fragmentation of {name}", place, devices["fragmentation"])
        for level, share in moment["survivors"].items():
            draw(f"Pods that survive the loss of one {level}", place, share)
        for level, owners in moment["owners"].items():
            draw(
                f"Pods of an owner that survive the loss of one {level}", place, owners["survivors"]
            )
            draw(f"owners with all Pods in one {level}, share", place, owners["lost"])
        draw("price an hour of nodes in use", place, moment["price"])
    return drawn
