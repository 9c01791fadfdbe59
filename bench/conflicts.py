"""`python -m bench.conflicts`: how often two schedulers give the same place away.

bayplan and kube-scheduler place Pods on the same nodes of a real API server. This program is the
kubelet of all nodes: it admits the Pod that it sees first, and fails one that no longer fits, as
`pkg/kubelet/lifecycle` does. Every Pod takes an eighth of a node. Pods come at random moments, for
either scheduler as by a coin; for each that comes, a random one that runs ends, so the nodes stay
as full as they are. "divided" is what docs/operations.md advises: half of the nodes for each.

The longer a binding takes to reach the other scheduler, the more conflicts: a busy machine has more
of them than one that has nothing else to do.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer
from e2e.provider import ControlPlane, provide, wait_until
from rich.console import Console
from rich.table import Table

from bayplan.client.connection import Connection
from bayplan.rejections.conflicts import REJECTED
from bench import schedulers
from bench.api import BulkClient, PodWatch
from bench.objects import Template, collection
from bench.results import machine
from bench.schedulers import BAYPLAN, KUBE_SCHEDULER

SLOTS = 8
"""Pods that fit on a node."""
NAMES = {BAYPLAN: "bayplan", KUBE_SCHEDULER: "default-scheduler"}
"""schedulerName by scheduler."""
SEED = 1
LAST_CHANCE = 60.0
"""Seconds after the last creation in which every Pod must have got its node."""
PODS = collection("Pod", "default")

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "$NAME", "labels": {"kubernetes.io/hostname": "$NAME"}},
    "status": {
        part: {"cpu": str(SLOTS), "memory": "64Gi", "pods": "110"}
        for part in ("capacity", "allocatable")
    }
    | {"conditions": [{"type": "Ready", "status": "True"}]},
}

console = Console()


@dataclass(frozen=True)
class Case:
    """One measurement.

    Attributes:
        full: share of the places that are in use all the time.
        rate: Pods created a second, for both schedulers together.
        divided: each scheduler has half of the nodes.
    """

    full: float
    rate: float
    divided: bool


@dataclass
class Counts:
    """What came of a case: Pods by scheduler, and seconds from the first to the last creation."""

    created: dict[str, int]
    rejected: dict[str, int]
    seconds: float = 0.0

    def per_thousand(self) -> float:
        """Conflicts for 1,000 Pods that were created."""
        return sum(self.rejected.values()) / sum(self.created.values()) * 1e3


class _Meta(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str
    scheduler_name: str


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode


class Kubelets:
    """The kubelets of all nodes: what they run, and what they do not admit.

    A watch has bindings and deletions in the order in which the API server has stored them; so a
    place that a scheduler has seen become free is free here.

    Args:
        running: node by name of the Pods that run already.

    Attributes:
        running: node by name of Pod.
        rejected: Pods that do not fit, in order; whoever writes their status takes them from here.
        seen: Pods that had a node.
    """

    def __init__(self, running: dict[str, str]) -> None:
        self.running = running
        self.rejected: list[_Pod] = []
        self.seen = 0
        self._used: dict[str, int] = {}
        for node in running.values():
            self._used[node] = self._used.get(node, 0) + 1

    def note(self, line: bytes, _now: float = 0.0) -> None:
        """Take in one event of a watch of Pods that have a node.

        Admits a Pod that has just got its node, or does not; forgets one that is gone.
        """
        event = _decode_event(line)
        if event.type == "ADDED":
            self._sync(_decode_pod(event.object))
        elif event.type == "DELETED":
            node = self.running.pop(_decode_pod(event.object).metadata.name, None)
            if node is not None:
                self._used[node] -= 1

    def _sync(self, pod: _Pod) -> None:
        name, node = pod.metadata.name, pod.spec.node_name
        self.seen += 1
        if self._used.get(node, 0) >= SLOTS:
            self.rejected.append(pod)
            return
        self._used[node] = self._used.get(node, 0) + 1
        self.running[name] = node


class Contest:
    """Two schedulers on one control plane, with nodes that are in use as ``case`` says."""

    def __init__(self, cluster: ControlPlane, case: Case, nodes: int) -> None:
        self._case = case
        self._random = random.Random(SEED)
        connection = Connection.load(str(cluster.kubeconfig))
        self._client = BulkClient(connection)
        self._templates = {name: self._template(name) for name in NAMES}
        self._nodes = {
            name: [f"{name}-{i}" for i in range(half)]
            for name, half in zip(NAMES, (nodes // 2, nodes - nodes // 2), strict=True)
        }
        self._alive: dict[str, list[str]] = {name: [] for name in NAMES}
        self._created = 0
        self._counts = Counts(dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0))
        running = self._populate()
        self._target = len(running)
        self._kubelets = Kubelets(running)
        self._watch = PodWatch(connection, self._client.version(), self._kubelets.note)
        for name, scheduler in NAMES.items():
            config = cluster.folder / f"{name}.yaml"
            profile = f"profiles: [{{schedulerName: {scheduler}}}]\n"
            config.write_text(schedulers.CONFIG + profile)
            schedulers.start(name, cluster, config)

    def close(self) -> None:
        """End what belongs to this program."""
        self._watch.stop()
        self._client.close()

    def run(self, seconds: float) -> Counts:
        """Let Pods come and go for so long."""
        self._warm_up()
        self._counts = Counts(dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0))
        began = due = time.monotonic()
        while due < began + seconds:
            due += self._random.expovariate(self._case.rate)
            self._reject()
            time.sleep(max(0.0, due - time.monotonic()))
            name = self._random.choice(list(NAMES))
            self._arrive(name)
            self._counts.created[name] += 1
        self._counts.seconds = time.monotonic() - began
        self._wait_placed()
        self._client.wait()
        return self._counts

    def _populate(self) -> dict[str, str]:
        """Make the nodes and the Pods that run from the start; returns the node of each."""
        running = {}
        for name, nodes in self._nodes.items():
            place = {"scheduler": name} if self._case.divided else {}
            taint = {"key": "scheduler", "value": name, "effect": "NoSchedule"}
            node = Template(_with(NODE, labels=place, taints=[taint] if place else []))
            for each in nodes:
                self._client.create(node.item(each))
            places = [each for each in nodes for _ in range(SLOTS)]
            self._random.shuffle(places)
            for i, each in enumerate(places[: round(self._case.full * len(places))]):
                pod = f"placed-{name}-{i}"
                running[pod] = each
                self._create(name, pod, each)
        self._client.wait()
        return running

    def _template(self, name: str) -> Template:
        """A Pod for that scheduler."""
        spec: dict[str, Any] = {
            "schedulerName": NAMES[name],
            "nodeName": "$NODE",
            "containers": [
                {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
            ],
        }
        if self._case.divided:
            spec["nodeSelector"] = {"scheduler": name}
            spec["tolerations"] = [{"key": "scheduler", "value": name, "effect": "NoSchedule"}]
        metadata = {"name": "$NAME", "namespace": "default"}
        return Template({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def _create(self, name: str, pod: str, node: str = "") -> None:
        self._client.create(self._templates[name].item(pod, NODE=node))
        self._alive[name].append(pod)

    def _arrive(self, name: str) -> None:
        """Create a Pod for that scheduler; as many run or wait afterwards as from the start."""
        if len(self._kubelets.running) + self._created - self._kubelets.seen >= self._target:
            self._end_one(name)
        self._create(name, f"{name}-{self._created}")
        self._created += 1

    def _wait_placed(self) -> None:
        """Wait until each Pod has had its node, and no status is left to be written."""
        self._client.wait()
        kubelets = self._kubelets

        def placed() -> bool:
            if self._watch.broken:
                raise RuntimeError(f"the watch of Pods broke: {self._watch.broken}")
            self._reject()
            return kubelets.seen == self._created and not kubelets.rejected

        wait_until(placed, LAST_CHANCE, f"a node for each of {self._created} Pods")

    def _end_one(self, name: str) -> None:
        """Delete a random Pod that runs; of the same half of the nodes, where they are divided."""
        alive = self._alive[name if self._case.divided else self._random.choice(list(NAMES))]
        for _ in range(len(alive)):
            place = self._random.randrange(len(alive))
            alive[place], alive[-1] = alive[-1], alive[place]
            if alive[-1] in self._kubelets.running:
                self._client.delete(f"{PODS}/{alive.pop()}")
                return

    def _reject(self) -> None:
        """Write the status of Pods that were not admitted."""
        while self._kubelets.rejected:
            pod = self._kubelets.rejected.pop()
            name = next(n for n, scheduler in NAMES.items() if scheduler == pod.spec.scheduler_name)
            self._counts.rejected[name] += 1
            message = f"{REJECTED}Node didn't have enough resource: cpu"
            status = {"phase": "Failed", "reason": "OutOfcpu", "message": message}
            self._client.merge(f"{PODS}/{pod.metadata.name}/status", {"status": status})

    def _warm_up(self) -> None:
        """Wait until each scheduler has placed a Pod that does not count, one after the other."""
        for name in NAMES:
            self._arrive(name)
            self._wait_placed()


def _with(manifest: dict[str, Any], labels: dict[str, str], taints: list[object]) -> dict[str, Any]:
    metadata = manifest["metadata"]
    labelled = metadata | {"labels": metadata["labels"] | labels}
    return manifest | {"metadata": labelled, "spec": {"taints": taints}}


def main(
    nodes: Annotated[int, typer.Option(min=2)] = 200,
    rate: Annotated[
        list[float] | None, typer.Option(help="Pods a second; may be repeated.")
    ] = None,
    full: Annotated[list[float] | None, typer.Option(help="Share in use; may be repeated.")] = None,
    seconds: Annotated[float, typer.Option(min=1)] = 30.0,
) -> None:
    """Count the Pods that a node rejects because two schedulers chose it."""
    cases = [
        Case(share, pods, divided)
        for share in full or (0.5, 0.95)
        for pods in rate or (20.0, 100.0, 400.0)
        for divided in (False, True)
    ]
    table = Table(title=f"{nodes} nodes of {SLOTS} Pods; {machine()}")
    for title in ("full", "Pods/s", "reached", "nodes", "Pods", "rejected", "for 1,000 Pods"):
        table.add_column(title, justify="right")
    for case in cases:
        with provide(*schedulers.API_SERVER_FLAGS) as cluster:
            contest = Contest(cluster, case, nodes)
            try:
                counts = contest.run(seconds)
            finally:
                contest.close()
        _add(table, case, counts, console.print)
    console.print(table)


def _add(table: Table, case: Case, counts: Counts, say: Callable[[str], None]) -> None:
    created = sum(counts.created.values())
    lost = ", ".join(f"{number} of {name}" for name, number in counts.rejected.items())
    row = (
        f"{case.full:.0%}",
        f"{case.rate:g}",
        f"{created / counts.seconds:.0f}",
        "divided" if case.divided else "shared",
        f"{created:,}",
        lost,
        f"{counts.per_thousand():.1f}",
    )
    table.add_row(*row)
    say(" | ".join(row))


if __name__ == "__main__":
    typer.run(main)
