"""An explanation as text: where the Pod goes and why there, or why it stays pending."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayplan.cli.why import lines

Verdict = dict[str, Any]

NAMES_SHOWN = 6
NARROW_NAMES = 2
INDENT = 2
_TWICE = re.compile(r"\b([^,:]{8,})(?:, \1)+(?=[,.]|$)")


def print_verdicts(
    console: Console,
    verdicts: Iterable[Verdict],
    top: int,
    *,
    owners: Mapping[str, str],
    sure: bool = True,
) -> None:
    """Print explanations, equal ones of the same owner once.

    Args:
        console: where to.
        verdicts: as `bayplan.explain.explanation` makes each.
        top: how many nodes are shown with their scores.
        owners: by ``namespace/name``, whose Pod it is: kind and name.
        sure: whether all is known that decides; else a Pod only might go there.
    """
    for alike in grouped(verdicts, owners):
        first, *others = alike
        owner = owners.get(first["pod"], "")
        more = f" and {len(others)} more" + (f" of {owner}" if owner else "") if others else ""
        _print_verdict(console, first, top, more, sure=sure)


def grouped(verdicts: Iterable[Verdict], owners: Mapping[str, str]) -> list[list[Verdict]]:
    """Explanations by equal outcome and owner, in the order of the first of each."""
    alike: dict[bytes, list[Verdict]] = {}
    for verdict in verdicts:
        running = verdict.get("running", {})
        said = running.get("state"), running.get("last", {}).get("message")
        rest = {key: value for key, value in verdict.items() if key not in ("pod", "running")}
        outcome = msgspec.json.encode((owners.get(verdict["pod"]), said, rest))
        alike.setdefault(sha256(outcome).digest(), []).append(verdict)
    return list(alike.values())


def folded(verdicts: Iterable[Verdict], owners: Mapping[str, str]) -> list[Verdict]:
    """Explanations with equal ones of the same owner once: the others name the first, ``as``."""
    every = list(verdicts)
    first = {one["pod"]: alike[0]["pod"] for alike in grouped(every, owners) for one in alike[1:]}
    return [
        {key: verdict[key] for key in ("pod", "running") if key in verdict}
        | {"as": first[verdict["pod"]]}
        if verdict["pod"] in first
        else verdict
        for verdict in every
    ]


def _print_verdict(
    console: Console, verdict: Verdict, top: int, more: str = "", *, sure: bool
) -> None:
    console.print(_headline(verdict, more, sure=sure))
    running = verdict.get("running", {})
    group = verdict.get("group", {})
    if group:
        _indented(console, Text(f"Alone it{_outcome(verdict)}."))
    preemption = _preemption(verdict.get("postFilter", {}))
    for line in (*lines(running), verdict.get("message"), preemption):
        if line:
            _indented(console, Text(line))
    if "scores" in verdict:
        _indented(console, _scores(console, verdict, top))
        if (left := len(verdict["totals"]) - top) > 0:
            _indented(console, Text(f"... and {left} more nodes that fit", style="dim"))
    rejected = _rejections(console, verdict.get("nodes", {}))
    if rejected.row_count:
        _indented(console, rejected)
    for line in verdict.get("details", ()):
        _indented(console, Text(line))
    console.print()


def _headline(verdict: Verdict, more: str, *, sure: bool) -> Text:
    """Green where the Pod goes to a node as soon as it is tried."""
    pod = Text(f"{verdict['pod']}{more}", style="bold")
    running = verdict.get("running", {})
    if node := verdict.get("runsOn"):
        pod += Text(f" (runs on {node}; judged as if it were pending)", style="dim")
    elif running and (running["state"] != "Pending" or running["sentence"].endswith("leave.")):
        return Text(running["sentence"], style="yellow")
    if group := verdict.get("group"):
        style = "green" if "node" in group and sure else "yellow"
        return pod + Text(f" waits with the group {group['name']}: {_with_group(group)}", style)
    if "group" in running:
        return Text(running["sentence"], style="yellow")
    fits = "best" in verdict
    turn = ""
    if fits and (queue := running.get("queue")):
        backoff = queue.get("backoffSeconds")
        turn = f" when its backoff of {backoff:g} s ends" if backoff else " when its turn comes"
    outcome = _outcome(verdict)
    if fits and not sure:
        outcome = outcome.replace(" goes to", " would go to", 1)
    return pod + Text(f"{outcome}{turn}", style="green" if fits and sure else "yellow")


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
        _indented(console, Text(once(message)))
    nodes = _table("pod", "node, or why not")
    left = dict.fromkeys(verdict.get("left", ()), "does not fit with the others; goes singly")
    later = {pod: f"{node}, by eviction" for pod, node in verdict.get("nominated", {}).items()}
    victims = dict.fromkeys(verdict.get("victims", ()), "would be evicted")
    waiting = left | verdict.get("rejected", {}) | verdict.get("held", {}) | later
    for rows, style in ((plan, "green"), (waiting, "yellow"), (victims, "red")):
        for pod, remark in rows.items():
            nodes.add_row(pod, once(remark), style=style)
    for pod, node in verdict.get("running", {}).items():
        nodes.add_row(pod, f"{node} (has it already)")
    if nodes.row_count:
        _indented(console, nodes)
    for pod, outcomes in verdict.get("against", {}).items():
        fits = sum(status["code"] == "Success" for status in outcomes.values())
        _indented(console, Text(f"Alone {pod} fits on {fits} of {len(outcomes)} nodes."))
        rejected = _rejections(console, outcomes)
        if rejected.row_count:
            _indented(console, rejected)
    console.print()


def once(text: str) -> str:
    """``text`` without what it says twice in a row, as kube-scheduler's words about groups do."""
    return _TWICE.sub(r"\1", text)


def _print_slices(console: Console, name: str, part: Mapping[str, Any]) -> None:
    """Where the slices of a group or sub-group are."""
    for share in part.get("slices", ()):
        where = f"{share['level']} {share['value']}"
        _indented(console, Text(f"{name}{share['pods']} Pods in {where}"))


def _with_group(group: Mapping[str, Any]) -> str:
    """What becomes of a Pod together with its group."""
    if "node" in group:
        return f"it goes to {group['node']}"
    return group.get("message") or "the group is placed without it"


def _indented(console: Console, what: Any) -> None:
    console.print(Padding(what, (0, 0, 0, INDENT), expand=False))


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


def _scores(console: Console, verdict: Verdict, top: int) -> Table:
    """A column for each plugin that gives points; in a narrow place a line for each node."""
    totals: dict[str, int] = verdict["totals"]
    scores: dict[str, dict[str, int]] = verdict["scores"]
    names = sorted(totals, key=lambda name: (-totals[name], name))
    plugins = list(dict.fromkeys(plugin for name in names for plugin in scores[name]))
    plugins = [plugin for plugin in plugins if any(scores[name].get(plugin) for name in names)]
    columns = _table("node")
    for plugin in (*plugins, "total"):
        columns.add_column(plugin, justify="right", overflow="fold")
    folded = _table("node")
    folded.add_column("total", justify="right")
    folded.add_column("of which")
    for name in names[:top]:
        parts = {plugin: scores[name].get(plugin, "") for plugin in plugins}
        style = "green" if name in verdict.get("best", ()) else ""
        columns.add_row(name, *map(str, parts.values()), str(totals[name]), style=style)
        said = ", ".join(f"{plugin} {score}" for plugin, score in parts.items() if score)
        folded.add_row(name, str(totals[name]), said, style=style)
    return columns if _fits(console, columns) else folded


def _rejections(console: Console, nodes: Mapping[str, Verdict]) -> Table:
    """By status, how many nodes and some of these; in a narrow place without the code."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, status in nodes.items():
        if status["code"] != "Success":
            reasons = ", ".join(status.get("reasons", []))
            key = (status.get("plugin", ""), reasons, status["code"])
            groups.setdefault(key, []).append(name)
    rows = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    table = _table("rejected", "by", "because", "code", "nodes")
    for (plugin, reasons, code), names in rows:
        table.add_row(str(len(names)), plugin, reasons, code, some(names))
    if _fits(console, table):
        return table
    narrow = _table("rejected")
    narrow.add_column("by", no_wrap=True)
    for title in ("because", "nodes"):
        narrow.add_column(title, overflow="fold")
    for (plugin, reasons, _), names in rows:
        narrow.add_row(str(len(names)), plugin, reasons, some(names, NARROW_NAMES))
    return narrow


def _table(*titles: str) -> Table:
    return Table(*titles, box=None, pad_edge=False, header_style="dim")


def _fits(console: Console, table: Table) -> bool:
    return Measurement.get(console, console.options, table).maximum < console.width - INDENT


def some(names: Iterable[str], most: int = NAMES_SHOWN) -> str:
    """A few of ``names``, and how many more there are."""
    listed = list(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")
