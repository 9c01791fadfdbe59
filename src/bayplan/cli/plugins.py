"""What every command that runs plugins does first: find them, and read the configuration."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from bayplan.config import (
    ConfigError,
    EffectiveConfig,
    default_configuration,
    load_config,
    resolve_config,
)
from bayplan.framework.registry import PluginLoadError, Registry

UNUSABLE = 2
"""Exit code for a configuration or a plugin that cannot be used."""

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="KubeSchedulerConfiguration file.")
]
PluginDirOption = Annotated[
    list[Path] | None,
    typer.Option("--plugin-dir", help="Folder with Python files of plugins; may be repeated."),
]


def load(
    config: Path | None,
    plugin_dirs: Iterable[Path] | None,
    scheduler_name: str = "bayplan",
    *,
    elects: bool = True,
) -> tuple[Registry, EffectiveConfig]:
    """The plugins and the configuration; exits with code 2 and every error when they are wrong.

    Args:
        config: the file; without it, the defaults.
        plugin_dirs: folders with the plugins of users.
        scheduler_name: the profile's name in the defaults.
        elects: whether there is a leader to be elected, so that warnings about it matter.
    """
    registry = Registry()
    try:
        registry.load_installed()
        for folder in plugin_dirs or ():
            registry.load_folder(folder)
    except PluginLoadError as exc:
        typer.echo(str(exc), err=True)
        raise typer.Exit(UNUSABLE) from None
    if config is None:
        return registry, resolve_config(default_configuration(scheduler_name), registry.known)
    silent = () if elects else ("leaderElection",)
    return registry, _read(config, registry, silent)


def _read(file: Path, registry: Registry, silent: tuple[str, ...]) -> EffectiveConfig:
    """The configuration in `file`, warnings on stderr, but for those about fields in `silent`."""
    try:
        effective = load_config(file, registry.known)
        effective.require_available()
    except ConfigError as error:
        typer.echo("\n".join(ConfigError(error.errors, str(file)).lines()), err=True)
        raise typer.Exit(UNUSABLE) from None
    for warning in effective.warnings:
        if not warning.path.startswith(silent):
            typer.echo(f"{file}: warning: {warning}", err=True)
    return effective
