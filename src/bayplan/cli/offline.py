"""What `bayplan explain` and `bayplan simulate` share: options, reading a file, output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from bayplan import logs
from bayplan.app.assembly import Core
from bayplan.cli import plugins
from bayplan.config import ConfigError
from bayplan.simulation import Cluster, ClusterFileError, load_cluster, offline_core

DEFAULT_PROFILE = "default-scheduler"
"""The profile without a configuration: every pending Pod is judged by it, whatever it asks for."""
WIDTH = 140
"""Columns of text that does not go to a terminal."""

FileOption = Annotated[
    Path,
    typer.Option(
        "--filename",
        "-f",
        help="Cluster file: YAML documents or JSON as kubectl get -o yaml prints; - for stdin.",
    ),
]


class Output(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]


def load(
    path: Path, config: Path | None, plugin_dirs: Iterable[Path] | None
) -> tuple[Cluster, Core]:
    """The cluster in the file, and a core that holds it.

    Raises:
        ClusterFileError: there is nothing to judge in the file.
        typer.Exit: the configuration or a plugin cannot be used; the errors are printed.
    """
    registry, effective = plugins.load(config, plugin_dirs, DEFAULT_PROFILE, elects=False)
    cluster = load_cluster(path, None if config else DEFAULT_PROFILE)
    try:
        return cluster, offline_core(cluster, effective, registry)
    except ConfigError as error:
        source = ConfigError(error.errors, str(config)) if config else error
        typer.echo("\n".join(source.lines()), err=True)
        raise typer.Exit(plugins.UNUSABLE) from None


@contextmanager
def reporting() -> Iterator[None]:
    """Around a command: logs go to stderr, and so does a file with nothing to judge, as exit 2."""
    logs.configure(json=False)
    try:
        yield
    except ClusterFileError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(plugins.UNUSABLE) from None


def print_notes(cluster: Cluster) -> None:
    """What was left out of the file or is doubtful in it, on stderr."""
    for line in cluster.notes.lines():
        typer.echo(line, err=True)


class _Dumper(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def print_data(data: Any, output: Output) -> None:
    """Print plain data as JSON or YAML."""
    if output is Output.JSON:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
        typer.echo(text, nl=False)


def console() -> Console:
    """Where text goes."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH)
