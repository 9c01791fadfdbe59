"""`python -m bench.fairness`: how close tenants come to what they are entitled to, as figures.

    python -m bench.fairness --minutes 20 --seeds 10

A simulation with the scheduler's own code and a clock that is turned on. Each tenant always wants
two thirds of the cluster, so all together want more than there is. Pods run for some minutes and
end; what is evicted comes back. After a third of the time the last tenant arrives. There are two
scenes: three tenants with weights 1:2:3 and Pods of 1, 2 and 4 devices, and seven equal tenants
with Pods of 1 to 8 devices, so some need a whole node.

Printed are, for each tenant, how far what it uses is from its share (mean and worst, in percent of
the cluster, from the moment when it has had its share for the first time), how long that took, and
for each scene how many Pods were evicted per GPU-hour that was used. A tenant that never had its
share says so, and counts from its arrival. Each seed prints a line as soon as it has ended, and the
figures of a scene are over all seeds. ``PYTHONPATH`` of another
revision has that code measured; it needs no more of it than `bayplan.testing` and the report of
queues.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from bayplan.api.kinds import QUEUE
from bayplan.cache.queue_tree import report
from bayplan.inbox.messages import Changed
from bayplan.testing import Cluster, PodBuilder, make_node, make_object, make_pod

GPU = "nvidia.com/gpu"
NODES, GPUS = 25, 8
STEP = 5.0
"""Seconds between two looks."""
RUNTIMES = 60.0, 600.0

console = Console()


class Scene(NamedTuple):
    """Tenants by weight, the last one comes late; the sizes of Pods; who has its share.

    ``near`` is a part of the cluster: who is nearer to its share has it.
    """

    name: str
    weights: Sequence[int]
    sizes: Sequence[int]
    near: float


SCENES = (
    Scene("three tenants, Pods of 1, 2 and 4", (1, 2, 3), (1, 1, 1, 2, 4), 0.01),
    Scene("seven tenants, Pods of 1 to 8", (1,) * 7, (1, 1, 2, 3, 4, 5, 8), 0.02),
)


@dataclass
class Tenant:
    """What became of a tenant.

    Attributes:
        waited: seconds from its arrival until it had its share; None before that.
        deviations: from its share since then, as parts of the cluster; until then since its
            arrival.
    """

    name: str
    weight: int
    arrived: float = 0.0
    waited: float | None = None
    deviations: list[float] = field(default_factory=list)


class Simulation:
    """Tenants on a cluster whose time is simulated."""

    def __init__(self, scene: Scene, seed: int) -> None:
        profile = {"multiPoint": {"enabled": [{"name": "FairShare"}]}}
        profile["postFilter"] = profile["podGroupPostFilter"] = profile["multiPoint"]
        self.cluster = Cluster(
            config={"profiles": [{"schedulerName": "bayplan", "plugins": profile}]}
        )
        self.scene = scene
        self.random = random.Random(seed)
        self.tenants: dict[str, Tenant] = {}
        self.ends: dict[str, float] = {}
        self.pods: dict[str, PodBuilder] = {}
        self.numbers = count(1)
        self.evicted = 0
        self.hours = 0.0
        for number in range(NODES):
            amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
            self.cluster.add(make_node(f"n{number}").capacity(**amounts))

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return self.cluster.clock.time

    def arrive(self, weight: int) -> None:
        """A tenant has a Queue, and Pods from now on."""
        name = f"t{len(self.tenants)}"
        selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
        queue = make_object(QUEUE, name).spec(weight=weight, namespaceSelector=selector)
        self.cluster.tell(Changed(QUEUE, queue.new_version().obj()))
        self.tenants[name] = Tenant(name, weight, self.now)

    def step(self) -> None:
        """Some seconds pass."""
        self._end_pods()
        for name in self.tenants:
            self._ask(name)
        self.cluster.run()
        self.cluster.wait(STEP)
        self.cluster.run()
        self._take_back_evicted()
        self._measure()

    def _end_pods(self) -> None:
        for name in [name for name, end in self.ends.items() if end <= self.now]:
            self.cluster.remove(self.pods.pop(name))
            del self.ends[name]

    def _reports(self) -> Iterable[Any]:
        read = vars(report).get("reports") or vars(report)["states"]  # older revisions call it so
        return [one for one in read(self.cluster.world.queues, self.now) if GPU in one.amounts]

    def _ask(self, tenant: str) -> None:
        """Pods, until what it uses and waits for is two thirds of the cluster."""
        asked = sum(one.amounts[GPU].demand for one in self._reports() if one.name == tenant)
        while asked < NODES * GPUS * 2 // 3:
            size = self.random.choice(self.scene.sizes)
            name = f"{tenant}-{next(self.numbers)}"
            builder = make_pod(name).namespace(tenant).req(cpu=str(size), **{GPU: str(size)})
            self.pods[name] = builder
            self.cluster.add(builder)
            asked += size

    def _take_back_evicted(self) -> None:
        deleted = self.cluster.writer.deleted
        self.evicted += len(deleted)
        for name in deleted:
            self.pods.pop(name, None)
            self.ends.pop(name, None)
        deleted.clear()
        for name, pod in self.pods.items():
            if name not in self.ends and self.cluster.node_of(pod):
                self.ends[name] = self.now + self.random.uniform(*RUNTIMES)

    def _measure(self) -> None:
        whole = NODES * GPUS
        for state in self._reports():
            tenant, amounts = self.tenants[state.name], state.amounts[GPU]
            deviation = abs(amounts.used - amounts.share) / whole
            self.hours += amounts.used * STEP / 3600
            if tenant.waited is None and deviation <= self.scene.near:
                tenant.waited = self.now - tenant.arrived
                tenant.deviations.clear()
            tenant.deviations.append(deviation)


def main(
    minutes: Annotated[float, typer.Option(help="Simulated minutes.")] = 20,
    seed: Annotated[int, typer.Option(help="The first one, of arrivals and runtimes.")] = 1,
    seeds: Annotated[int, typer.Option(help="How many, one after the other.", min=1)] = 1,
) -> None:
    """Simulate, and print the figures."""
    done: dict[str, list[Simulation]] = {scene.name: [] for scene in SCENES}
    for one in range(seed, seed + seeds):
        for scene in SCENES:
            done[scene.name].append(_simulated(scene, minutes, one))
            console.print(f"seed {one}, {scene.name}: {_summary(done[scene.name][-1:])}")
    for scene in SCENES:
        _print(scene, done[scene.name])


def _simulated(scene: Scene, minutes: float, seed: int) -> Simulation:
    simulation = Simulation(scene, seed)
    began, is_late = simulation.now, False
    for weight in scene.weights[:-1]:
        simulation.arrive(weight)
    while (passed := simulation.now - began) < minutes * 60:
        if not is_late and passed >= minutes * 20:
            simulation.arrive(scene.weights[-1])
            is_late = True
        simulation.step()
    return simulation


def _print(scene: Scene, simulations: Sequence[Simulation]) -> None:
    near = f"within {scene.near:.0%} after: mean, worst"
    table = Table("tenant", "weight", near, "mean deviation", "worst", box=None)
    for runs in zip(*(one.tenants.values() for one in simulations), strict=True):
        deviations = np.concatenate([tenant.deviations for tenant in runs])
        mean, worst = f"{deviations.mean():.1%}", f"{deviations.max():.1%}"
        table.add_row(runs[0].name, str(runs[0].weight), _waited(runs), mean, worst)
    console.print(f"{scene.name}; {len(simulations)} seeds")
    console.print(table)
    console.print(f"all: {_summary(simulations)}\n")


def _waited(runs: Sequence[Tenant]) -> str:
    """Mean and worst of those that had their share, and how many never had."""
    waited = [tenant.waited for tenant in runs if tenant.waited is not None]
    texts = [f"{np.mean(waited):.0f} s, {max(waited):.0f} s"] if waited else []
    if never := len(runs) - len(waited):
        texts.append(f"never in {never} of {len(runs)}")
    return "; ".join(texts)


def _summary(simulations: Sequence[Simulation]) -> str:
    tenants = [list(one.tenants.values()) for one in simulations]
    every = np.concatenate([tenant.deviations for some in tenants for tenant in some])
    evicted = sum(one.evicted for one in simulations)
    hours = sum(one.hours for one in simulations)
    return (
        f"{every.mean():.1%} mean, {every.max():.1%} worst; last tenant: "
        f"{_waited([some[-1] for some in tenants])}; {evicted} Pods evicted "
        f"in {hours:.0f} GPU-hours: {evicted / hours:.2f} an hour"
    )


if __name__ == "__main__":
    typer.run(main)
