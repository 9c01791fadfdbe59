"""``bayplan replay``: a recording, as it would have gone with a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from bayplan.support import logs
from bayplan.app.sources import Sources
from bayplan.cli import offline, plugins
from bayplan.cli.offline import DEFAULT_PROFILE
from bayplan.cli.replay_text import print_outcome
from bayplan.config import ConfigError, EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.recordings.file import RecordingError
from bayplan.replay.run import Options, Outcome, Recording
from bayplan.replay.run import replay as replay_with

app = typer.Typer(add_completion=False)


class Output(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


SeedOption = Annotated[
    int | None,
    typer.Option(
        help="Choose among equally good nodes at random, the same ones for the same seed; "
        "without it the first by name."
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]
EveryOption = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Between two samples of the measures.", min=1.0),
]


@app.command()
def replay(
    file: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A recording, or all its parts in their order."),
    ],
    config: plugins.ConfigOption = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    seed: SeedOption = None,
    every: EveryOption = None,
    result: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what happened there, as zstd JSON lines."),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to print it.")
    ] = Output.TEXT,
) -> None:
    """Replay a recording with a configuration, on a virtual clock.

    Pods arrive as recorded and are placed by this configuration, nodes and
    all other objects change as recorded. Without --config every Pod is placed
    by the default profile, whatever its schedulerName.
    """
    logs.configure(json=False)
    try:
        recording = Recording(file)
        sources = Sources(
            config, tuple(plugin_dir or ()), DEFAULT_PROFILE, tuple(feature_gates or ())
        )
        registry, effective = plugins.load(sources, elects=False)
        adopts = None if config else DEFAULT_PROFILE
        options = Options(seed, every, adopts, result)
        outcome = run(recording, effective, registry, options, file[0].name)
    except (RecordingError, ConfigError) as error:
        plugins.unusable(error)
    except OSError as error:
        plugins.unusable(f"{result}: {error.strerror or error}")
    for note in outcome.notes:
        typer.echo(note, err=True)
    if output is Output.JSON:
        offline.print_data(msgspec.to_builtins(outcome, str_keys=True), offline.Output.JSON)
    else:
        print_outcome(offline.console(), outcome)


def run(
    recording: Recording,
    config: EffectiveConfig,
    registry: Registry,
    options: Options,
    title: str,
) -> Outcome:
    """Replay with a progress bar, where standard error is a terminal.

    Raises:
        ConfigError: see `bayplan.replay.run.replay`, as for the others.
        RecordingError: a part does not fit.
        OSError: the result cannot be written.
    """
    if config.settings.extenders:
        recording.notes.append("the extenders of the configuration are not asked")
    with progress(title, recording.lives.lines) as done:
        return replay_with(recording, config, registry, options, done)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Within the block there is a bar, for which the number of finished lines is given."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda number: bar.update(task, completed=number)
