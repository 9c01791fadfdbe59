"""The root command. A command's module is imported when the command is called or listed."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bayplan import __version__

COMMANDS = (
    "run",
    "controllers",
    "api",
    "why",
    "status",
    "plan",
    "view",
    "shadow",
    "explain",
    "simulate",
    "improve",
    "record",
    "replay",
    "compare",
    "queues",
    "config",
)
"""Each is a module of `bayplan.cli` with an `app`."""


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # The error about a name that is none suggests one of those that are loaded.
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            self._load(name)
        return super().get_command(ctx, cmd_name)

    def _load(self, name: str) -> None:
        if name not in self.commands:
            module = import_module(f"bayplan.cli.{name}")
            command: Any = typer.main.get_command(module.app)
            command.name = name
            self.commands[name] = command


app = typer.Typer(
    name="bayplan",
    cls=_Commands,
    help="A Kubernetes scheduler whose plugins are written in Python.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
