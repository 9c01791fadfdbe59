"""`python -m bench.asked`: what many questions through the port cost scheduling.

    python -m bench.asked --nodes 5000 --placed 50000 --rate 50

No API server. Pods are placed in turns with and without questions. These come from a process of
their own, over TLS, to the real port, on connections that are kept: why a Pod waits or is where it
is, status, Queues. What a turn with questions has lost is a ratio to the turn beside it; medians
over all pairs are shown.
"""

from __future__ import annotations

import http.client
import multiprocessing
import random
import ssl
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from typing import Annotated, NamedTuple

import msgspec
import typer
from rich.console import Console

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.app.pages import answer_pages
from bayplan.app.process import SWITCH_INTERVAL
from bayplan.app.questions import SAVED_SECONDS, SHARE, BusyError, Questions
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.explain import status
from bayplan.inbox.messages import Changed
from bayplan.server.certificates import self_signed
from bayplan.server.pages import Answer, Page, PageRequest, Pages, text
from bayplan.server.port import Port
from bayplan.server.tls import ServingContext
from bayplan.telemetry.metrics import Metrics
from bayplan.testing import make_pod
from bench.core import quiet_collector
from bench.objects import PLACED, Objects
from bench.recording import CoreWorld
from bench.schedulers import CONFIG
from bench.workloads import load_catalog

HOST = "127.0.0.1"
LARGE = 50
"""Pods that fit nowhere, which are asked about."""
ASKERS = 4
SECONDS = 120.0
"""Longest time of a turn."""

console = Console()


class Turn(NamedTuple):
    """Pods a second; us of CPU a Pod, of the scheduling thread and of all; us of an attempt."""

    rate: float
    scheduling: float
    cpu: float
    p99: float


class Attempts(Metrics):
    """Remembers how long attempts took: from the queue until the binding was confirmed."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def attempt(self, pod: Pod, profile: str, result: str, seconds: float) -> None:
        """See `bayplan.telemetry.instrument.Instrument.attempt`."""
        super().attempt(pod, profile, result, seconds)
        self.seconds.append(seconds)


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    placed: Annotated[int, typer.Option(min=1)] = 50_000,
    rate: Annotated[int, typer.Option(min=1, help="Questions a second.")] = 50,
    pods: Annotated[int, typer.Option(min=100, help="Placed in a turn.")] = 5_000,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of turns.")] = 10,
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="See --questions-share.")] = SHARE,
) -> None:
    """Place Pods in turns, with and without questions."""
    catalog, registry, attempts = load_catalog(), Registry(), Attempts()
    workload = catalog.select("SchedulingBasic")[0].sized(nodes, placed=placed, pods=pods)
    objects = Objects(catalog, workload)
    config = parse_config(CONFIG, registry.known)
    world = CoreWorld(config, registry, workload, objects, instrument=attempts)
    profile = next(iter(world.core.profiles))
    for number in range(LARGE):
        large = make_pod(f"large-{number}").req(cpu="1000").spec(schedulerName=profile)
        world.apply(Changed(POD, large.obj()))
    paths = [f"/why?namespace=default&pod={PLACED}{i}" for i in range(placed)]
    paths = random.Random(1).sample(paths, min(placed, 1000))
    paths += [f"/why?namespace=default&pod=large-{i}" for i in range(LARGE)] * 10

    def turn(number: int) -> Turn:
        world.feed(objects.measured(prefix=f"turn-{number}-"))
        attempts.seconds.clear()
        before = time.thread_time()
        placing = world.place(pods, SECONDS)
        own = time.thread_time() - before
        assert placing.pods == pods, "the cluster is full: give more nodes, or fewer Pods or pairs"
        p99 = statistics.quantiles(attempts.seconds, n=100)[98]
        own_us, all_us = (seconds / pods * 1e6 for seconds in (own, placing.cpu))
        return Turn(pods / placing.seconds, own_us, all_us, p99 * 1e6)

    quiet, asked = list[Turn](), list[Turn]()
    with quiet_collector(), short_turns(), closing(Asker(world, paths, rate, share)) as asker:
        turn(-1)
        for pair in range(pairs):
            for with_questions in (False, True) if pair % 2 else (True, False):
                number = 2 * pair + with_questions
                if not with_questions:
                    quiet.append(turn(number))
                    continue
                with asker.asking():
                    asked.append(turn(number))
    show(quiet, asked)
    console.print(str(asker), soft_wrap=True)


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads take turns as in the scheduler's process."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    yield
    sys.setswitchinterval(before)


def show(quiet: Sequence[Turn], asked: Sequence[Turn]) -> None:
    """Print each figure without and with questions, and the ratio."""
    for title, name in (
        ("Pods a second", "rate"),
        ("us of CPU a Pod, scheduling thread", "scheduling"),
        ("us of CPU a Pod, all threads", "cpu"),
        ("p99 of an attempt, us", "p99"),
    ):
        before, after = ([getattr(turn, name) for turn in turns] for turns in (quiet, asked))
        ratios = sorted(b / a for a, b in zip(before, after, strict=True))
        console.print(
            f"{title}: {statistics.median(before):,.0f} without, {statistics.median(after):,.0f} "
            f"with questions, ratio {statistics.median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f})",
            soft_wrap=True,
        )


class Asker:
    """The port, and the process that asks it."""

    def __init__(self, world: CoreWorld, paths: Sequence[str], rate: int, share: float) -> None:
        pair = self_signed(HOST)
        tls = ServingContext(lambda: pair, bytes, "VersionTLS12", ())
        self._questions = Questions(world.inbox, share=share)
        self._port = Port(HOST, 0, pages(world, self._questions), tls)
        self._port.start()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        given = (theirs, self._port.port, list(paths), rate)
        self._process = context.Process(target=ask, args=given, daemon=True)
        self._process.start()
        self._answers: Counter[int] = Counter()
        self._seconds: list[float] = []
        self._asked = 0.0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Questions are asked meanwhile; none has been saved up for."""
        self._questions.charge(SAVED_SECONDS)
        self._pipe.send("begin")
        began = time.monotonic()
        yield
        self._asked += time.monotonic() - began
        self._pipe.send("end")
        for code, seconds in self._pipe.recv():
            self._answers[code] += 1
            if code == 200:
                self._seconds.append(seconds)

    def close(self) -> None:
        """End both."""
        self._pipe.send("")
        self._process.join()
        self._port.stop()

    def __str__(self) -> str:
        answered, refused = self._answers.pop(200, 0), self._answers.pop(429, 0)
        middle, worst = statistics.median(self._seconds) * 1e3, max(self._seconds) * 1e3
        return (
            f"questions a second: {answered / self._asked:.1f} answered, "
            f"{refused / self._asked:.1f} refused; others: {dict(self._answers)}; an answer "
            f"took {middle:.1f} ms, worst {worst:.1f} ms"
        )


def pages(world: CoreWorld, questions: Questions) -> Pages:
    """Those of the scheduler's port; of status the part that its thread makes."""
    core = world.core

    def answer(_: PageRequest) -> Answer:
        try:
            said = questions.ask(lambda: status.waiting(core.world, core.records, time.time()))
        except BusyError as error:
            return text(429, str(error))
        return Answer(200, msgspec.json.encode(said))

    return {**answer_pages(core, questions, str), "/status": Page(answer)}


def ask(pipe: Connection, port: int, paths: list[str], rate: int) -> None:
    """In a process of its own: ask from each ``begin`` to the next ``end``, eight in ten why."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    chosen = random.Random(2)

    own = threading.local()

    def connect() -> None:
        own.connection = http.client.HTTPSConnection(HOST, port, context=context)

    def question(path: str) -> tuple[int, float]:
        began = time.monotonic()
        own.connection.request("GET", path)
        with own.connection.getresponse() as answer:
            answer.read()
            return answer.status, time.monotonic() - began

    with ThreadPoolExecutor(ASKERS, initializer=connect) as askers:
        while pipe.recv():
            asked, due = [], time.monotonic()
            while not pipe.poll(max(due - time.monotonic(), 0.0)):
                why, *others = chosen.choice(paths), "/status", "/queues"
                path = chosen.choices((why, *others), (8, 1, 1))[0]
                asked.append(askers.submit(question, path))
                due += 1 / rate
            pipe.recv()
            pipe.send([each.result() for each in asked])


if __name__ == "__main__":
    typer.run(main)
