"""``bayplan status``: how the running scheduler is, and what waits.

The answer is the scheduler's own (`bayplan.app.status`), read with the user's credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bayplan.cli import asking, live, offline, plugins
from bayplan.cli.offline import WideOutput
from bayplan.client import kubeconfig as credentials
from bayplan.client.errors import ApiError, Forbidden
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError

UNWELL = 1
"""Exit code: nobody leads, or what was asked is not ready, is stuck or has unused files."""
WIDTH = 80


app = typer.Typer(add_completion=False)


@app.command()
def status(
    server: asking.ServerOption = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            help="For who may not list all Pods: whose names are shown; default: that of the "
            "kubeconfig's context.",
        ),
    ] = "",
    lease: asking.LeaseOption = asking.LEASE,
    authority: asking.AuthorityOption = None,
    insecure: asking.InsecureOption = False,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
    output: offline.WideOutputOption = WideOutput.TEXT,
) -> None:
    """Say who leads, whether it is well, what waits the longest and what is under way.

    Exit code 0: somebody leads and nothing is wrong. 1: else. 2: it cannot
    be asked.
    """
    where = Kubeconfig(kubeconfig, context)
    try:
        http = asking.connect(server, lease, authority, where, insecure=insecure)
        answer = _asked(http, namespace, credentials.namespace(where))
    except (ApiError, KubeconfigError, msgspec.DecodeError) as error:
        plugins.unusable(error)
    if output in (WideOutput.TEXT, WideOutput.WIDE):
        console = offline.console()
        if output is WideOutput.TEXT:
            console.width = min(console.width, WIDTH)
        _print(console, answer, wide=output is WideOutput.WIDE)
    else:
        offline.print_data(answer, offline.Output(output))
    if not _is_well(answer):
        raise typer.Exit(UNWELL)


def _asked(http: Http, namespace: str, own: str) -> dict[str, Any]:
    """Of the whole cluster, or else of a namespace."""
    try:
        data = http.get(
            f"/status?{urlencode({'namespace': namespace})}" if namespace else "/status"
        )
    except Forbidden:
        if namespace:
            raise
        return _asked(http, own, own)
    answer: dict[str, Any] = msgspec.json.decode(data)
    return answer


def _is_well(answer: dict[str, Any]) -> bool:
    leads = answer["leads"] or "leaderSince" in answer
    used = answer["configuration"]["used"]
    return leads and answer["ready"] and used and "unanswered" not in answer


def _print(console: Console, answer: dict[str, Any], *, wide: bool) -> None:
    console.print(answer["sentence"], style="bold")
    console.print()
    facts = Table.grid(padding=(0, 2))
    for title, text in _facts(answer):
        facts.add_row(title, text)
    console.print(facts)
    for table in (_plugins(answer), _causes(answer), _oldest(answer, wide=wide)):
        if table.row_count:
            console.print()
            console.print(table)


def _facts(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Titles and lines; a title that has been there is left out."""
    for line in answer.get("notReady", ()):
        yield "not ready", line
    if stuck := answer.get("stuck"):
        what = f"{stuck['plugin']} ({stuck['point']})" if "plugin" in stuck else "a step"
        pod = f" with Pod {stuck['pod']}" if "pod" in stuck else ""
        yield "stuck", f"{what} has not returned for {stuck['seconds']:g} s{pod}"
    rates = answer["rates"]
    tried = rates["scheduled"] + rates["unschedulable"] + rates["error"]
    errors = f", {rates['error']:g} errors" if rates["error"] else ""
    text = f"{rates['scheduled']:g} bindings, {tried:g} attempts{errors}"
    yield "a second", f"{text} (last {rates['seconds']} s)"
    if "unanswered" in answer:
        yield "unanswered", answer["unanswered"]
    else:
        yield "in flight", _in_flight(answer["inFlight"])
    config = answer["configuration"]
    if config["used"]:
        times = f", reloaded {config['reloads']} times" if config["reloads"] else ""
        yield "configuration", f"read {config['read']}{times}"
    else:
        why = f": {config['problem']}" if "problem" in config else ""
        yield "configuration", f"the files of {config['read']} are not what runs{why}"


def _in_flight(flight: dict[str, Any]) -> str:
    permit = [f"{count} in Permit for {plugin}" for plugin, count in flight["permit"].items()]
    if flight["preBind"]:
        permit.append(f"{flight['preBind']} in PreBind")
    parts = [f"{flight['bindings']} bindings" + (f" ({', '.join(permit)})" if permit else "")]
    if flight["groups"]:
        parts.append(f"{flight['groups']} groups")
    if flight["evictions"]:
        oldest = max((one.get("seconds", 0) for one in flight.get("leavingFor", ())), default=0)
        since = f", for {offline.age(oldest)}" if oldest else ""
        parts.append(f"{flight['evictions']} evictions ({flight['leaving']} Pods{since})")
    return "; ".join(parts)


def _table(*titles: str) -> Table:
    return Table(*titles, box=None, pad_edge=False, header_style="dim")


def _plugins(answer: dict[str, Any]) -> Table:
    table = _table("plugin", "point", "failures", "last minute", "1 in 100 over")
    for one in answer.get("plugins", ()):
        over = f"{one['hundredthOverSeconds']:.2g} s" if "calls" in one else ""
        counts = str(one["failures"]), str(one["recentFailures"])
        table.add_row(one["plugin"], one["point"], *counts, over)
    return table


def _causes(answer: dict[str, Any]) -> Table:
    table = _table("waiting", "rejected or held by")
    for one in answer.get("waiting", {}).get("by", ()):
        table.add_row(str(one["entries"]), one["cause"])
    return table


def _oldest(answer: dict[str, Any], *, wide: bool) -> Table:
    table = _table("the oldest", "for", "tries", "by", *(("state", "said") if wide else ()))
    table.columns[0].no_wrap = True
    for one in answer.get("waiting", {}).get("oldest", ()):
        what = one["pod"] if "pod" in one else f"{one['group']} ({one['pods']} Pods)"
        age = offline.age(one["seconds"]) if "seconds" in one else "-"
        more = (one["state"], one.get("message", "")) if wide else ()
        table.add_row(what, age, str(one["attempts"]), one["cause"], *more)
    return table
