"""A signal in the first second: the real process, signalled while it is still being loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kubeconfig import write_kubeconfig
from tests.waiting import SOON

FIRST_STEP = """
import sys

from bayplan.cli import early_signals, main

install = early_signals.install


def install_and_end():
    install()
    print(sorted(sys.modules.keys() & {"msgspec", "numpy", "pycurl"}))
    sys.exit()


early_signals.install = install_and_end
main()
"""
"""``bayplan run`` up to the moment when the handlers are there; it says what is loaded then."""


@contextmanager
def starting(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``bayplan run``, of which nothing is known but that it has been started."""
    argv = [
        sys.executable,
        "-m",
        "bayplan",
        "run",
        "--secure-port=0",
        f"--kubeconfig={write_kubeconfig(folder)}",
    ]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for that signal, as the kernel sees it."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def loaded(pid: int, library: str) -> bool:
    return library in Path(f"/proc/{pid}/maps").read_text()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        os.sched_yield()


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["python", "pydantic_core", "pycurl", "numpy", "_umath_linalg"])
def test_a_process_that_is_still_loading_ends_at_once(
    tmp_path: Path, number: signal.Signals, moment: str
) -> None:
    with starting(tmp_path) as process:
        wait_until(lambda: catches(process.pid, signal.SIGUSR2))
        wait_until(lambda: loaded(process.pid, moment))
        process.send_signal(number)
        assert process.wait(SOON) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_the_handlers_are_there_before_anything_large_is_loaded() -> None:
    argv = [sys.executable, "-c", FIRST_STEP, "run"]
    ended = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SOON)
    assert ended.stdout == "[]\n"


def test_signals_that_mean_something_later_do_not_end_it(tmp_path: Path) -> None:
    with starting(tmp_path) as process:
        wait_until(lambda: catches(process.pid, signal.SIGUSR2))
        for number in (signal.SIGHUP, signal.SIGUSR2):
            process.send_signal(number)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 0
