"""``bayplan why``: ask the running scheduler about a Pod or a group.

The answer is the scheduler's own (`bayplan.explain.why`): its state, configuration and plugins. It
is read from the scheduler's port with the credentials of the user's kubeconfig.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from bayplan.api import quantity
from bayplan.cli import asking, completion, explain_live, live, offline, plugins
from bayplan.cli.asking import Scheduler, Subject
from bayplan.cli.offline import WideOutput
from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError, NotFound
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError

UNKNOWN = 1
"""Exit code: the scheduler has never seen the Pod; or no Pod waits."""
MOST = 100
"""Pods that wait and are asked about."""
SHOWN = 3
"""Names of nodes in a row."""

app = typer.Typer(add_completion=False)


@app.command()
def why(
    subject: Annotated[
        str | None,
        typer.Argument(
            help="A Pod: NAME, pod/NAME or NAMESPACE/NAME. A group: podgroup/NAME; of one without "
            "a PodGroup: job/NAME, jobset/NAME, leaderworkerset/NAME-INDEX. Without one: a line "
            "for each Pod that waits.",
            metavar="[POD|KIND/NAME]",
            autocompletion=completion.subjects,
        ),
    ] = None,
    server: asking.ServerOption = None,
    namespace: live.OurNamespaceOption = None,
    lease: asking.LeaseOption = asking.LEASE,
    authority: asking.AuthorityOption = None,
    insecure: asking.InsecureOption = False,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
    selector: Annotated[
        str, typer.Option("--selector", "-l", help="Of Pods that wait, those with these labels.")
    ] = "",
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Pods that wait in all namespaces.")
    ] = False,
    output: offline.WideOutputOption = WideOutput.TEXT,
) -> None:
    """Say why a Pod or a group waits, or what became of the Pod, as the running scheduler knows."""
    if subject is not None and (selector or everywhere):
        raise typer.BadParameter("a Pod or group, or -l and -A: not both")
    where = Kubeconfig(kubeconfig, context)
    ours = namespace or credentials.namespace(where)
    try:
        scheduler = asking.connect(server, lease, authority, where, insecure=insecure)
        if subject is None:
            api_server = Http(Connection.load(where))
            subjects = explain_live.pending(api_server, "" if everywhere else ours, selector)
            _several(scheduler, (one for one, _ in subjects), output)
            return
        answer = _asked(scheduler, asking.subject(subject, ours))
    except NotFound as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNKNOWN) from None
    except (ApiError, KubeconfigError, msgspec.DecodeError) as error:
        plugins.unusable(error)
    if output in (WideOutput.TEXT, WideOutput.WIDE):
        _print(offline.console(), answer, None if output is WideOutput.WIDE else SHOWN)
    else:
        offline.print_data(answer, offline.Output(output))


def _asked(scheduler: Scheduler, about: Subject) -> dict[str, Any]:
    kind = "group" if about.is_group else "pod"
    query = {"namespace": about.namespace, kind: about.name}
    answer: dict[str, Any] = msgspec.json.decode(scheduler.get(f"/why?{urlencode(query)}"))
    return answer


def _several(scheduler: Scheduler, subjects: Iterator[Subject], output: WideOutput) -> None:
    """Each Pod that waits, as a row or as data, without Pods gone meanwhile."""
    answers = []
    for about in islice(subjects, MOST):
        with suppress(NotFound):
            answers.append(_asked(scheduler, about))
    if next(subjects, None) is not None:
        typer.echo(f"there are more: only {MOST} were asked about", err=True)
    if output not in (WideOutput.TEXT, WideOutput.WIDE):
        offline.print_data(answers, offline.Output(output))
    elif answers:
        offline.console().print(_rows(answers, wide=output is WideOutput.WIDE))
    else:
        typer.echo("no Pod waits", err=True)
    if not answers:
        raise typer.Exit(UNKNOWN)


def _rows(answers: list[dict[str, Any]], *, wide: bool) -> Table:
    more = ("state", "attempts", "rejected by", "last attempt") if wide else ()
    table = _table("pod", *more, "why")
    table.columns[0].no_wrap = True
    for answer in answers:
        queue, last = answer.get("queue", {}), answer.get("last", {})
        rejectors = ", ".join(queue.get("rejectedBy", ()))
        cells = (answer["state"], str(queue.get("attempts", "")), rejectors, last.get("time", ""))
        table.add_row(answer["pod"], *cells[: len(more)], answer["sentence"])
    return table


def _print(console: Console, answer: dict[str, Any], shown: int | None) -> None:
    console.print(answer["sentence"], style="bold")
    for line in lines(answer):
        console.print(Padding(line, (0, 0, 0, 2), expand=False))
    now = answer.get("now", {})
    if answer["kind"] == "GroupAnswer":
        tables = [_plan(now)]
    else:
        tables = [_rejected(now, "rejected", "rejected by", shown), _best(now)]
        tables += [_rejected(now, "single", "only rejected by", shown), _almost(now)]
        tables.append(_tenant(answer.get("tenant", {})))
    for table in tables:
        if table.row_count:
            console.print()
            console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _chosen(chosen: dict[str, int]) -> str:
    """How the node of a Pod was chosen, when it was."""
    text = f"{chosen['fitting']} of {chosen['evaluated']} nodes fitted"
    if "total" not in chosen:
        return text
    return f"{text}, {chosen['equal']} of these with the highest score, {chosen['total']}"


def lines(answer: dict[str, Any]) -> Iterator[str]:
    """What is known beside the sentence and what is decided now."""
    yield from asking.standby(answer)
    if last := answer.get("last"):
        node = f" on {last['node']}" if "node" in last else ""
        said = f": {last['message']}" if "message" in last else ""
        chosen = f": {_chosen(last['chosen'])}" if "chosen" in last else ""
        yield f"last attempt, {last['time']}: {last['reason']}{node}{said}{chosen}"
    group = answer if isinstance(answer.get("group"), str) else answer.get("group", {})
    queue = answer.get("queue", {}) or group.get("queue", {})
    if queue:
        parts = [f"queue: {queue['state']}", f"{queue['attempts']} attempts"]
        parts += [f"waits for {queue['waitingSeconds']:g} s"] if "waitingSeconds" in queue else []
        parts += [f"backoff {queue['backoffSeconds']:g} s"] if "backoffSeconds" in queue else []
        parts += [f"rejected by {', '.join(queue['rejectedBy'])}"] if "rejectedBy" in queue else []
        yield ", ".join(parts)
    if "waiting" in group:
        of = f" of {group['minimum']} needed" if "minimum" in group else ""
        name = "" if group is answer else f"group {group['name']}: "
        yield f"{name}{group['waiting']} wait, {group['placed']} placed{of}"
    if cause := answer.get("autoscaler"):
        yield f"no node is added for it: {cause['text']}"
    if change := answer.get("changed"):
        yield change
    now = answer.get("now", {})
    if eviction := now.get("eviction"):
        named = ", ".join(eviction.get("victimsPods", ()))
        yield f"{eviction['victims']} Pods would be evicted" + (f": {named}" if named else "")


def _table(*titles: str) -> Table:
    return Table(*titles, box=None, pad_edge=False, header_style="dim")


def _plan(now: dict[str, Any]) -> Table:
    table = _table("pod", "node, or why not")
    for part in ("plan", "held", "rejected"):
        for name, remark in now.get(part, {}).items():
            table.add_row(name, remark)
    return table


def _rejected(now: dict[str, Any], part: str, title: str, shown: int | None) -> Table:
    table = _table("nodes", title, "because", "such as")
    for one in now.get(part, ()):
        some = ", ".join(one.get("some", ())[:shown])
        table.add_row(str(one["nodes"]), one["plugin"], ", ".join(one["reasons"]), some)
    return table


def _best(now: dict[str, Any]) -> Table:
    best = now.get("best", ())
    names = list(dict.fromkeys(name for one in best for name in one["scores"]))
    table = _table("node", *names, "total")
    for one in best:
        scores = [str(one["scores"].get(name, "")) for name in names]
        table.add_row(one["node"], *scores, str(one["total"]))
    return table


def _almost(now: dict[str, Any]) -> Table:
    table = _table("lacks nothing but", "needed", "free", "node")
    for one in now.get("almost", ()):
        name = one["resource"]
        amounts = [quantity.shown(name, one[what]) for what in ("requested", "free")]
        table.add_row(name, *amounts, one.get("node", ""))
    return table


def _tenant(tenant: dict[str, Any]) -> Table:
    table = _table(f"queue {tenant.get('queue', '')}", "requested", "used", "share", "limit")
    for name, one in tenant.get("resources", {}).items():
        amounts = [
            quantity.shown(name, one[what]) if what in one else "-"
            for what in ("requested", "used", "share", "limit")
        ]
        table.add_row(name, *amounts)
    return table
