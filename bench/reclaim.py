"""`python -m bench.reclaim`: what it costs to take room back from tenants, with no API server.

    python -m bench.reclaim --nodes 5000 --running 30000 --queues 200

Every node is full of Pods of one GPU, of any age, which belong to so many Queues in turn; another
Queue that is guaranteed a part has one Pod, then a group of 512. "plan" is the CPU time of the
whole attempt: the search for nodes that fails, whom to evict, the proof, and the requests that
evict them. The shares are those of 1,000 Queues.

"Cannot be" is the whole attempt where that is what is found out: for a Pod and for a group of a
Queue that has its share, so that nobody may yield; and for a Pod that needs a whole node, while
each Queue is guaranteed all but one of its Pods, so that no node has enough who may yield. Of each,
every attempt is that of a Pod that is unlike those before it: a refusal is kept for Pods that are
alike.
"""

from __future__ import annotations

from time import process_time
from typing import Annotated

import typer
from rich.console import Console

from bayplan.api.kinds import NAMESPACE, NODE, POD, POD_GROUP, QUEUE
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.inbox.messages import Changed, Replaced
from bayplan.testing import Cluster, PodBuilder, make_node, make_object, make_pod
from bayplan.testing.builder import Json

GPU = "nvidia.com/gpu"
GROUP = 512
ROUNDS = 5

console = Console()


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    running: Annotated[int, typer.Option(min=1)] = 30_000,
    queues: Annotated[int, typer.Option(min=1)] = 200,
) -> None:
    """Measure a reclaim for one Pod, for a group of 512, and shares."""
    _say_what_cannot_be(nodes, running, queues)
    cluster = _cluster(nodes, running, queues)
    _queue(cluster, "taker", guaranteed={GPU: 2 * GROUP})
    singles = [_attempt(cluster, [_pod(f"single-{i}", "taker")]) for i in range(ROUNDS)]
    console.print(f"plan for one GPU: {min(singles):.0f}-{max(singles):.0f} ms")
    _group(cluster, "taker")
    console.print(f"plan for a group of {GROUP}: {_attempt(cluster, _members('taker')):.0f} ms")
    console.print(f"shares of 1000 queues: {_shares():.1f} ms")


def _plugins() -> Json:
    fair = {"enabled": [{"name": "FairShare"}]}
    both = [{"name": "FairShare"}, {"name": "Coscheduling"}]
    multi_point = {"enabled": both, "disabled": [{"name": "PrioritySort"}]}
    return {"multiPoint": multi_point, "postFilter": fair, "podGroupPostFilter": fair}


def _cluster(nodes: int, running: int, queues: int, **spec: Json) -> Cluster:
    cluster = Cluster(config={"profiles": [{"schedulerName": "bayplan", "plugins": _plugins()}]})
    gpus = -(-running // nodes)
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus)}
    made = [make_node(f"n{i}").capacity(**amounts).new_version().obj() for i in range(nodes)]
    placed = (
        _pod(f"p{i}", f"tenant-{i % queues}")
        .node(f"n{i % nodes}")
        .start_time(f"2026-01-01T{i % 24:02}:{i // 24 % 60:02}:00Z")
        .new_version()
        .obj()
        for i in range(running)
    )
    for name in [f"tenant-{i}" for i in range(queues)]:
        _queue(cluster, name, **spec)
    cluster.tell(Replaced(NODE, made), Replaced(POD, list(placed)))
    return cluster


def _queue(cluster: Cluster, name: str, **spec: Json) -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    queue = make_object(QUEUE, name).spec(namespaceSelector=selector, **spec)
    namespace = make_object(NAMESPACE, name).label("kubernetes.io/metadata.name", name)
    cluster.tell(
        Changed(NAMESPACE, namespace.new_version().obj()),
        Changed(QUEUE, queue.new_version().obj()),
    )


def _say_what_cannot_be(nodes: int, running: int, queues: int) -> None:
    cluster = _cluster(nodes, running, queues)
    owner = "tenant-0"
    singles = [
        _attempt(cluster, [_pod(f"one-{i}", owner).label("round", str(i))], helps=False)
        for i in range(ROUNDS)
    ]
    console.print(f"cannot be, nobody may yield: {min(singles):.1f}-{max(singles):.1f} ms")
    _group(cluster, owner)
    members = _members(owner)
    milliseconds = _attempt(cluster, members, helps=False)
    console.print(f"cannot be, nobody may yield to a group of {GROUP}: {milliseconds:.1f} ms")
    cluster = _cluster(nodes, running, queues, guaranteed={GPU: running // queues - 1})
    _queue(cluster, "taker")
    whole = str(-(-running // nodes))
    large = [
        _attempt(cluster, [_pod(f"large-{i}", "taker", whole).label("round", str(i))], helps=False)
        for i in range(ROUNDS)
    ]
    console.print(f"cannot be, no node has enough: {min(large):.1f}-{max(large):.1f} ms")


def _group(cluster: Cluster, namespace: str) -> None:
    group = make_object(POD_GROUP, "gang").namespace(namespace).spec(minMember=GROUP)
    cluster.tell(Changed(POD_GROUP, group.new_version().obj()))


def _members(namespace: str) -> list[PodBuilder]:
    pods = (_pod(f"gang-{i}", namespace) for i in range(GROUP))
    return [pod.label(POD_GROUP_LABEL, "gang") for pod in pods]


def _pod(name: str, namespace: str, gpus: str = "1") -> PodBuilder:
    return make_pod(name).namespace(namespace).req(cpu="1", **{GPU: gpus})


def _attempt(cluster: Cluster, pods: list[PodBuilder], *, helps: bool = True) -> float:
    """Milliseconds of the attempt to place these Pods; somebody is evicted if that ``helps``."""
    cluster.add(*pods)
    queued = cluster.world.queue.pop()
    assert queued is not None
    assert queued.pod.name == pods[0].json["metadata"]["name"], "an attempt of another Pod"
    deleted, bound = len(cluster.writer.deleted), len(cluster.writer.bound)
    started = process_time()
    cluster.scheduler.schedule_one(queued)
    milliseconds = (process_time() - started) * 1000
    cluster.take_in()
    assert len(cluster.writer.bound) == bound, "there was room"
    assert (len(cluster.writer.deleted) > deleted) == helps, "who was evicted is not as expected"
    return milliseconds


def _shares() -> float:
    cluster = _cluster(10, 100, 1000)
    tree = cluster.world.queues
    seconds = 0.0
    for number in range(ROUNDS):
        cluster.add(_pod(f"more-{number}", "tenant-0"))  # shares stay where demand does
        started = process_time()
        tree.refresh_shares()
        seconds += process_time() - started
    return seconds * 1000 / ROUNDS


if __name__ == "__main__":
    typer.run(main)
