"""`bayplan config`: look at a KubeSchedulerConfiguration without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayplan.config import (
    IN_TREE,
    ConfigError,
    EffectiveConfig,
    default_configuration,
    load_config,
    render_config,
    resolve_config,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bayplan.config import KnownPlugin

UNUSABLE = 2
"""Exit code for a configuration that cannot be used."""

app = typer.Typer(
    help="Check a KubeSchedulerConfiguration, or show what it comes to.", no_args_is_help=True
)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The configuration file.")]) -> None:
    """Say whether FILE can be used; if not, print every error and exit with code 2."""
    load_or_exit(file, IN_TREE)
    typer.echo(f"{file}: ok")


@app.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(help="The configuration file; without it, the defaults.")
    ] = None,
) -> None:
    """Print the configuration with every default, each plugin at its extension points."""
    if file is None:
        effective = resolve_config(default_configuration(), IN_TREE)
    else:
        effective = load_or_exit(file, IN_TREE)
    typer.echo(render_config(effective), nl=False)


def load_or_exit(
    file: Path, known: Mapping[str, KnownPlugin], silent: tuple[str, ...] = ()
) -> EffectiveConfig:
    """Load the configuration in `file`, warnings on stderr; exit with code 2 when it is wrong.

    Warnings about the fields in `silent` are of no concern here.
    """
    try:
        effective = load_config(file, known)
    except ConfigError as error:
        typer.echo("\n".join(error.lines()), err=True)
        raise typer.Exit(UNUSABLE) from None
    for warning in effective.warnings:
        if not warning.path.startswith(silent):
            typer.echo(f"{file}: warning: {warning}", err=True)
    return effective
