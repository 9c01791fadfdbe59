"""`python -m bench.backfill`: what a reservation costs the Pods that are kept off, no API server.

    python -m bench.backfill --members 1000 --waiting 5000

A group waits for as many nodes as it has members; a Pod of half a node runs on each of them, for
ever. The nodes are reserved for the group, so small Pods are kept off, however much room there is.
"attempt" is the CPU time of an attempt to place one of these, "event" that of a Pod of a DaemonSet
that is seen with its node: it may be good news for each of those that wait.
"""

from __future__ import annotations

import statistics
from time import process_time
from typing import Annotated

import typer
from rich.console import Console

from bayplan.api.kinds import NODE, POD, POD_GROUP
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.inbox.messages import Changed, Replaced
from bayplan.testing import Cluster, make_node, make_object, make_pod

GROUP = "gang"
HOUR_AGO = "1969-12-31T23:00:00Z"
"""The clock begins at 1970."""
EVENTS = 20

console = Console()


def main(
    members: Annotated[int, typer.Option(min=1)] = 1_000,
    waiting: Annotated[int, typer.Option(min=1)] = 5_000,
) -> None:
    """Measure attempts of Pods that are kept off, and events while they wait."""
    cluster = _reserved(members)
    cluster.add(*(make_pod(f"small-{i}").req(cpu="1") for i in range(waiting)))
    attempts = _attempts(cluster)
    assert len(attempts) == waiting, f"{len(attempts)} attempts"
    events = [_event(cluster, number) for number in range(EVENTS)]
    reserved = cluster.metric("bayplan_plugin_value", plugin="Backfill", name="reserved_nodes")
    assert reserved == members, f"{reserved:g} nodes are reserved"
    console.print(
        f"{members} nodes reserved: attempt {statistics.median(attempts) * 1000:.2f} ms, "
        f"event beside {waiting} waiting Pods {statistics.median(events) * 1000:.1f} ms"
    )


def _reserved(members: int) -> Cluster:
    """As many nodes as the group has members, reserved for it."""
    enabled = {"enabled": [{"name": "Coscheduling"}, {"name": "Backfill"}]}
    multi_point = {**enabled, "disabled": [{"name": "PrioritySort"}]}
    plugins = {"multiPoint": multi_point, "podGroupPostFilter": {"enabled": [{"name": "Backfill"}]}}
    cluster = Cluster(config={"profiles": [{"schedulerName": "bayplan", "plugins": plugins}]})
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    nodes = [make_node(f"n{i}").capacity(**amounts).new_version().obj() for i in range(members)]
    running = [
        make_pod(f"runs-{i}").req(cpu="4").node(f"n{i}").new_version().obj() for i in range(members)
    ]
    cluster.tell(Replaced(NODE, nodes), Replaced(POD, running))
    group = make_object(POD_GROUP, GROUP).namespace("default").spec(minMember=members)
    cluster.tell(Changed(POD_GROUP, group.new_version().obj()))
    pods = [make_pod(f"{GROUP}-{i}").req(cpu="8").created(HOUR_AGO) for i in range(members)]
    cluster.add(*(pod.label(POD_GROUP_LABEL, GROUP) for pod in pods))
    cluster.run()
    return cluster


def _attempts(cluster: Cluster) -> list[float]:
    """Seconds of CPU of each attempt to place what waits."""
    seconds = []
    while (queued := cluster.world.queue.pop()) is not None:
        started = process_time()
        cluster.scheduler.schedule_one(queued)
        seconds.append(process_time() - started)
        cluster.take_in()
    return seconds


def _event(cluster: Cluster, number: int) -> float:
    """Seconds of CPU of a Pod that is seen with its node."""
    pod = make_pod(f"agent-{number}").owner("DaemonSet", "agents").node("n0").new_version().obj()
    started = process_time()
    cluster.tell(Changed(POD, pod))
    return process_time() - started


if __name__ == "__main__":
    typer.run(main)
