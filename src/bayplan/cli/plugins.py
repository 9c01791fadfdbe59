"""The first step of every command with plugins: load the plugins and the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bayplan.app.sources import Sources
from bayplan.config import ConfigError, EffectiveConfig
from bayplan.engine.registry import PluginLoadError, Registry

UNUSABLE = 2
"""Exit code for a configuration or a plugin that cannot be used."""

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="KubeSchedulerConfiguration file.")
]
PluginDirOption = Annotated[
    list[Path] | None,
    typer.Option("--plugin-dir", help="Folder with Python files of plugins; may be repeated."),
]
FeatureGatesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-gates",
        metavar="A=true,B=false",
        help="Features to switch on or off, as kube-scheduler takes them; may be repeated.",
    ),
]


def unusable(why: object) -> NoReturn:
    """Print what cannot be used, and why; end the command with code 2."""
    typer.echo(str(why), err=True)
    raise typer.Exit(UNUSABLE)


def load(sources: Sources, *, elects: bool = True) -> tuple[Registry, EffectiveConfig]:
    """The plugins and the configuration; exits with code 2 and every error when they are wrong.

    Warnings go to standard error; those about leader election only where one is held (``elects``).
    """
    try:
        registry, effective = sources.read()
    except (PluginLoadError, ConfigError) as error:
        unusable(error)
    silent = () if elects else ("leaderElection",)
    for warning in effective.warnings:
        if not warning.path.startswith(silent):
            typer.echo(f"{sources.config}: warning: {warning}", err=True)
    return registry, effective
