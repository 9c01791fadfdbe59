"""`python -m bench.why`: what an answer of `bayplan why` costs the scheduling thread.

    python -m bench.why --nodes 5000 --placed 50000

No API server. Asked are Pods that fit nowhere, Pods that fit and wait for their turn, and Pods on
nodes; each once. Figures are CPU time.
"""

from __future__ import annotations

import statistics
import time
from typing import Annotated

import typer
from rich.console import Console

from bayplan.explain.why import Why
from bayplan.testing import make_node, make_pod
from bayplan.testing.cluster import Cluster

ASKED = 50

console = Console()


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    placed: Annotated[int, typer.Option(min=ASKED)] = 50_000,
) -> None:
    """Time the answers about Pods of three kinds."""
    cluster = Cluster()
    cluster.add(*(make_node(f"n{i}").capacity(cpu="32", memory="64Gi") for i in range(nodes)))
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
    for kind in ("large", "fits", "placed"):
        seconds, size = [], 0
        for index in range(ASKED):
            began = time.process_time()
            who = Why(core.world, core.profiles, core.placers, core.records, names=True)
            answer = who.of_pod("default", f"{kind}-{index}")
            seconds.append(time.process_time() - began)
            size = max(size, len(str(answer)))
        middle, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
        console.print(f"{kind}: median {middle:.2f} ms, worst {worst:.2f} ms, up to {size} bytes")


if __name__ == "__main__":
    typer.run(main)
