"""Processes of a control plane: each is a `Part` that starts, proves that it is ready, and ends.

Invariants: a part is started again with the same arguments, so on the same port and data; it is
ended by its own pid; and it dies with the process that started it, however that one ends (Linux
only: the kernel is asked for it).
"""

import ctypes
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from e2e.provider.pki import Authority, KeyPair

PR_SET_PDEATHSIG = 1
LOG_TAIL = 15  # lines of a part's log that an error shows

_libc = ctypes.CDLL(None)
# The kernel ends a child with the *thread* that started it: this one lives as long as we do.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")


class StartError(Exception):
    """A part did not start: it ended, was not ready in time, or somebody else has its port."""


@dataclass(frozen=True)
class Endpoint:
    """An HTTPS server of ours, asked as a client with a certificate.

    `url` has no path; `context` trusts the run's own authority and nobody else.
    """

    url: str
    context: ssl.SSLContext

    def get(self, path: str, timeout: float = 5.0) -> bytes:
        """Return the body of `path`.

        Raises:
            OSError: no connection, no trust, or a status other than 2xx (urllib's HTTPError).
        """
        with self.open(path, timeout=timeout) as response:
            body: bytes = response.read()
            return body

    def open(self, path: str, body: bytes | None = None, timeout: float = 5.0) -> Any:
        """Return the answer to a GET of `path`, or to a POST of `body`, to be read and closed.

        Raises:
            OSError: as `get`.
        """
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=self.context))
        return opener.open(self.url + path, body, timeout=timeout)

    def answers(self, path: str) -> bool:
        """Say whether `path` answers with success.

        Raises:
            StartError: the listener is not ours.
        """
        try:
            self.get(path, timeout=2.0)
        except URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise StartError(f"{self.url} is held by another program") from error
            return False
        except OSError:
            return False
        return True


def client_context(authority: Authority, pair: KeyPair) -> ssl.SSLContext:
    """Make what an `Endpoint` needs to trust `authority` and to be known as the owner of `pair`."""
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.load_cert_chain(pair.cert, pair.key)
    return context


def unverified() -> ssl.SSLContext:
    """Make what trusts whoever answers, and is nobody in particular, as a kubelet's probe."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Part:
    """One process of the control plane.

    Args:
        name: what it is called, in messages and as the name of its log file.
        argv: program and arguments; the same at every start.
        log: where its output goes, appended at every start.
        endpoint: where it listens; `endpoint.get("/metrics")` and the like work while it runs.
        ready: the path that answers once it is ready.
    """

    def __init__(
        self, name: str, argv: Sequence[str], log: Path, endpoint: Endpoint, ready: str
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self.endpoint = endpoint
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the last start.

        Raises:
            LookupError: it was never started.
        """
        if self._process is None:
            raise LookupError(f"{self.name} was not started")
        return self._process.pid

    def start(self, timeout: float = 300.0) -> Self:
        """Start the process, wait until it is ready, and return self.

        Raises:
            StartError: it is not ready within `timeout` seconds; it is ended then.
        """
        if self.running:
            raise StartError(f"{self.name} is running already")
        self._process = _spawner.submit(_spawn, self.argv, self.log).result()
        try:
            self._wait_ready(time.monotonic() + timeout)
        except BaseException:
            self.kill()
            raise
        return self

    def _wait_ready(self, deadline: float) -> None:
        while not self.endpoint.answers(self._ready):
            if not self.running:
                raise StartError(f"{self.name} ended at its start; {self.tail()}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} is not ready; {self.tail()}")
            time.sleep(0.05)

    def tail(self) -> str:
        """The end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
        return f"the end of {self.log}:\n" + "\n".join(lines)

    def stop(self, grace: float = 2.0) -> None:
        """End the process: SIGTERM, and SIGKILL when it is still there after `grace` seconds."""
        stop_all([self], grace)

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP and SIGCONT make a server that hangs for a while."""
        os.kill(self.pid, number)


def stop_all(parts: Iterable[Part], grace: float = 2.0) -> None:
    """End `parts` together, with one `grace` (seconds) for all.

    kube-apiserver regularly needs the SIGKILL: it waits for its clients to end their watches.
    """
    running = [part for part in parts if part.running]
    for part in running:
        part.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(part.running for part in running):
        time.sleep(0.02)
    for part in running:
        part.kill()


def free_port() -> int:
    """Return a TCP port of the loopback address that nobody listens on.

    It is below the range from which the kernel takes the ports of outgoing connections, so that it
    stays free while a server that is to return to it is down.
    """
    for _ in range(100):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise StartError("no free port between 20000 and 32000")


def _spawn(argv: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is for us; we then end the parts in our order
            preexec_fn=_die_with(os.getpid()) if sys.platform == "linux" else None,  # noqa: PLW1509
        )


class _die_with:  # noqa: N801
    """Run in the child: ask the kernel to kill it when its parent ends."""

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def __call__(self) -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._parent:  # it ended before we asked
            os.kill(os.getpid(), signal.SIGKILL)
