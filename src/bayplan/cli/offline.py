"""What `bayplan explain` and `bayplan simulate` share: options, reading the objects, output."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import typer
import yaml
from rich.console import Console

from bayplan.support import logs
from bayplan.api.kinds import Kind
from bayplan.app.assembly import Core
from bayplan.app.sources import Sources
from bayplan.cli import live, plugins
from bayplan.client.kubeconfig import Where
from bayplan.config import ConfigError, EffectiveConfig
from bayplan.config.args import LoadArgs
from bayplan.engine.registry import Registry
from bayplan.simulation import (
    ClusterFileError,
    LoadedCluster,
    listed_cluster,
    load_cluster,
    offline_core,
)
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.simulation.file_kinds import NODE_METRICS

DEFAULT_PROFILE = "default-scheduler"
"""The profile without a configuration: every pending Pod is judged by it, whatever it asks for."""
INCOMPLETE = 1
"""Exit code: the answer is right for what could be read and judged, but not for all Pods."""
WIDTH = 140
"""Columns of text that does not go to a terminal."""
JUDGED_HERE = (
    "judged here, from the API server's objects: what only the running scheduler knows (who waits "
    "in Permit or backs off, what plugins remember) is left out; without --config it is asked"
)
"""What is said where a running cluster is not judged by the running scheduler."""

FileOption = Annotated[
    list[Path],
    typer.Option(
        "--filename",
        "-f",
        help="Cluster file: YAML documents or JSON as kubectl get -o yaml prints; a folder of "
        "them; - for stdin. May be given more than once.",
    ),
]
FileOrClusterOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--filename",
        "-f",
        help="Cluster files in place of the running cluster: YAML documents or JSON as kubectl get "
        "-o yaml prints; a folder of them; - for stdin. May be given more than once.",
    ),
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", help="The namespace of objects that name none.")
]


class Output(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class Form(StrEnum):
    """How to print what is a text for people, too."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    HTML = "html"

    @property
    def is_data(self) -> bool:
        """Whether programs read it."""
        return self in (Form.JSON, Form.YAML)


FormOption = Annotated[
    Form, typer.Option("--output", "-o", help="How to print it; html: a page in one file.")
]


class WideOutput(StrEnum):
    """How to print what has more columns, too."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class Listing(Protocol):
    """The objects of a cluster at one moment."""

    @property
    def at(self) -> float | None:
        """When, in seconds since the epoch; None for now."""

    def objects(self, kinds: Iterable[Kind[Any]]) -> Iterator[tuple[Kind[Any], msgspec.Raw]]:
        """All objects of these kinds, each time the same ones."""


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]
WideOutputOption = Annotated[WideOutput, typer.Option("--output", "-o", help="How to print it.")]


def load(
    paths: Iterable[Path] | None,
    config: Path | None,
    plugin_dirs: Iterable[Path] | None,
    namespace: str = DEFAULT_NAMESPACE,
    as_pending: str | None = None,
    feature_gates: Iterable[str] | None = None,
    kubeconfig: Where = None,
    losing: tuple[str, str] | None = None,
    adding: tuple[int, str] | None = None,
    *,
    adopts_running: bool = False,
    beside_cluster: bool = False,
    moment: Listing | None = None,
) -> tuple[LoadedCluster, Core]:
    """The cluster in the files, or the running cluster where there are none, loaded into a core.

    The parameters are those of `bayplan.simulation.load_cluster`, and the values of options.
    Without ``config`` every Pod is judged by the default profile. With ``beside_cluster`` what is
    in the files comes to be in the running cluster, which is read at ``moment``, or now.

    Raises:
        ClusterFileError: there is nothing to judge in the files, or no node to lose or to add.
        typer.Exit: the configuration, a plugin or the cluster cannot be used; the errors are
            printed.
    """
    registry, effective = _configured(config, plugin_dirs, feature_gates)
    profile = None if config else DEFAULT_PROFILE
    try:
        kinds = registry.kinds(effective)
        if any(isinstance(a, LoadArgs) for p in effective.profiles for a in p.plugin_args.values()):
            kinds = (*kinds, NODE_METRICS)
        listing = moment or live.Moment(kubeconfig)
        read = listing.objects
        if paths:
            listed = read(kinds) if beside_cluster else ()
            cluster = load_cluster(
                paths,
                profile,
                namespace,
                as_pending,
                kinds,
                losing,
                adding,
                adopts_running=adopts_running,
                listed=listed,
            )
        else:
            cluster = listed_cluster(read(kinds), profile, as_pending, kinds, losing, adding)
        return cluster, offline_core(cluster, effective, registry, listing.at)
    except ConfigError as error:
        plugins.unusable(ConfigError(error.errors, str(config or "")))


def load_before(
    cluster: LoadedCluster,
    config: Path | None,
    plugin_dirs: Iterable[Path] | None,
    feature_gates: Iterable[str] | None,
) -> tuple[LoadedCluster, Core]:
    """What `load` would be with the same options, had no nodes been added to ``cluster``."""
    registry, effective = _configured(config, plugin_dirs, feature_gates)
    before = cluster.without_growth()
    return before, offline_core(before, effective, registry)


def _configured(
    config: Path | None,
    plugin_dirs: Iterable[Path] | None,
    feature_gates: Iterable[str] | None,
) -> tuple[Registry, EffectiveConfig]:
    gates = tuple(feature_gates or ())
    sources = Sources(config, tuple(plugin_dirs or ()), DEFAULT_PROFILE, gates)
    return plugins.load(sources, elects=False)


@contextmanager
def reporting() -> Iterator[None]:
    """Around a command: logs go to stderr, and so does a file with nothing to judge, as exit 2."""
    logs.configure(json=False)
    try:
        yield
    except ClusterFileError as error:
        plugins.unusable(error)


def print_notes(cluster: LoadedCluster) -> None:
    """What was left out of the file or is doubtful in it, on stderr."""
    for line in cluster.notes.lines():
        typer.echo(line, err=True)


def end(cluster: LoadedCluster, results: Iterable[dict[str, Any]]) -> None:
    """End the command: with 1 when Pods are missing in the answer.

    Raises:
        typer.Exit: Pods, Nodes or workloads of the file were left out, Pods are of no profile, or a
            plugin raised an exception in place of an answer.
    """
    if cluster.notes.left_out or any("fault" in result for result in results):
        raise typer.Exit(INCOMPLETE)


class _Dumper(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def print_data(data: Any, output: Output | Form) -> None:
    """Print plain data as JSON or YAML."""
    if output == Output.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
    else:
        text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
        typer.echo(text, nl=False)


def console() -> Console:
    """Where text goes, as it is: nothing in brackets or between colons is markup."""
    width = None if Console().is_terminal else WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)


@contextmanager
def printing(form: Form, title: str) -> Iterator[Console]:
    """Where text goes; for ``html`` a page in one file, printed at the end."""
    if form is not Form.HTML:
        yield console()
        return
    page = Console(
        file=io.StringIO(), record=True, width=WIDTH, highlight=False, markup=False, emoji=False
    )
    yield page
    template = _PAGE.replace("TITLE", escape(title))
    typer.echo(page.export_html(code_format=template), nl=False)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>TITLE</title>
<style>
body {{ font: 14px/1.4 monospace; margin: 2em; color: #1b1f24; background: #fff; }}
pre {{ white-space: pre-wrap; font: inherit; }}
{stylesheet}
</style>
</head>
<body>
<h1>TITLE</h1>
<pre>{code}</pre>
</body>
</html>
"""


def age(seconds: float) -> str:
    """How long something has waited, by the two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
