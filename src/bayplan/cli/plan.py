"""``bayplan plan``: what would become of the Pods of a file, asked of the running scheduler.

The file is made into Pods here, as the API server and the controllers would; the scheduler decides
about these by its own state, configuration and plugins (`bayplan.explain.plan`).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bayplan.api.kinds import PRIORITY_CLASS, STORAGE_CLASS, Kind
from bayplan.cli import asking, live, offline, plugins
from bayplan.cli.offline import Output
from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError, Forbidden, NotFound
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError
from bayplan.simulation.cluster import manifest
from bayplan.simulation.file_kinds import RESOURCE_CLAIM_TEMPLATE, RUNTIME_CLASS

DIFFERS = 1
"""Exit code: some Pods are not placed, or others are evicted."""
CHANGED = 3
"""Exit code: the answer is not that of ``--check``."""
_ADMISSION = (PRIORITY_CLASS, STORAGE_CLASS, RUNTIME_CLASS, RESOURCE_CLAIM_TEMPLATE)

app = typer.Typer(add_completion=False)


@app.command()
def plan(
    file: offline.FileOption,
    server: asking.ServerOption = None,
    namespace: live.OurNamespaceOption = None,
    lease: asking.LeaseOption = asking.LEASE,
    authority: asking.AuthorityOption = None,
    insecure: asking.InsecureOption = False,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
    output: offline.OutputOption = Output.TEXT,
    check: Annotated[
        str,
        typer.Option(help="The token of an earlier answer: exit code 3 if it is another one now."),
    ] = "",
) -> None:
    """Say what would become of the Pods of a file now, as the running scheduler would decide.

    Exit code 0: all are placed and nobody is evicted. 1: else. 2: it cannot
    be said. 3: the answer differs from that of --check.
    """
    where = Kubeconfig(kubeconfig, context)
    with offline.reporting():
        try:
            namespace = namespace or credentials.namespace(where)
            entries, notes = manifest(file, _listed(where), namespace)
            objects = [
                {"apiVersion": entry.kind.api_version, "kind": entry.kind.name} | entry.data
                for entry in entries
            ]
            http = asking.connect(server, lease, authority, where, insecure=insecure)
            body = gzip.compress(msgspec.json.encode(objects), mtime=0)
            answer = msgspec.json.decode(
                http.post(f"/plan?{urlencode({'namespace': namespace})}", body)
            )
        except (ApiError, KubeconfigError, msgspec.DecodeError) as error:
            plugins.unusable(error)
    for line in notes.lines():
        typer.echo(line, err=True)
    if output is Output.TEXT:
        _print(offline.console(), answer)
    else:
        offline.print_data(answer, output)
    if check and check != answer["token"]:
        typer.echo(f"the answer has changed: {check} is now {answer['token']}", err=True)
        raise typer.Exit(CHANGED)
    if notes.left_out or answer["placed"] < answer["pods"] or answer["evicted"]:
        raise typer.Exit(DIFFERS)


def _listed(where: Kubeconfig) -> Iterator[tuple[Kind[Any], msgspec.Raw]]:
    """What admission reads; what may not be read is said and taken not to be there."""
    http = Http(Connection.load(where))
    for kind in _ADMISSION:
        try:
            for data in live.of_kind(http, kind):
                yield kind, data
        except (Forbidden, NotFound) as error:
            typer.echo(f"as if there were no {kind.plural}: {error}", err=True)


def _print(console: Console, answer: dict[str, Any]) -> None:
    console.print(answer["sentence"], style="bold")
    for line in asking.standby(answer):
        console.print(f"  {line}")
    tables = [
        _table(answer.get("on", ()), "of", "pods", "node"),
        _table(answer.get("rejected", ()), "of", "pods", "message"),
        _table(answer.get("evictedPods", ()), "pod", "for"),
    ]
    titles = ("placed", "not placed", "would be evicted")
    for title, table in zip(titles, tables, strict=True):
        if table.row_count:
            console.print(f"\n{title}", style="bold")
            console.print(table)
    console.print(f"\ntoken {answer['token']}")


def _table(rows: Any, *names: str) -> Table:
    table = Table(*names, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*(str(row.get(name, "")) for name in names))
    return table
