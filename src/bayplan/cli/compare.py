"""``bayplan compare``: two configurations on the same cluster file or recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from bayplan.support import logs
from bayplan.app.sources import Sources
from bayplan.cli import offline, plugins
from bayplan.cli.offline import DEFAULT_PROFILE
from bayplan.cli.replay import EveryOption, Output, OutputOption, SeedOption, progress, run
from bayplan.cli.shadow import print_report
from bayplan.compare import page
from bayplan.compare.dump import Candidate, compare_dump
from bayplan.compare.recorded import compare_recorded
from bayplan.compare.sections import Section, charts, of_dump, of_replays
from bayplan.config import ConfigError
from bayplan.recordings.file import RecordingError
from bayplan.replay.run import Options, Recording
from bayplan.shadow import page as shadow_page
from bayplan.simulation import ClusterFileError, load_cluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE

app = typer.Typer(add_completion=False)

DEFAULT, RECORDED = "default", "recorded"
ROWS = 20
"""Of a section, in a terminal."""
DIFFERS = 1
"""Exit code where something does."""


@app.command()
def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help=f"KubeSchedulerConfiguration file; {DEFAULT} for the default profile; "
            f"{RECORDED} for what the recorded scheduler did.",
            show_default=False,
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.", show_default=False)],
    file: Annotated[
        list[Path] | None,
        typer.Option("--filename", "-f", help="Cluster file, as for bayplan simulate."),
    ] = None,
    recording: Annotated[
        list[Path] | None,
        typer.Option("--recording", "-r", help="A recording, or its parts in their order."),
    ] = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    plugin_dir_a: Annotated[
        list[Path] | None, typer.Option(help="Folder with plugins of A alone.")
    ] = None,
    plugin_dir_b: Annotated[
        list[Path] | None, typer.Option(help="Folder with plugins of B alone.")
    ] = None,
    feature_gates: plugins.FeatureGatesOption = None,
    feature_gates_a: Annotated[list[str] | None, typer.Option(help="Of A alone.")] = None,
    feature_gates_b: Annotated[list[str] | None, typer.Option(help="Of B alone.")] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="With -f: place all Pods that run anew, too.")
    ] = False,
    scheduler: Annotated[
        str, typer.Option(help=f"With {RECORDED}: the schedulerName of the Pods.")
    ] = DEFAULT_PROFILE,
    seed: SeedOption = None,
    every: EveryOption = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there as one HTML file.")
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Compare two configurations on the same cluster file or recording.

    Of a cluster file: which Pods go elsewhere and by which plugin, which wait
    with one only, who would be evicted. Of a recording: both replays side by
    side; or, with A recorded, each recorded decision and what B would have
    decided. Ends with 0 if nothing differs, 1 if something does, 2 on errors.
    """
    logs.configure(json=False)
    if bool(file) == bool(recording):
        raise typer.BadParameter("needs either -f or --recording")
    shared_dirs, shared_gates = tuple(plugin_dir or ()), tuple(feature_gates or ())
    comparison = _Comparison((a, b), html, output)
    try:
        second = _candidate(b, (*shared_dirs, *(plugin_dir_b or ())), shared_gates, feature_gates_b)
        if a == RECORDED:
            if not recording:
                raise typer.BadParameter(f"{RECORDED} needs --recording")
            comparison.recorded(Recording(recording), second, scheduler)
            return
        first = _candidate(a, (*shared_dirs, *(plugin_dir_a or ())), shared_gates, feature_gates_a)
        alone = all(len(one.config.profiles) == 1 for one in (first, second))
        if alone:
            first, second = _renamed(first), _renamed(second)
        adopts = DEFAULT_PROFILE if alone else None
        if recording:
            options = Options(seed, every, adopts)
            comparison.replays(Recording(recording), first, second, options)
        else:
            comparison.dump(file or [], namespace, first, second, adopts, replan=replan)
    except (ConfigError, RecordingError, ClusterFileError) as error:
        plugins.unusable(error)
    except OSError as error:
        plugins.unusable(f"{html}: {error.strerror or error}")


def _candidate(
    name: str, folders: Sequence[Path], shared: Sequence[str], gates: Sequence[str] | None
) -> Candidate:
    config = None if name == DEFAULT else Path(name)
    sources = Sources(config, tuple(folders), DEFAULT_PROFILE, (*shared, *(gates or ())))
    registry, effective = plugins.load(sources, elects=False)
    return Candidate(effective, registry)


def _renamed(candidate: Candidate) -> Candidate:
    """With a single profile, which is responsible for every Pod."""
    [profile] = candidate.config.profiles
    profiles = (replace(profile, scheduler_name=DEFAULT_PROFILE),)
    return Candidate(replace(candidate.config, profiles=profiles), candidate.registry)


class _Comparison:
    """Compares, prints and ends the command.

    Raises:
        typer.Exit: from each method: something differs.
    """

    def __init__(self, names: tuple[str, str], html: Path | None, output: Output) -> None:
        self._names, self._html, self._output = names, html, output

    def dump(
        self,
        files: Sequence[Path],
        namespace: str,
        a: Candidate,
        b: Candidate,
        adopts: str | None,
        *,
        replan: bool,
    ) -> None:
        """Pod by Pod."""
        kinds = dict.fromkeys(kind for one in (a, b) for kind in one.registry.kinds(one.config))
        cluster = load_cluster(files, adopts, namespace, kinds=kinds, adopts_running=replan)
        found = compare_dump(cluster, a, b, replan=replan)
        for note in dict.fromkeys(cluster.notes.lines()):
            typer.echo(note, err=True)
        title = f"{len(found.differences):,} of {found.pods:,} Pods differ"
        self._show(title, of_dump(found), found)
        self._end(differs=found.differs)

    def replays(self, recording: Recording, a: Candidate, b: Candidate, options: Options) -> None:
        """Two replays of one recording, side by side."""
        outcomes = [
            run(recording, one.config, one.registry, options, name)
            for one, name in zip((a, b), self._names, strict=True)
        ]
        for note in dict.fromkeys(note for outcome in outcomes for note in outcome.notes):
            typer.echo(note, err=True)
        one, other = outcomes
        differs = one.digest != other.digest
        title = "The replays differ" if differs else "Both replays are the same"
        self._show(title, of_replays(one, other), {"a": one, "b": other})
        self._end(differs=differs)

    def recorded(self, recording: Recording, b: Candidate, scheduler: str) -> None:
        """Decision by decision."""
        with progress("recorded", recording.lives.lines) as done:
            report = compare_recorded(recording, b.config, b.registry, scheduler, done)
        for note in recording.notes:
            typer.echo(note, err=True)
        if self._html is not None:
            self._html.write_bytes(shadow_page.render(report))
        if self._output is Output.JSON:
            offline.print_data(report, offline.Output.JSON)
        else:
            print_report(offline.console(), report)
        self._end(differs=report["agreed"] != report["compared"])

    def _show(self, title: str, sections: Sequence[Section], data: Any) -> None:
        if self._html is not None:
            drawn = charts(data["a"].samples, data["b"].samples) if isinstance(data, dict) else ()
            self._html.write_bytes(page.render(title, self._names, sections, drawn))
        if self._output is Output.JSON:
            plain = msgspec.to_builtins(data, str_keys=True)
            offline.print_data(plain, offline.Output.JSON)
            return
        console = offline.console()
        console.print(title, style="bold")
        for section in sections:
            if section.rows:
                console.print(f"\n{section.title}", style="bold")
                console.print(_table(section))
                if (more := len(section.rows) - ROWS) > 0:
                    console.print(f"and {more} more")

    def _end(self, *, differs: bool) -> None:
        if differs:
            raise typer.Exit(DIFFERS)


def _table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(section.columns):
        table.add_column(column, justify="right" if section.numeric and number else "left")
    for row in section.rows[:ROWS]:
        table.add_row(*row)
    return table
