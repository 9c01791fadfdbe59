"""`python -m bench.why`: what answers of `bayplan why` and `status` cost the scheduling thread.

    python -m bench.why --nodes 5000 --placed 50000

No API server. Asked are Pods that fit nowhere, Pods that fit and wait for their turn, and Pods on
nodes; each once, by name and without names. Then status is asked, while many Pods wait. Figures are
CPU time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from bayplan.explain import status
from bayplan.explain.why import Why
from bayplan.testing import make_node, make_pod
from bayplan.testing.cluster import Cluster

ASKED = 50

console = Console()


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    placed: Annotated[int, typer.Option(min=ASKED)] = 50_000,
    waiting: Annotated[int, typer.Option(min=0)] = 20_000,
) -> None:
    """Time the answers about Pods of three kinds, and about all that wait."""
    cluster = Cluster()
    cluster.add(
        *(make_node(f"n{i}").capacity(cpu="32", memory="64Gi", pods=110) for i in range(nodes))
    )
    cluster.add(
        *(
            make_pod(f"placed-{i}").req(cpu="100m", memory="128Mi").node(f"n{i % nodes}")
            for i in range(placed)
        )
    )
    cluster.add(*(make_pod(f"large-{i}").req(cpu="33") for i in range(ASKED)))
    cluster.run()
    cluster.add(*(make_pod(f"fits-{i}").req(cpu="1") for i in range(ASKED)))
    core = cluster.core

    def who(names: bool) -> Why:
        return Why(core.world, core.profiles, core.placers, core.records, names=names)

    for kind in ("large", "fits", "placed"):
        for names in (True, False):
            asked = [partial(who(names).of_pod, "default", f"{kind}-{i}") for i in range(ASKED)]
            timed(kind if names else f"{kind}, no names", asked)
    cluster.add(*(make_pod(f"waits-{i}").req(cpu="33") for i in range(waiting)))
    for title, only in (("status", ""), ("status, no names", "default")):
        asked_status = partial(status.waiting, core.world, core.records, time.time(), only)
        timed(title, [asked_status] * ASKED)


def timed(title: str, questions: Iterable[Callable[[], object]]) -> None:
    """Print what the questions cost."""
    seconds, size = [], 0
    for question in questions:
        began = time.process_time()
        answer = question()
        seconds.append(time.process_time() - began)
        size = max(size, len(str(answer)))
    middle, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
    console.print(f"{title}: median {middle:.2f} ms, worst {worst:.2f} ms, up to {size} bytes")


if __name__ == "__main__":
    typer.run(main)
