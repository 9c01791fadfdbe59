"""Traces of GPU clusters: nodes and Pods in the columns of openb, and Pods in order of arrival.

A folder has one list of nodes (``*node_list*.csv``: sn, cpu_milli, memory_mib, gpu, model) and one
or more lists of Pods (``*pod_list_NAME.csv``: name, cpu_milli, memory_mib, num_gpu, gpu_milli of
each GPU, gpu_spec, creation_time, deletion_time, scheduled_time in seconds). openb is the trace of
"Beware of Fragmentation" (USENIX ATC'23), in its simulator's repository.

`synthetic` makes a trace with the same marginals: as many nodes of each kind and Pods of each size
(``packing_marginals.csv``, counted from openb), with names and models dealt out at random.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MARGINALS = Path(__file__).with_name("packing_marginals.csv")
WHOLE = 1000
"""Parts of a GPU."""
DEMAND = 1.3
"""How much of the GPUs the Pods of a run ask for together."""


@dataclass(frozen=True)
class TraceNode:
    """A node; memory in MiB."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True)
class TracePod:
    """A Pod: milli-CPU, MiB, GPUs, thousandths of each, models that will do, seconds of running."""

    name: str
    cpu: int
    memory: int
    gpus: int
    part: int
    models: tuple[str, ...]
    seconds: float

    @property
    def demand(self) -> int:
        """Thousandths of GPUs."""
        return self.gpus * self.part

    @property
    def size(self) -> str:
        """The class that failed Pods are counted by."""
        if not self.gpus:
            return "cpu"
        return "shared" if self.part < WHOLE else f"{self.gpus} GPU"


@dataclass(frozen=True)
class Trace:
    """Nodes, and Pods by the name of their list."""

    nodes: list[TraceNode]
    pods: dict[str, list[TracePod]]

    @property
    def capacity(self) -> int:
        """Thousandths of GPUs."""
        return WHOLE * sum(node.gpus for node in self.nodes)


def read(folder: Path) -> Trace:
    """The trace in ``folder``.

    Raises:
        ValueError: a list is missing, or a row is none; names the file and the row.
    """
    nodes, pods = sorted(folder.glob("*node_list*.csv")), sorted(folder.glob("*pod_list_*.csv"))
    if len(nodes) != 1 or not pods:
        raise ValueError(f"{folder}: needs one *node_list*.csv and at least one *pod_list_*.csv")
    lists = {path.stem.partition("pod_list_")[2]: list(_rows(path, _pod)) for path in pods}
    return Trace(list(_rows(nodes[0], _node)), lists)


def _rows(path: Path, make: Callable[[dict[str, str]], T]) -> Iterator[T]:
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                yield make(row)
            except (KeyError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: {error!r}") from None


def _node(row: dict[str, str]) -> TraceNode:
    cpu, memory, gpus = (int(row[key]) for key in ("cpu_milli", "memory_mib", "gpu"))
    return TraceNode(row["sn"], cpu, memory, gpus, row["model"])


def _pod(row: dict[str, str]) -> TracePod:
    cpu, memory, gpus = (int(row[key]) for key in ("cpu_milli", "memory_mib", "num_gpu"))
    part = int(row["gpu_milli"] or 0) if gpus else 0
    if gpus < 0 or not 0 <= part <= WHOLE or (gpus and not part):
        raise ValueError(f"num_gpu {gpus} with gpu_milli {part}")
    models = tuple(filter(None, (row.get("gpu_spec") or "").split("|"))) if gpus else ()
    began = row.get("scheduled_time") or row.get("creation_time") or 0
    seconds = max(float(row.get("deletion_time") or began) - float(began), 1.0)
    return TracePod(row["name"], cpu, memory, gpus, part, models, seconds)


def synthetic(seed: int) -> Trace:
    """A trace with openb's marginals: lists ``default`` and ``gpuspec33``."""
    dice = random.Random(seed)
    rows: dict[str, list[list[str]]] = {}
    with MARGINALS.open(newline="") as file:
        for kind, count, *values in csv.reader(line for line in file if line[0] != "#"):
            rows.setdefault(kind, []).extend([values] * int(count))
    for some in rows.values():
        dice.shuffle(some)
    nodes = [
        TraceNode(f"node-{i:04}", int(cpu), int(memory), int(gpus), model)
        for i, (cpu, memory, gpus, model) in enumerate(rows["node"])
    ]
    lengths = [float(seconds) for (seconds,) in rows["seconds"]]
    pods = [
        TracePod(
            f"pod-{i:04}", int(cpu), int(memory), int(gpus), int(part), (), dice.choice(lengths)
        )
        for i, (cpu, memory, gpus, part) in enumerate(rows["pod"])
    ]
    models = iter([tuple(filter(None, model.split("|"))) for (model,) in rows["models"]])
    picky = [replace(pod, models=next(models)) if pod.gpus else pod for pod in pods]
    return Trace(nodes, {"default": pods, "gpuspec33": picky})


def whole(pods: Sequence[TracePod]) -> list[TracePod]:
    """The same Pods with whole GPUs, as device plugins give them."""
    return [replace(pod, part=WHOLE) if pod.gpus else pod for pod in pods]


def arrivals(pods: Sequence[TracePod], capacity: int, seed: int) -> Iterator[TracePod]:
    """The Pods shuffled, then copies of some, until the next would ask for too much of the GPUs.

    As in the paper's simulator, that Pod's own demand counts as one GPU's part.
    """
    dice = random.Random(seed)
    order = sorted(pods, key=lambda pod: pod.name)
    dice.shuffle(order)
    yield from order
    total, number = sum(pod.demand for pod in order), 0
    while True:
        pod = dice.choice(order)
        if total + pod.part > DEMAND * capacity:
            return
        total, number = total + pod.demand, number + 1
        yield replace(pod, name=f"{pod.name}-{number}")
