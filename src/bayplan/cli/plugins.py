"""What every command that runs plugins does first: find them, and read the configuration."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from bayplan.cli.config import UNUSABLE, load_or_exit
from bayplan.config import EffectiveConfig, default_configuration, resolve_config
from bayplan.framework.registry import PluginLoadError, Registry

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
    return registry, load_or_exit(config, registry.known, silent)
