"""`make fairness`: how close tenants come to what they are entitled to, as figures.

    python -m bench.fairness --minutes 20

A simulation with the scheduler's own code and a clock that is turned on: three tenants with
weights 1:2:3, each of which always wants two thirds of the cluster, so twice of it together. Pods
run for some minutes and end; what is evicted comes back. After a third of the time the third tenant
arrives. Printed are, for each tenant, how far what it uses is from its share (mean and worst, in
percent of the cluster, from the moment when it has had its share for the first time), how long that
took, and how many Pods were evicted per GPU-hour that was used.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from bayplan.api.kinds import QUEUE
from bayplan.cache.queue_tree.report import reports
from bayplan.inbox.messages import Changed
from bayplan.testing import Cluster, PodBuilder, make_node, make_object, make_pod

GPU = "nvidia.com/gpu"
WEIGHTS = {"one": 1, "two": 2, "three": 3}
LATE = "three"
NODES, GPUS = 25, 8
STEP = 5.0
"""Seconds between two looks."""
RUNTIMES = 60.0, 600.0
SIZES = (1, 1, 1, 2, 4)
NEAR = 0.01
"""Of the cluster: who is nearer to its share has it."""

console = Console()


@dataclass
class Tenant:
    """What became of a tenant.

    Attributes:
        waited: seconds from its arrival until it had its share; None before that.
        deviations: from its share since then, as parts of the cluster.
    """

    name: str
    arrived: float = 0.0
    waited: float | None = None
    deviations: list[float] = field(default_factory=list)


class Simulation:
    """Tenants on a cluster whose time is simulated."""

    def __init__(self, seed: int) -> None:
        profile = {"multiPoint": {"enabled": [{"name": "FairShare"}]}}
        profile["postFilter"] = profile["podGroupPostFilter"] = profile["multiPoint"]
        self.cluster = Cluster(
            config={"profiles": [{"schedulerName": "bayplan", "plugins": profile}]}
        )
        self.random = random.Random(seed)
        self.tenants: dict[str, Tenant] = {}
        self.ends: dict[str, float] = {}
        self.pods: dict[str, PodBuilder] = {}
        self.made = 0
        self.evicted = 0
        self.hours = 0.0
        for number in range(NODES):
            amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
            self.cluster.add(make_node(f"n{number}").capacity(**amounts))

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return self.cluster.clock.time

    def arrive(self, name: str) -> None:
        """The tenant has a Queue, and Pods from now on."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
        queue = make_object(QUEUE, name).spec(weight=WEIGHTS[name], namespaceSelector=selector)
        self.cluster.tell(Changed(QUEUE, queue.new_version().obj()))
        self.tenants[name] = Tenant(name, self.now)

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

    def _ask(self, tenant: str) -> None:
        """Pods, until what it uses and waits for is two thirds of the cluster."""
        (state,) = (s for s in reports(self.cluster.world.queues, self.now) if s.name == tenant)
        asked = state.amounts[GPU].demand if GPU in state.amounts else 0
        while asked < NODES * GPUS * 2 // 3:
            size = self.random.choice(SIZES)
            self._make(tenant, size)
            asked += size

    def _make(self, tenant: str, size: int) -> None:
        self.made += 1
        builder = make_pod(f"{tenant}-{self.made}").namespace(tenant)
        builder.req(cpu=str(size), **{GPU: str(size)})
        self.pods[f"{tenant}-{self.made}"] = builder
        self.cluster.add(builder)

    def _take_back_evicted(self) -> None:
        deleted = self.cluster.writer.deleted
        self.evicted += len(deleted)
        for name in deleted:
            self.pods.pop(name, None)
            self.ends.pop(name, None)
        deleted.clear()
        for name in self.pods.keys() - self.ends.keys():
            if self.cluster.node_of(self.pods[name]):
                self.ends[name] = self.now + self.random.uniform(*RUNTIMES)

    def _measure(self) -> None:
        whole = NODES * GPUS
        for state in reports(self.cluster.world.queues, self.now):
            tenant, amounts = self.tenants[state.name], state.amounts[GPU]
            deviation = abs(amounts.used - amounts.share) / whole
            self.hours += amounts.used * STEP / 3600
            if tenant.waited is None and deviation <= NEAR:
                tenant.waited = self.now - tenant.arrived
            if tenant.waited is not None:
                tenant.deviations.append(deviation)


def main(
    minutes: Annotated[float, typer.Option(help="Simulated minutes.")] = 20,
    seed: Annotated[int, typer.Option(help="Of arrivals and runtimes.")] = 1,
) -> None:
    """Simulate, and print the figures."""
    simulation = Simulation(seed)
    began = simulation.now
    for name in WEIGHTS:
        if name != LATE:
            simulation.arrive(name)
    while (passed := simulation.now - began) < minutes * 60:
        if LATE not in simulation.tenants and passed >= minutes * 20:
            simulation.arrive(LATE)
        simulation.step()
    table = Table("tenant", "weight", "has its share after", "mean deviation", "worst", box=None)
    for tenant in simulation.tenants.values():
        deviations = np.array(tenant.deviations or [np.nan])
        waited = "never" if tenant.waited is None else f"{tenant.waited:.0f} s"
        mean, worst = f"{deviations.mean():.1%}", f"{deviations.max():.1%}"
        table.add_row(tenant.name, str(WEIGHTS[tenant.name]), waited, mean, worst)
    console.print(table)
    rate = simulation.evicted / simulation.hours
    console.print(
        f"{simulation.evicted} Pods evicted in {simulation.hours:.0f} GPU-hours: {rate:.2f} an hour"
    )


if __name__ == "__main__":
    typer.run(main)
