"""``bayplan record``: what happens in a cluster, into a file."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from bayplan.support import logs
from bayplan.api import quantity
from bayplan.api.kinds import Kind
from bayplan.app.sources import Sources
from bayplan.cli import live, plugins
from bayplan.client.errors import ApiError
from bayplan.client.kubeconfig import KubeconfigError
from bayplan.recordings.audit import AuditReader, read_log
from bayplan.recordings.file import RecordingError
from bayplan.recordings.lines import Type, kind_id
from bayplan.recordings.live import LiveSource
from bayplan.recordings.live import record as take_in
from bayplan.recordings.recorder import Recorder, header_of
from bayplan.recordings.stripped import stripping
from bayplan.simulation.files import ClusterFileError, Notes, Readable, read_entries

app = typer.Typer(add_completion=False)

SECRET = "Secret"  # noqa: S105 - a kind
_ENDING = signal.SIGINT, signal.SIGTERM


@app.command()
def record(
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to, such as day.zst.", show_default=False)
    ],
    kubeconfig: live.KubeconfigOption = None,
    config: plugins.ConfigOption = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with FILE, which a recorder has left.")
    ] = False,
    rotate: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Begin another part after so many bytes, such as 1Gi."),
    ] = None,
    keep: Annotated[
        int, typer.Option(help="Delete older parts than so many; 0 for none.", min=0)
    ] = 0,
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End after so long.", min=0.0)
    ] = None,
    annotation: Annotated[
        list[str] | None,
        typer.Option(help="Keep this annotation of all objects, too; may be repeated."),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Make the recording of an API server's audit log."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--filename",
            "-f",
            help="With --audit: cluster files with what was there before; may be repeated.",
        ),
    ] = None,
) -> None:
    """Record what happens in a cluster, for bayplan replay and compare.

    Objects are stripped of what scheduling does not read; Secrets are never
    read. The kinds are those that the configuration's plugins read. It ends
    with Ctrl-C or SIGTERM; whenever it ends, what is in FILE can be used.
    """
    logs.configure(json=False)
    sources = Sources(config, tuple(plugin_dir or ()), feature_gates=tuple(feature_gates or ()))
    registry, effective = plugins.load(sources, elects=False)
    kinds = [kind for kind in registry.kinds(effective) if kind.name != SECRET]
    text = "" if config is None else config.read_text()
    part_bytes = 0 if rotate is None else _bytes(rotate)
    try:
        if audit is not None:
            _of_audit(target, audit, file or (), kinds, annotation or (), text)
        else:
            source = LiveSource(kubeconfig, kinds, annotation or ())
            messages, unreadable = source.listed()
            if resume:
                recorder = Recorder.resume(target, kinds, time.time, part_bytes, keep)
            else:
                header = header_of(kinds, time.time(), text, unreadable)
                recorder = Recorder(target, header, time.time, part_bytes, keep)
            _follow(source, recorder, messages, unreadable, duration, resumed=resume)
    except FileExistsError:
        plugins.unusable(f"{target}: exists; --resume goes on with it")
    except OSError as error:
        plugins.unusable(f"{target}: {error.strerror or error}")
    except (ApiError, KubeconfigError, RecordingError, ClusterFileError) as error:
        plugins.unusable(error)


def _bytes(text: str) -> int:
    try:
        return quantity.value(text)
    except quantity.QuantityError as error:
        raise typer.BadParameter(str(error), param_hint="--rotate") from None


def _follow(
    source: LiveSource,
    recorder: Recorder,
    messages: Iterable[Any],
    unreadable: Mapping[str, str],
    duration: float | None,
    *,
    resumed: bool,
) -> None:
    stop = threading.Event()
    for number in _ENDING:
        signal.signal(number, lambda *_: stop.set())
    for kind, why in unreadable.items():
        typer.echo(f"kind {kind} is not recorded: {why}", err=True)
    take_in(recorder, messages)
    if not resumed:
        recorder.ready()
    objects = sum(map(len, recorder.known.values()))
    typer.echo(f"recording: {objects:,} objects of {len(recorder.known)} kinds. Ctrl-C ends it.")
    until = None if duration is None else time.monotonic() + duration
    source.follow(
        recorder, lambda: stop.is_set() or (until is not None and time.monotonic() >= until)
    )
    if trouble := source.trouble():
        typer.echo(trouble, err=True)
    _end(recorder)


def _of_audit(
    target: Path,
    log: Path,
    before: Iterable[Path],
    kinds: Iterable[Kind[Any]],
    annotations: Iterable[str],
    config: str,
) -> None:
    events = read_log(log)
    if not events:
        raise RecordingError(f"{log}: has no write that succeeded")
    reader = AuditReader(kinds, annotations)
    reader.now = events[0].time
    recorder = Recorder(target, header_of(kinds, reader.now, config), lambda: reader.now)
    notes = Notes()
    strippers = {kind: stripping(kind, tuple(annotations)) for kind in kinds}
    for path in before:
        notes.file = str(path)
        for entry in read_entries(_text(path), Readable(strippers), notes):
            body = msgspec.json.encode(entry.data)
            recorder.set(kind_id(entry.kind), strippers[entry.kind].decode(body))
    recorder.ready()
    reader.feed(recorder, events)
    for note in (*notes.lines(), *reader.notes()):
        typer.echo(note, err=True)
    _end(recorder)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror or error}") from None


def _end(recorder: Recorder) -> None:
    recorder.close()
    size, text = recorder.size
    events = sum(recorder.counts[type_] for type_ in (Type.ADDED, Type.MODIFIED, Type.DELETED))
    listed = recorder.counts[Type.LISTED]
    lines = max(listed + events, 1)
    typer.echo(
        f"recorded {listed:,} objects and {events:,} events: {size:,} bytes, "
        f"{size / lines:.0f} a line ({text / lines:.0f} before compression)"
    )
