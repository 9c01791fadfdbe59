"""Page: a comparison as one HTML file that needs nothing else: no script, no request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from bayplan.compare.sections import Chart, Section
from bayplan.replay.outcome import text_of

WIDTH, HEIGHT = 640, 80
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --a: #4a7fb5; --b: #c2632c }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top }
.n td:not(:first-child), .n th:not(:first-child) { text-align: right;
  font-variant-numeric: tabular-nums }
svg { display: block; margin: .3rem 0 1rem; overflow: visible }
polyline { fill: none; stroke-width: 1.5 }
.a { color: var(--a); stroke: var(--a) } .b { color: var(--b); stroke: var(--b) }
"""


def render(
    title: str, names: tuple[str, str], sections: Sequence[Section], charts: Sequence[Chart] = ()
) -> bytes:
    """The page.

    Args:
        title: what is compared.
        names: of A and B.
        sections: tables; empty ones are left out.
        charts: over time.
    """
    a, b = map(escape, names)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        f"<p><b class=a>A</b> is {a}, <b class=b>B</b> is {b}.",
    ]
    for section in sections:
        parts += _table(section)
    if charts:
        parts.append("<h2>Over time</h2>")
    for chart in charts:
        parts += _chart(chart)
    return "\n".join(parts).encode()


def _table(section: Section) -> Iterable[str]:
    if not section.rows:
        return
    kind = " class=n" if section.numeric else ""
    head = "".join(f"<th>{escape(column)}" for column in section.columns)
    yield f"<h2>{escape(section.title)}</h2><table{kind}><tr>{head}"
    for row in section.rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}' for cell in row)}"
    yield "</table>"


def _chart(chart: Chart) -> Iterable[str]:
    known = [value for value in (*chart.a, *chart.b) if value is not None]
    top = max(known)
    yield f"<div>{escape(chart.title)}, up to {text_of(chart.title, top)}</div>"
    yield f"<svg width={WIDTH} height={HEIGHT}>"
    for name, values in (("a", chart.a), ("b", chart.b)):
        step = WIDTH / max(len(values) - 1, 1)
        points = " ".join(
            f"{place * step:.1f},{HEIGHT - HEIGHT * value / top:.1f}"
            for place, value in enumerate(values)
            if value is not None
        )
        yield f"<polyline class={name} points='{points}'/>"
    yield "</svg>"
