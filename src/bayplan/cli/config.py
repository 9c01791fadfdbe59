"""`bayplan config`: look at a KubeSchedulerConfiguration without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayplan.app.sources import Sources
from bayplan.cli import plugins
from bayplan.config import render_config

app = typer.Typer(
    help="Check a KubeSchedulerConfiguration, or show what it comes to.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.")],
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
) -> None:
    """Say whether FILE can be used; if not, print every error and exit with code 2."""
    plugins.load(_sources(file, plugin_dir, feature_gates))
    typer.echo(f"{file}: ok")


@app.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(help="The configuration file; without it, the defaults.")
    ] = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
) -> None:
    """Print the configuration with every default, each plugin at its extension points."""
    _, effective = plugins.load(_sources(file, plugin_dir, feature_gates))
    typer.echo(render_config(effective), nl=False)


def _sources(
    file: Path | None, plugin_dirs: list[Path] | None, feature_gates: list[str] | None
) -> Sources:
    return Sources(file, tuple(plugin_dirs or ()), feature_gates=tuple(feature_gates or ()))
