"""Parts of the control plane, with a small HTTPS server in the place of a component."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from e2e.provider.pki import Authority
from e2e.provider.process import Endpoint, Part, StartError, client_context, free_port, stop_all
from e2e.provider.waiting import wait_until

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

MakePart = Callable[..., Part]


@pytest.fixture
def make_part(tmp_path: Path) -> Iterator[MakePart]:
    authority = Authority(tmp_path / "pki")
    pair = authority.issue("server", "server")
    parts = []

    def make(*arguments: str, port: int = 0, trusted: Authority = authority) -> Part:
        port = port or free_port()
        argv = [sys.executable, str(HERE / "server.py"), str(port), str(pair.cert), str(pair.key)]
        endpoint = Endpoint(f"https://127.0.0.1:{port}", client_context(trusted, pair))
        part = Part("server", [*argv, *arguments], tmp_path / "log", endpoint, "/ready")
        parts.append(part)
        return part

    yield make
    for part in parts:
        part.kill()


def test_a_started_part_answers_and_a_stopped_one_is_gone(make_part: MakePart) -> None:
    part = make_part().start()
    assert part.endpoint.get("/ready") == b"ok"
    part.stop()
    assert not part.running
    assert not psutil.pid_exists(part.pid)


def test_a_killed_part_comes_back_on_the_same_port(make_part: MakePart) -> None:
    part = make_part().start()
    first = part.pid
    part.kill()
    assert not part.endpoint.answers("/ready")
    part.start()
    assert part.pid != first
    assert part.endpoint.get("/ready") == b"ok"


def test_a_part_that_ignores_sigterm_is_killed_after_the_grace(make_part: MakePart) -> None:
    stubborn, polite = make_part("stubborn").start(), make_part().start()
    stop_all([stubborn, polite], grace=0.2)
    assert not stubborn.running
    assert not polite.running


def test_a_part_that_ends_at_its_start_says_what_its_log_says(make_part: MakePart) -> None:
    taken = make_part().start()
    port = int(taken.endpoint.url.rsplit(":", 1)[1])
    with pytest.raises(StartError, match="Address already in use"):
        # Its own endpoint is asked for a path that the other one does not have.
        Part("late", make_part(port=port).argv, taken.log, taken.endpoint, "/nowhere").start()


def test_a_listener_without_our_certificate_is_not_taken_for_ours(
    make_part: MakePart, tmp_path: Path
) -> None:
    foreign = make_part().start()
    port = int(foreign.endpoint.url.rsplit(":", 1)[1])
    with pytest.raises(StartError, match="held by another program"):
        make_part(port=port, trusted=Authority(tmp_path / "other")).start()


def test_a_running_part_is_not_started_twice(make_part: MakePart) -> None:
    part = make_part().start()
    with pytest.raises(StartError, match="running already"):
        part.start()


def test_a_part_that_was_never_started_has_no_pid(make_part: MakePart) -> None:
    with pytest.raises(LookupError):
        _ = make_part().pid


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_a_part_dies_with_the_process_that_started_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, str(HERE / "parent.py"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(number)
    wait_until(lambda: _is_gone(child), 5, "the child gone")


def _is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
