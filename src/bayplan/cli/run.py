"""``bayplan run``: schedule Pods of a cluster until a signal ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayplan import logs
from bayplan.app.sources import Sources
from bayplan.cli import plugins
from bayplan.cli.plugins import UNUSABLE
from bayplan.config import ConfigError

app = typer.Typer(add_completion=False)


def _level(text: str | int) -> int:
    """A log level; ``-v=2`` is as right as ``-v 2``, since kube-scheduler's users write it so."""
    level = str(text).removeprefix("=")
    if not level.isdecimal() or int(level) > 10:
        raise typer.BadParameter("must be a number from 0 to 10")
    return int(level)


@app.command()
def run(
    config: plugins.ConfigOption = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(help="How to reach the API server; default: clientConnection, in-cluster."),
    ] = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    port: Annotated[int, typer.Option(help="For probes and metrics; 0 picks a free one.")] = 10259,
    verbosity: Annotated[
        int, typer.Option("-v", "--v", parser=_level, metavar="LEVEL", help="Log level, 0 to 10.")
    ] = 0,
    log_format: Annotated[str, typer.Option(help="json or console.")] = "json",
    watchdog_limit: Annotated[
        float,
        typer.Option(min=0, help="Seconds until a plugin that does not return counts as stuck."),
    ] = 60.0,
) -> None:
    """Run the scheduler."""
    if log_format not in ("json", "console"):
        raise typer.BadParameter("must be json or console", param_hint="--log-format")
    if not 0 <= port <= 65535:
        raise typer.BadParameter(f"{port} is no port, 0 to 65535", param_hint="--port")
    logs.configure(verbosity, json=log_format == "json")
    sources = Sources(config, tuple(plugin_dir or ()), feature_gates=tuple(feature_gates or ()))
    registry, effective = plugins.load(sources)
    # Imported here: the other commands need no client, and the scheduler can be loaded while the
    # API server is busy with the first lists.
    from bayplan.app.feed import Feed  # noqa: PLC0415
    from bayplan.client.kubeconfig import KubeconfigError  # noqa: PLC0415

    try:
        feed = Feed(kubeconfig or effective.config.client_connection.kubeconfig or None)
    except KubeconfigError as exc:
        typer.echo(str(exc), err=True)
        raise typer.Exit(UNUSABLE) from None
    feed.start()
    from bayplan.app.process import Process  # noqa: PLC0415
    from bayplan.server.server import PortError  # noqa: PLC0415

    try:
        process = Process(effective, registry, feed, sources, port, watchdog_limit)
    except (ConfigError, PortError) as exc:
        feed.informers.stop()
        typer.echo("\n".join(_lines(exc, config)), err=True)
        raise typer.Exit(UNUSABLE) from None
    process.run()


def _lines(error: Exception, config: Path | None) -> list[str]:
    if not isinstance(error, ConfigError):
        return [str(error)]
    return (ConfigError(error.errors, str(config)) if config else error).lines()
