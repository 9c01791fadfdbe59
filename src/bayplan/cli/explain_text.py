"""An explanation as text: where the Pod goes and why there, or why it stays pending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Verdict = dict[str, Any]

NAMES_SHOWN = 6


def print_verdict(console: Console, verdict: Verdict, top: int) -> None:
    """Print one explanation; ``top`` is how many nodes are shown with their scores."""
    pod = Text(verdict["pod"], style="bold")
    best = verdict.get("best")
    if node := verdict.get("runsOn"):
        pod += Text(f" (runs on {node}; judged as if it were pending)", style="dim")
    if group := verdict.get("group", {}):
        pod += Text(f" waits with the group {group['name']}; alone it")
    console.print(pod + Text(_outcome(verdict), style="green" if best else "yellow"))
    preemption = _preemption(verdict.get("postFilter", {}))
    for line in (_with_group(group), verdict.get("message"), preemption):
        if line:
            _indented(console, Text(line))
    if "scores" in verdict:
        _indented(console, _scores(verdict, top))
        if (more := len(verdict["totals"]) - top) > 0:
            _indented(console, Text(f"... and {more} more nodes that fit", style="dim"))
    rejected = _rejections(verdict.get("nodes", {}))
    if rejected.row_count:
        _indented(console, rejected)
    for line in verdict.get("details", ()):
        _indented(console, Text(line))
    console.print()


def print_group(console: Console, verdict: Verdict) -> None:
    """Print the explanation of a group."""
    members, plan = verdict.get("members", []), verdict.get("plan", {})
    minimum = f", of which {verdict['minimum']} are needed" if "minimum" in verdict else ""
    line = Text(verdict["group"], style="bold")
    domain = verdict.get("domain", {})
    where = f"; together in {domain['level']} {domain['value']}" if domain else ""
    line += Text(f" {len(members)} Pods wait{minimum}{where}", style="green" if plan else "yellow")
    console.print(line)
    _print_slices(console, "", verdict)
    for name, part in verdict.get("subGroups", {}).items():
        if part.get("level"):
            _indented(console, Text(f"{name} together in {part['level']} {part['value']}"))
        _print_slices(console, f"{name}: ", part)
    if message := verdict.get("message"):
        _indented(console, Text(message))
    nodes = Table("pod", "node, or why not", box=None, pad_edge=False, header_style="dim")
    left = dict.fromkeys(verdict.get("left", ()), "does not fit with the others; goes singly")
    later = {pod: f"{node}, by eviction" for pod, node in verdict.get("nominated", {}).items()}
    victims = dict.fromkeys(verdict.get("victims", ()), "would be evicted")
    waiting = left | verdict.get("rejected", {}) | verdict.get("held", {}) | later
    for rows, style in ((plan, "green"), (waiting, "yellow"), (victims, "red")):
        for pod, remark in rows.items():
            nodes.add_row(pod, remark, style=style)
    for pod, node in verdict.get("running", {}).items():
        nodes.add_row(pod, f"{node} (has it already)")
    if nodes.row_count:
        _indented(console, nodes)
    console.print()


def _print_slices(console: Console, name: str, part: Mapping[str, Any]) -> None:
    """Where the slices of a group or sub-group are."""
    for share in part.get("slices", ()):
        where = f"{share['level']} {share['value']}"
        _indented(console, Text(f"{name}{share['pods']} Pods in {where}"))


def _with_group(group: Mapping[str, Any]) -> str:
    """What becomes of a Pod together with its group; all else is about the Pod alone."""
    if not group:
        return ""
    if "node" in group:
        return f"With its group it goes to {group['node']}."
    return group.get("message") or "Its group is placed without it."


def _indented(console: Console, what: Any) -> None:
    console.print(Padding(what, (0, 0, 0, 2), expand=False))


def _outcome(verdict: Verdict) -> str:
    permit = verdict.get("permit", {})
    waits = permit.get("seconds", {})
    plugins = ", ".join(f"{name} (at most {waits[name]:g} s)" for name in sorted(waits))
    waiting = f" and waits there in Permit for {plugins}" if waits else ""
    if "nominated" in verdict:
        return f" goes to {verdict['nominated']}, for which it is nominated{waiting}"
    if best := verdict.get("best"):
        return f" goes to {best[0] if len(best) == 1 else f'one of {some(best)}'}{waiting}"
    if gate := verdict.get("preEnqueue"):
        return f" is held back by {gate['plugin']}: {', '.join(gate.get('reasons', []))}"
    rejection = verdict.get("preFilter") or verdict.get("reserve") or permit
    plugin = rejection.get("plugin")
    return f" stays pending, rejected by {plugin}" if plugin else " stays pending"


def _preemption(told: Mapping[str, Any]) -> str:
    if "nominatedNode" not in told:
        return ""
    node, victims = told["nominatedNode"], told.get("victims", [])
    text = f"Preemption would make room on {node} by evicting {some(victims)}."
    if tied := told.get("tied"):
        return f"{text} {some([n for n in tied if n != node])} would do as well."
    if others := len(told.get("candidates", {})) - 1:
        return f"{text} It is the best of {others + 1} nodes."
    return text


def _scores(verdict: Verdict, top: int) -> Table:
    totals: dict[str, int] = verdict["totals"]
    scores: dict[str, dict[str, int]] = verdict["scores"]
    names = sorted(totals, key=lambda name: (-totals[name], name))
    plugins = list(dict.fromkeys(plugin for name in names for plugin in scores[name]))
    table = Table("node", box=None, pad_edge=False, header_style="dim")
    for plugin in (*plugins, "total"):
        table.add_column(plugin, justify="right", overflow="fold")
    for name in names[:top]:
        parts = [str(scores[name].get(plugin, "")) for plugin in plugins]
        style = "green" if name in verdict.get("best", ()) else ""
        table.add_row(name, *parts, str(totals[name]), style=style)
    return table


def _rejections(nodes: Mapping[str, Verdict]) -> Table:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, status in nodes.items():
        if status["code"] != "Success":
            reasons = ", ".join(status.get("reasons", []))
            key = (status.get("plugin", ""), reasons, status["code"])
            groups.setdefault(key, []).append(name)
    table = Table(
        "rejected", "by", "because", "code", "nodes", box=None, pad_edge=False, header_style="dim"
    )
    for (plugin, reasons, code), names in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
        table.add_row(str(len(names)), plugin, reasons, code, some(names))
    return table


def some(names: Iterable[str]) -> str:
    """A few of ``names``, and how many more there are."""
    listed = list(names)
    more = len(listed) - NAMES_SHOWN
    return ", ".join(listed[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
