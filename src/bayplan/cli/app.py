"""The root command."""

from __future__ import annotations

from typing import Annotated

import typer

from bayplan import __version__
from bayplan.cli import config, explain, run, simulate

app = typer.Typer(
    name="bayplan",
    help="A Kubernetes scheduler whose plugins are written in Python.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(config.app, name="config")
app.command("run")(run.run)
app.command("explain")(explain.explain)
app.command("simulate")(simulate.simulate)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayplan {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A Kubernetes scheduler whose plugins are written in Python."""
    del version
