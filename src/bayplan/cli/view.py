"""``bayplan view``: the cluster as a page, as text or as columns.

The picture comes from files, from a recording, or from the API server with the user's credentials,
and follows it.
``why`` on click is the running scheduler's own answer, where that is found or ``--server`` says
where it is; else it is judged here, by ``--config``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
import typer

from bayplan.app.assembly import Core
from bayplan.app.follow import Follower
from bayplan.app.sources import Sources
from bayplan.cli import asking, live, offline, plugins
from bayplan.cli.moves import moves, plan_in
from bayplan.cli.recorded import Recorded
from bayplan.cli.supposing import Load, Loaded, Supposed
from bayplan.cli.view_text import print_bays
from bayplan.client.errors import ApiError, Forbidden
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError
from bayplan.config import ConfigError
from bayplan.improve.applying import RefusedError as NoPlanError
from bayplan.profiles import OneForAll
from bayplan.recordings.file import RecordingError
from bayplan.simulation import LoadedCluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.simulation.cluster import STDIN
from bayplan.simulation.name_order import NameOrder
from bayplan.view.board import (
    AskedBoard,
    Board,
    Followed,
    Judges,
    RefusedError,
    SaysWhy,
)
from bayplan.view.columns import LEVELS
from bayplan.view.session import Session, is_loopback
from bayplan.view.timeline import History

T = TypeVar("T")

NOT_THE_SCHEDULERS = "judged by the default profile: give the scheduler's own --config"
NOT_INSTALLED = 'the page needs starlette and uvicorn: pip install "bayplan[view]"'

app = typer.Typer(add_completion=False)


class Output(StrEnum):
    """What is printed in place of serving a page."""

    TEXT = "text"
    JSON = "json"


@app.command()
def view(
    file: offline.FileOrClusterOption = None,
    recording: Annotated[
        list[Path] | None,
        typer.Option("--recording", "-r", help="A recording, or its parts in their order."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The moment of the recording; without it the end."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A plan of bayplan improve: the page shows its moves."),
    ] = None,
    server: asking.ServerOption = None,
    lease: asking.LeaseOption = asking.LEASE,
    authority: asking.AuthorityOption = None,
    insecure: asking.InsecureOption = False,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
    config: plugins.ConfigOption = None,
    config_b: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration B: the page says what would be otherwise by it.",
        ),
    ] = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    level: Annotated[
        list[str],
        typer.Option(help="Node label that divides the nodes, the widest first; may be repeated."),
    ] = list(LEVELS),  # noqa: B006 - typer copies it
    address: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 for one that is free.", min=0, max=65535)] = 0,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="Print it, and serve no page.")
    ] = None,
) -> None:
    """Show nodes, Pods, what waits and why, and Queues: as a page, as text or as columns.

    The address that is printed is good for one browser, once.
    """
    if output is None and not is_loopback(address):
        plugins.unusable(f"--address {address} is no loopback address: others could look")
    if sum(map(bool, (file, recording, server))) > 1 or (at and not recording):
        plugins.unusable("one of -f, --recording and --server; --at is a moment of --recording")
    serve = None if output else _serving(address, port, plan)
    where = Kubeconfig(kubeconfig, context)
    judged_here = server is None and any((file, recording, config, output))
    parts = server, lease, authority, where
    scheduler = None if judged_here else _scheduler(*parts, insecure=insecure)
    load = partial(
        offline.load,
        file,
        plugin_dirs=plugin_dir,
        namespace=namespace,
        feature_gates=feature_gates,
        kubeconfig=where,
    )
    with offline.reporting():
        if recording:
            source = _of_recording(recording, at, partial(load, config), level)
        elif file or output is not None:
            board = _still(*load(config), level)
            source = _Source(board, ", ".join(map(str, file or ())), lambda: live.Moment(where))
        else:
            gates = tuple(feature_gates or ())
            sources = Sources(config, tuple(plugin_dir or ()), feature_gates=gates)
            followed = _followed(sources, where, level, scheduler, namespace)
            source = _Source(*followed, lambda: live.Moment(where))
    if serve is None:
        _print(source, output)
        return
    supposes = None
    if isinstance(source.board, Board) and STDIN not in (file or ()):
        by = "" if file or config else NOT_THE_SCHEDULERS
        begin = _begin(load, config, config_b, source.moment)
        supposes = Supposed(begin, has_other=config_b is not None, judged_by=by)
    serve(source, scheduler, namespace, supposes)


class _Source(NamedTuple):
    """Where the picture comes from.

    Attributes:
        text: that in words.
        moment: what the cluster is now, or at the moment that is shown.
        turn: see `bayplan.view.server.application`.
    """

    board: Followed
    text: str
    moment: Callable[[], offline.Listing]
    turn: Callable[[float], None] | None = None


def _serving(address: str, port: int, improvement: Path | None) -> Callable[..., None]:
    """A function that serves the page until SIGINT or SIGTERM; with a plan of moves in a file."""
    try:
        from bayplan.view import server as serving  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        plugins.unusable(NOT_INSTALLED)
    try:
        planned = None if improvement is None else plan_in(improvement)
    except NoPlanError as error:
        plugins.unusable(error)

    def serve(
        source: _Source, scheduler: _Scheduler | None, namespace: str, supposes: Supposed | None
    ) -> None:
        board, text, _, turn = source
        plan = None
        if scheduler is not None:
            why: SaysWhy = scheduler.why
            plan = partial(scheduler.plan, "" if isinstance(board, Board) else namespace)
            text += "; the scheduler says why"
        else:
            assert isinstance(board, Board)
            why = board.why
        try:
            listening = serving.bound(address, port)
        except OSError as error:
            plugins.unusable(f"{address}:{port}: {error.strerror or error}")
        board.packed()  # the first browser need not wait for the columns
        session = Session(address, listening.getsockname()[1])
        typer.echo(f"{session.url}\nThe address lets one browser in, once. Ctrl-C ends it.")
        shown = None if planned is None else moves(planned, board)
        page = serving.application(board, session, why, text, supposes, plan, turn, shown)
        serving.run(page, listening)

    return serve


def _still(
    cluster: LoadedCluster, core: Core, level: list[str], history: History | None = None
) -> Board:
    offline.print_notes(cluster)
    return Board(core, _alone(), level, still=True, history=history)


def _of_recording(
    paths: list[Path], at: str | None, load: Callable[..., Loaded], level: list[str]
) -> _Source:
    try:
        recorded = Recorded(paths, at)
    except RecordingError as error:
        plugins.unusable(error)
    cluster, core = load(moment=recorded.moment)
    board = _still(cluster, core, level, recorded.history)
    recorded.print_notes()
    board.show(core, recorded.moment.at)
    turn = recorded.turning(board, lambda: load(moment=recorded.moment))
    return _Source(board, ", ".join(map(str, paths)), lambda: recorded.moment, turn)


def _print(source: _Source, output: Output | None) -> None:
    assert isinstance(source.board, Board)
    bays = source.board.document()
    if output is Output.TEXT:
        print_bays(offline.console(), bays)
    else:
        typer.echo(msgspec.json.encode(bays))


def _begin(
    load: Callable[..., Loaded],
    a: Path | None,
    b: Path | None,
    moment: Callable[[], offline.Listing],
) -> Callable[[], Load]:
    """Reads the cluster of one moment, by configuration A or B; see `Supposed`."""

    def begin() -> Load:
        listing = moment()
        return lambda *, other=False, **change: load(b if other else a, moment=listing, **change)

    return begin


def _alone() -> Any:
    """A core of files belongs to whoever holds a lock: nothing happens to the core by itself."""
    lock = threading.Lock()

    def ask(answer: Callable[[], T]) -> T:
        with lock:
            return answer()

    return ask


def _followed(
    sources: Sources,
    kubeconfig: Kubeconfig,
    level: list[str],
    scheduler: _Scheduler | None,
    namespace: str,
) -> tuple[Followed, str]:
    """The picture, and where it comes from."""
    registry, effective = plugins.load(sources, elects=False)
    try:
        follower = Follower(effective, registry, kubeconfig, NameOrder())
        follower.start()
    except ConfigError as error:
        plugins.unusable(ConfigError(error.errors, str(sources.config or "")))
    except Forbidden as error:
        if scheduler is None:
            plugins.unusable(f"{error}; with --server and -n a scheduler shows one namespace")
    except (ApiError, KubeconfigError) as error:
        plugins.unusable(error)
    else:
        core = follower.core
        profiles = core.profiles
        if sources.config is None:
            profiles = OneForAll(profiles.frameworks, profiles.policy)
        judges = Judges(core.world, profiles, core.placers, core.records)
        board = Board(judges, follower.ask, level, trouble=follower.trouble)
        return board, "the API server"
    asked = AskedBoard(scheduler.get, namespace)
    try:
        asked.look()
    except RefusedError as error:
        plugins.unusable(error)
    return asked, f"the scheduler, for the namespace {namespace}"


def _scheduler(
    server: str | None,
    lease: str,
    authority: Path | None,
    kubeconfig: Kubeconfig,
    *,
    insecure: bool,
) -> _Scheduler | None:
    """The scheduler to ask why; None where none is found and no server was given."""
    try:
        return _Scheduler(asking.connect(server, lease, authority, kubeconfig, insecure=insecure))
    except (ApiError, KubeconfigError) as error:
        if server:
            plugins.unusable(error)
        typer.echo(f"why Pods wait is judged here: {error}", err=True)
        return None


class _Scheduler:
    """The port of the running scheduler, asked as the user of the kubeconfig."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def get(self, path: str) -> bytes:
        """An answer; raises `RefusedError`."""
        try:
            return self._http.get(path)
        except ApiError as error:
            if 400 <= error.status < 500:
                raise RefusedError(error.status, f"the scheduler: {error}") from None
            raise RefusedError(502, f"the scheduler does not answer: {error}") from None

    def why(self, namespace: str, name: str, *, group: bool) -> dict[str, Any] | None:
        """See `bayplan.view.board.SaysWhy`."""
        query = {"namespace": namespace, "group" if group else "pod": name}
        try:
            return self._answer(f"/why?{urlencode(query)}")
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def plan(self, namespace: str) -> dict[str, Any]:
        """What would become of all that waits there; "" for everywhere."""
        return self._answer(f"/plan?{urlencode({'namespace': namespace})}")

    def _answer(self, path: str) -> dict[str, Any]:
        data = self.get(path)
        try:
            answer: dict[str, Any] = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise RefusedError(502, f"the scheduler does not answer: {error}") from None
        return answer
