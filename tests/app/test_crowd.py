"""Slow and broken clients, many at once, while Pods are scheduled: nothing is left of them."""

from __future__ import annotations

import gc
import gzip
import json
import random
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest
from tests.core_harness import Cluster
from tests.waiting import SOON, eventually

from bayplan.app.pages import answer_pages, probes
from bayplan.app.questions import Question, Questions
from bayplan.server import connections
from bayplan.server.port import MOST_BYTES, Port
from bayplan.testing import make_node, make_pod

PODS, SILENT, HALF, FUZZED, ASKED = 100, 120, 60, 200, 50
CLIENTS = 60
PATHS = ("/why", "/plan", "/bays", "/queues", "/livez", "/metrics", "/", "")
KEYS = ("namespace", "pod", "group", "verdict", "x")
FILES = Path("/proc/self/fd")
METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"BREW", b"")


class World:
    """A scheduler whose thread is the test's, and its port."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add(*(make_node(f"n{i}").capacity(cpu="64", pods=500) for i in range(3)))
        self.cluster.add(make_pod("big").req(cpu="99"))
        self.cluster.run()
        core = self.cluster.core
        asking = Questions(self.cluster.inbox, share=100.0)  # what is asked is answered, too
        pages = {**probes(list, list, bytes), **answer_pages(core, asking, str)}
        self.port = Port("127.0.0.1", 0, pages)
        self._others = set(_of_requests())  # of servers that other tests have left behind
        self.port.start()
        self.most_threads = 0

    def answering(self) -> list[threading.Thread]:
        """The threads of connections."""
        return [thread for thread in _of_requests() if thread not in self._others]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port.port), timeout=SOON)

    def exchange(self, sent: bytes) -> bytes:
        """All that comes back until the connection ends."""
        with self.connect() as connection:
            with suppress(OSError):  # the port does not read on after it has answered
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
            return rest(connection)

    def take_in(self, *, wait: bool = False) -> None:
        self.cluster.scheduler.take_in(wait=wait)
        self.most_threads = max(self.most_threads, len(self.answering()))


def rest(connection: socket.socket) -> bytes:
    got = b""
    with suppress(ConnectionError):
        while data := connection.recv(65536):
            got += data
    return got


def _of_requests() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if "process_request_thread" in t.name]


def left() -> tuple[int, int]:
    """Objects of connections and questions; open files."""
    gc.collect()
    kinds = (socket.socket, BaseHTTPRequestHandler, Question)
    return sum(isinstance(o, kinds) for o in gc.get_objects()), len(list(FILES.iterdir()))


def fuzzed(chosen: random.Random) -> bytes:
    """A request, more or less."""
    if chosen.random() < 0.2:
        return chosen.randbytes(chosen.randrange(2000))
    texts = (b"default", b"big", b"Job/x", b"whole", b"\0\r\n", "é/#".encode(), b"a" * 5000)
    query = "&".join(
        f"{chosen.choice(KEYS)}={quote_from_bytes(chosen.choice((*texts, chosen.randbytes(9))))}"
        for _ in range(chosen.randrange(4))
    )
    bodies = (
        b"",
        b"[]",
        gzip.compress(json.dumps([make_pod("x").namespace("default").json]).encode()),
        gzip.compress(b"[{}, null, 1]"),
        gzip.compress(b"0" * 10_000_000),
        chosen.randbytes(MOST_BYTES),
    )
    body = chosen.choice(bodies)
    length = chosen.choice((len(body), len(body), len(body), 0, len(body) + 7, -1, 10**15))
    header = chosen.choice(
        (b"Content-Length: %d" % length, b"Transfer-Encoding: chunked", chosen.randbytes(40))
    )
    line = b"%s %s?%s HTTP/1.1" % (
        chosen.choice(METHODS),
        chosen.choice(PATHS).encode(),
        query.encode(),
    )
    return line + b"\r\n" + header + b"\r\n\r\n" + body


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 1.0)
    made = World()
    yield made
    made.port.stop()


def crowd(world: World, name: str) -> list[bytes]:
    """Clients of all sorts come while Pods are scheduled; what those who asked got."""
    chosen = random.Random(name)
    silent = [world.connect() for _ in range(SILENT)]
    half = [world.connect() for _ in range(HALF)]
    for connection in half:
        connection.sendall(b"GET /why?namespace=default&pod=big HTTP/1.1\r\nX: ")
    sent = [fuzzed(chosen) for _ in range(FUZZED)]
    sent += [b"GET /why?namespace=default&pod=big HTTP/1.1\r\n\r\n"] * ASKED
    chosen.shuffle(sent)
    with ThreadPoolExecutor(CLIENTS) as clients:
        waits: list[Future[bytes]] = [clients.submit(world.exchange, data) for data in sent]
        for number in range(PODS):
            world.cluster.add(make_pod(f"{name}-{number}").req(cpu="10m"))
            world.take_in()
            world.cluster.run()
        while not all(future.done() for future in waits):
            world.take_in(wait=True)
    for connection in (*silent, *half):
        with connection:
            rest(connection)  # it ends, or this times out
    eventually(lambda: not world.answering())
    return [future.result() for future in waits]


def test_a_crowd_of_slow_and_broken_clients_stops_and_leaves_nothing(world: World) -> None:
    crowd(world, "first")
    before = left()
    tracemalloc.start()
    held, _ = tracemalloc.get_traced_memory()
    answers = crowd(world, "second")
    after = left()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    bound = [pod for pod, _ in world.cluster.bound]
    assert bound == [f"{name}-{i}" for name in ("first", "second") for i in range(PODS)]
    assert all(now <= then for now, then in zip(after, before, strict=True))
    assert world.most_threads <= 2 * connections.MOST
    assert peak - held < 4 * connections.MOST * MOST_BYTES
    assert kept - held < 50 * MOST_BYTES
    codes = {answer.split(b" ", 2)[1] for answer in answers if answer.startswith(b"HTTP/")}
    assert {b"200", b"400", b"404", b"405"} <= codes
    assert b"500" not in codes
    assert sum(b'"PodAnswer"' in answer for answer in answers) > ASKED // 2
