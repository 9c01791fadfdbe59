"""``bayplan run`` up to the point where it needs a cluster: options, plugins, configuration."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import structlog
from tests.kubeconfig import write_kubeconfig
from tests.waiting import SOON
from typer.testing import CliRunner, Result

from bayplan.support import logs
from bayplan import __version__
from bayplan.app import process
from bayplan.app.feed import Feed
from bayplan.cli.app import app

CONFIG = """
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
"""


@pytest.fixture(autouse=True)
def _logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging is as it was, afterwards."""
    before = structlog.get_config()
    monkeypatch.setattr(logs, "_level", logs.VERBOSITY)
    yield
    structlog.configure(**before)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[process.Process]]:
    """The processes that would have run."""
    found: list[process.Process] = []

    def run(self: process.Process) -> None:
        found.append(self)

    monkeypatch.setattr(process.Process, "run", run)
    monkeypatch.setattr(Feed, "start", lambda _: None)
    yield found
    for made in found:
        made._serving.close()


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(dedent(text))
    return str(path)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    return write_kubeconfig(tmp_path)


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["run", "--secure-port", "0", *args])


def test_everything_right_starts_the_scheduler(ran: list[Any], kubeconfig: str) -> None:
    result = run("--kubeconfig", kubeconfig)
    assert (result.exit_code, result.output) == (0, "")
    assert len(ran) == 1


START = """
import gc, json, os, sys
from bayplan.cli import main, run  # as `main` does it
from bayplan.app.process import Process

def state(_):
    print(json.dumps({"modules": list(sys.modules), "collects": gc.isenabled()}), flush=True)
    os._exit(0)

Process._handle_signals = state  # the first step that needs no cluster and is not undone
main()
"""


def test_what_the_defaults_do_not_need_is_not_loaded(kubeconfig: str) -> None:
    argv = [sys.executable, "-c", START, "run", "--secure-port=0", "--kubeconfig", kubeconfig]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    state = json.loads(done.stdout)
    modules = set(state["modules"])
    assert "bayplan.plugins.dynamic_resources" in modules
    assert state["collects"]
    assert not modules & {
        "bayplan.app.tracing_config",
        "bayplan.cel",
        "bayplan.controllers",
        "bayplan.devices.fleet",
        "bayplan.explain",
        "bayplan.extenders.http_extender",
        "bayplan.plugins.backfill",
        "bayplan.plugins.capacity_scheduling",
        "bayplan.plugins.coscheduling",
        "bayplan.plugins.fair_share",
        "bayplan.plugins.topology_placement_generator",
        "bayplan.simulation",
        "cryptography",
        "kopf",
        "opentelemetry",
        "rich",
    }


def test_plugins_of_a_folder_run_where_the_configuration_names_them(
    ran: list[Any], kubeconfig: str, tmp_path: Path
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    write(
        folder,
        "mine.py",
        """
        from bayplan.framework import Plugin

        class Mine(Plugin):
            def score(self, state, pod, node):
                return 1
        """,
    )
    text = CONFIG + "    profiles: [{plugins: {score: {enabled: [{name: Mine}]}}}]\n"
    config = write(tmp_path, "config.yaml", text)
    args = ("--kubeconfig", kubeconfig, "--config", config)
    assert run(*args, "--plugin-dir", str(folder)).exit_code == 0
    assert len(ran) == 1
    without = run(*args)
    assert without.exit_code == 2
    assert "config.yaml" in without.output
    assert 'unknown plugin "Mine"' in without.output


@pytest.mark.parametrize("level", ["2", "=10"])
def test_levels_are_written_as_users_of_kube_scheduler_write_them(
    ran: list[Any], kubeconfig: str, level: str
) -> None:
    flags = [f"-v{level}"] if level.startswith("=") else ["-v", level]
    assert run("--kubeconfig", kubeconfig, *flags).exit_code == 0
    assert logs.enabled(int(level.removeprefix("=")))
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param(["-v", "11"], "must be a number from 0 to 10", id="too verbose"),
        pytest.param(["-v", "lots"], "must be a number from 0 to 10", id="no level"),
        pytest.param(["--secure-port", "99999"], "99999 is no port", id="port"),
        pytest.param(["--insecure-port", "-1"], "-1 is no port", id="insecure port"),
        pytest.param(["--log-format", "xml"], "must be json or console", id="format"),
        pytest.param(["--config", "missing.yaml"], "missing.yaml: ", id="no configuration"),
        pytest.param(["--plugin-dir", "nowhere"], "nowhere: is not a folder", id="no plugins"),
        pytest.param(["--kubeconfig", "missing"], "missing", id="no kubeconfig"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_ends_with_code_two(
    ran: list[Any], args: list[str], text: str
) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert ran == []


def test_a_plugin_file_with_an_error_is_named_with_its_line(ran: list[Any], tmp_path: Path) -> None:
    write(tmp_path, "mine.py", "import nothing_like_that\n")
    result = run("--plugin-dir", str(tmp_path))
    assert result.exit_code == 2
    assert f"{tmp_path}/mine.py:1: ModuleNotFoundError" in result.output
    assert ran == []


def test_a_plugin_that_refuses_to_start_is_named_with_the_file(
    ran: list[Any], kubeconfig: str, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "mine.py",
        """
        from bayplan.framework import Plugin

        class Mine(Plugin):
            def __init__(self, args, handle):
                raise LookupError("no region")

            def score(self, state, pod, node):
                return 1
        """,
    )
    text = CONFIG + "    profiles: [{plugins: {score: {enabled: [{name: Mine}]}}}]\n"
    config = write(tmp_path, "config.yaml", text)
    result = run("--kubeconfig", kubeconfig, "--config", config, "--plugin-dir", str(tmp_path))
    assert result.exit_code == 2
    line = 'profiles[0].pluginConfig: plugin "Mine": LookupError: no region'
    assert result.output.splitlines() == [f"{config}: {line}"]
    assert ran == []


def test_a_port_that_is_taken_is_said(ran: list[Any], kubeconfig: str) -> None:
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("--secure-port", port, "--kubeconfig", kubeconfig)
    assert result.exit_code == 2
    assert result.output == f"port {port} cannot be used: Address already in use\n"
    assert ran == []


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param(["--bind-address", "here"], "--bind-address: 'here' does not", id="address"),
        pytest.param(["--tls-cert-file", "a"], "--tls-private-key-file go together", id="half"),
        pytest.param(
            ["--tls-cert-file", "a", "--tls-private-key-file", "b"],
            "TLS certificate: [Errno 2] No such file or directory: 'a'",
            id="no certificate",
        ),
        pytest.param(["--tls-min-version", "1.2"], "VersionTLS12 or VersionTLS13", id="version"),
        pytest.param(["--tls-cipher-suites", "A, B"], "no suite A, B; one of", id="suites"),
        pytest.param(
            ["--authorization-always-allow-paths", "/a*b"], "only a trailing * in /a*b", id="path"
        ),
        pytest.param(["--authentication-kubeconfig", "missing"], "missing: no such", id="tokens"),
        pytest.param(["--authorization-kubeconfig", "missing"], "missing: no such", id="access"),
    ],
)
def test_what_is_wrong_with_the_port_is_said_in_one_line(
    ran: list[Any], kubeconfig: str, args: list[str], text: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    result = run("--secure-port", port, "--kubeconfig", kubeconfig, *args)
    assert result.exit_code == 2
    assert text in result.output
    assert len(result.output.splitlines()) == 1
    assert ran == []


def test_both_ports_can_be_open(ran: list[process.Process], kubeconfig: str) -> None:
    with socket.create_server(("", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = {
            "secure_port": one.getsockname()[1],
            "insecure_port": two.getsockname()[1],
        }
    flags = [f"--{name.replace('_', '-')}={port}" for name, port in ports.items()]
    assert run("--kubeconfig", kubeconfig, *flags).exit_code == 0
    assert ran[0]._serving.ports == ports


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"bayplan {__version__}\n")


def test_run_loads_nothing_that_only_other_commands_need(tmp_path: Path) -> None:
    program = """
        import atexit, sys
        from bayplan.cli.app import app
        atexit.register(lambda: print("bayplan.simulation" in sys.modules))
        app(["run", "--config", "nowhere"])
    """
    argv = [sys.executable, "-c", dedent(program)]
    ended = subprocess.run(
        argv, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=SOON
    )
    assert (ended.returncode, ended.stdout) == (2, "False\n")
