"""``bayplan improve --apply``: a plan is carried out, with the running scheduler's help."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer
import yaml

from bayplan.cli import offline, plugins
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError
from bayplan.client.hold import Hold
from bayplan.client.http import Http
from bayplan.client.kubeconfig import KubeconfigError, Where
from bayplan.client.leader import new_identity
from bayplan.improve.applying import Application, RefusedError, StoppedError, plan_of
from bayplan.improve.orders import MOVED, SUFFIX

WAIT_SECONDS = 60.0
STOPPED = 1
"""Exit code: it was stopped after a Pod had been evicted."""


def apply(path: str, kubeconfig: Where, lease: str, wait: float) -> None:
    """Carry out the plan in a file.

    Raises:
        typer.Exit: it was refused or stopped; why is printed.
    """
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    with offline.reporting():
        namespace, _, name = lease.partition("/")
        if not name:
            plugins.unusable(f"--lease {lease} is not NAMESPACE/NAME")
        try:
            plan = plan_of(read(path))
            http = Http(Connection.load(kubeconfig))
            hold = Hold(http, namespace, name + SUFFIX, new_identity(), keeps=MOVED)
            application = Application(http, hold, plan, wait, typer.echo)
            typer.echo(application.run())
        except (RefusedError, ApiError, KubeconfigError) as error:
            plugins.unusable(f"nothing was touched: {error}")
        except StoppedError as error:
            _stopped(application, error)


def _stopped(application: Application, error: StoppedError) -> NoReturn:
    typer.echo(f"Stopped: {error}. No room is held any more.")
    for line in application.standing():
        typer.echo(f"  {line}")
    raise typer.Exit(STOPPED)


def read(path: str) -> Any:
    """What ``-o json`` or ``-o yaml`` has printed.

    Raises:
        RefusedError: there is no such file, or something else is in it.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        return yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RefusedError(f"{path}: {error}") from None
