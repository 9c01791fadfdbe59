"""Makes the table of plugin methods of docs/plugins.md from the Protocols of the framework.

``python -m tests.docs.plugin_methods`` prints it.
"""

from __future__ import annotations

import inspect

from bayplan.config.points import Point
from bayplan.engine.contract import METHODS, expected
from bayplan.framework.points import EXTRAS, FORMS


def plugin_methods() -> str:
    """The table in Markdown, in the order in which the methods are called."""
    order = list(Point)
    by_point = sorted(
        METHODS.items(), key=lambda item: order.index(p) if (p := _point(item[1])) else len(order)
    )
    rows = [
        f"| {_display(form)} | `{_called(method)}` | {_answer(method)} | {_summary(form, method)} |"
        for method, form in by_point
    ]
    head = ["| point | method | answers | |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _point(form: type) -> Point | None:
    points = [point for point, forms in FORMS.items() if form in forms]
    return points[0] if points else EXTRAS[form]


def _display(form: type) -> str:
    point = _point(form)
    return "any" if point is None else point.display


def _called(method: str) -> str:
    return expected(method).partition(" -> ")[0].replace("(self, ", "(").replace("(self)", "()")


def _answer(method: str) -> str:
    answer = expected(method).partition(" -> ")[2].replace(" | ", " or ")
    return f"`{answer}`"


def _summary(form: type, method: str) -> str:
    doc = inspect.getdoc(getattr(form, method)) or ""
    return " ".join(doc.partition("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    print(plugin_methods())  # noqa: T201
