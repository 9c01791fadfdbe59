"""``bayplan shadow``: judge each decision of another scheduler, and write nothing."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bayplan.support import logs
from bayplan.app.follow import Follower
from bayplan.app.shadow import ShadowOptions, ShadowProcess
from bayplan.app.sources import Sources
from bayplan.cli import asking, live, offline, plugins
from bayplan.client.errors import ApiError
from bayplan.client.kubeconfig import KubeconfigError
from bayplan.config import ConfigError
from bayplan.server.options import PortError
from bayplan.shadow import page
from bayplan.shadow.follows import Follows, judging
from bayplan.shadow.report import EXCUSED_WORDS, OUTCOME_WORDS, agreement
from bayplan.shadow.shadow import Settings
from bayplan.simulation.name_order import NameOrder

PORT = 10260
METRICS_PORT = 10261
SERVER = f"http://127.0.0.1:{PORT}"


class Output(StrEnum):
    """How to print a report."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


app = typer.Typer(add_completion=False, invoke_without_command=True)


@app.callback()
def shadow(
    context: typer.Context,
    scheduler_name: Annotated[
        str, typer.Option(help="Whose Pods are judged: their spec.schedulerName.")
    ] = offline.DEFAULT_PROFILE,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Judge Pods of this one only; may be repeated."),
    ] = None,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="Judge this share of the Pods, by their uid.")
    ] = 1.0,
    config: plugins.ConfigOption = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    kubeconfig: live.KubeconfigOption = None,
    lookahead: Annotated[
        float, typer.Option(min=0, help="Seconds to stay behind, to know what was in flight.")
    ] = 1.0,
    most_behind: Annotated[
        float,
        typer.Option(min=0, help="Pass decisions over when more seconds late than that."),
    ] = 10.0,
    remember: Annotated[
        int, typer.Option(min=1, help="Verdicts to keep; about 1 KB each.")
    ] = 10_000,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the pages, on 127.0.0.1; 0 for a free one.")
    ] = PORT,
    metrics_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of probes and metrics, plain HTTP; 0 for none.")
    ] = METRICS_PORT,
    bind_address: Annotated[
        str, typer.Option(help="Address of the metrics port; empty for all.")
    ] = "0.0.0.0",  # noqa: S104 - as bayplan run
    log_format: Annotated[str, typer.Option(help="json or console.")] = "json",
) -> None:
    """Follow another scheduler, decide each of its Pods, too, and say what differs.

    Without --config, kube-scheduler's defaults judge. A configuration with one profile judges by
    that one; one with several by the profile of that name.
    """
    if context.invoked_subcommand is not None:
        return
    if log_format not in ("json", "console"):
        raise typer.BadParameter("must be json or console", param_hint="--log-format")
    logs.configure(json=log_format == "json")
    gates = tuple(feature_gates or ())
    sources = Sources(config, tuple(plugin_dir or ()), scheduler_name, gates)
    registry, effective = plugins.load(sources, elects=False)
    follows = Follows(scheduler_name, tuple(namespace or ()), share)
    settings = Settings(lookahead, most_behind)
    options = ShadowOptions(settings, remember, port, metrics_port, bind_address)
    try:
        judge = judging(effective, scheduler_name)
        if judge.settings.extenders:
            typer.echo(
                "extenders are not asked: they may not know that nothing comes of it", err=True
            )
        follower = Follower(judge, registry, kubeconfig, NameOrder())
        ShadowProcess(follower, follows, options).run()
    except ConfigError as error:
        plugins.unusable(ConfigError(error.errors, str(config or "")))
    except (ApiError, KubeconfigError, PortError) as error:
        plugins.unusable(error)


@app.command()
def report(
    server: Annotated[
        str, typer.Option(help="URL of the shadow's pages, forwarded from its Pod.")
    ] = SERVER,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to print it.")
    ] = Output.TEXT,
) -> None:
    """Print what a running shadow has found so far."""
    try:
        http = asking.connect(server, "", None, None, insecure=False)
        found = http.get("/report")
        document = msgspec.json.decode(found)
    except (ApiError, KubeconfigError, msgspec.DecodeError) as error:
        plugins.unusable(error)
    match output:
        case Output.JSON:
            typer.echo(msgspec.json.format(found, indent=2))
        case Output.HTML:
            typer.echo(page.render(document))
        case Output.TEXT:
            print_report(offline.console(), document)


def print_report(console: Console, report: dict[str, Any]) -> None:
    """The report of a shadow (`bayplan.shadow.report`) as text."""
    console.print(
        f"shadow of {report['scheduler']}, {report['since']} to {report['until']}: "
        f"{agreement(report)}",
        style="bold",
    )
    for table in _tables(report):
        if table.row_count:
            console.print()
            console.print(table)
    for one in report.get("differences", ())[:10]:
        console.print(f"\n{one['time']} {one['sentence']}", highlight=False, soft_wrap=True)


def _tables(report: dict[str, Any]) -> Iterator[Table]:
    decisions = _table("decisions", "what came of them")
    for outcome, number in report.get("outcomes", {}).items():
        decisions.add_row(f"{number:,}", OUTCOME_WORDS[outcome])
    yield decisions
    left_out = _table("not compared", "why")
    for reason, number in report.get("notCompared", {}).items():
        left_out.add_row(f"{number:,}", EXCUSED_WORDS[reason])
    yield left_out
    by_plugin = _table("plugin", "prefers ours", "points", "rejects theirs")
    for name, of in report.get("plugins", {}).items():
        by_plugin.add_row(name, *(f"{of[key]:,}" for key in ("prefers", "points", "rejects")))
    yield by_plugin
    owners = _table("owner", "compared", "differ")
    for one in report.get("owners", ())[:10]:
        if one["differ"]:
            owners.add_row(one["owner"], f"{one['compared']:,}", f"{one['differ']:,}")
    yield owners
    yield _state(report.get("measures", ()))


def _state(moments: list[dict[str, Any]]) -> Table:
    """The measures of the cluster, at first and at last."""
    table = _table("the cluster", "at first", "at last")
    if moments:
        for title, values in page.lines([moments[0], moments[-1]]).items():
            if any(values):
                cells = ("-" if value is None else f"{value:,.3g}" for value in values)
                table.add_row(title, *cells)
    return table


def _table(*titles: str) -> Table:
    return Table(*titles, box=None, pad_edge=False, header_style="dim")
