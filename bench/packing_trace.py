"""Traces of GPU clusters: nodes and Pods in the columns of openb, and Pods in order of arrival.

A folder has one list of nodes (``*node_list*.csv``: sn, cpu_milli, memory_mib, gpu, model) and one
or more lists of Pods (``*pod_list_NAME.csv``: name, cpu_milli, memory_mib, num_gpu, gpu_milli of
each GPU; and if there are any gpu_spec, creation_time, deletion_time, scheduled_time in seconds).
Other columns are not read. Nodes may have any number of GPUs, also none, of any model. Fractions of
a thousandth are rounded: up for what Pods ask for, down for what nodes have. openb is the trace of
"Beware of Fragmentation" (USENIX ATC'23), in its simulator's repository.

`synthetic` makes a trace with the same marginals: as many nodes of each kind and Pods of each size
(``packing_marginals.csv``, counted from openb), with names and models dealt out at random.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TypeVar

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


class TraceError(ValueError):
    """What a trace says is no trace; names file, line and column."""


def read(folder: Path) -> Trace:
    """The trace in ``folder``.

    Raises:
        TraceError: a list or a column is missing, or a value cannot be.
    """
    nodes, pods = sorted(folder.glob("*node_list*.csv")), sorted(folder.glob("*pod_list_*.csv"))
    if len(nodes) != 1 or not pods:
        raise TraceError(f"{folder}: needs one *node_list*.csv and at least one *pod_list_*.csv")
    trace = Trace(
        _rows(nodes[0], "sn", _NODE_COLUMNS, _node),
        {
            path.stem.partition("pod_list_")[2]: _rows(path, "name", _POD_COLUMNS, _pod)
            for path in pods
        },
    )
    if not trace.capacity:
        raise TraceError(f"{nodes[0]}, column gpu: no node has a GPU")
    for path, listed in zip(pods, trace.pods.values(), strict=True):
        if not any(pod.gpus for pod in listed):
            raise TraceError(f"{path}, column num_gpu: no Pod asks for a GPU")
    return trace


_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


class _Row:
    """One line of a list."""

    def __init__(self, where: str, values: dict[str, str | None]) -> None:
        self._where, self._values = where, values

    def text(self, column: str) -> str:
        """What a column says; "" for nothing."""
        return (self._values.get(column) or "").strip()

    def name(self, column: str) -> str:
        """The same, and not nothing."""
        return self.text(column) or self._refuse(column, "there is no name")

    def number(self, column: str, absent: float | None = None) -> float:
        """A number of at least 0; ``absent`` where there is none, which else is an error."""
        text = self.text(column)
        if not text and absent is not None:
            return absent
        try:
            number = float(text)
        except ValueError:
            self._refuse(column, f'"{text}" is no number')
        if not 0 <= number < math.inf:
            self._refuse(column, f"{text} is not a number of at least 0")
        return number

    def count(self, column: str) -> int:
        """A whole number."""
        number = self.number(column)
        if number != int(number):
            self._refuse(column, f"{self.text(column)} is not whole")
        return int(number)

    def part(self, column: str) -> int:
        """Thousandths of a GPU, more than 0; a fraction of one counts as one."""
        part = math.ceil(self.number(column))
        if not 0 < part <= WHOLE:
            self._refuse(column, f"{self.text(column)} is not in 1 to {WHOLE}")
        return part

    def _refuse(self, column: str, why: str) -> NoReturn:
        raise TraceError(f"{self._where}, column {column}: {why}")


def _rows(path: Path, name: str, columns: Sequence[str], make: Callable[[_Row], T]) -> list[T]:
    """What a list has, a line each; the values of the column ``name`` are unique."""
    made: list[T] = []
    seen: dict[str, int] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.DictReader(file)
        there = lines.fieldnames or ()
        if missing := [column for column in columns if column not in there]:
            raise TraceError(f"{path}, line 1: there is no column {missing[0]}")
        try:
            for values in lines:
                where = f"{path}, line {lines.line_num}"
                if None in values:
                    raise TraceError(f"{where}: there are more values than columns")
                row = _Row(where, values)
                if (first := seen.setdefault(row.name(name), lines.line_num)) != lines.line_num:
                    text = f"{row.name(name)} is in line {first} as well"
                    raise TraceError(f"{where}, column {name}: {text}")
                made.append(make(row))
        except (csv.Error, UnicodeDecodeError) as error:
            raise TraceError(f"{path}, line {lines.line_num + 1}: {error}") from None
    if not made:
        raise TraceError(f"{path}: there is nothing in it")
    return made


def _node(row: _Row) -> TraceNode:
    return TraceNode(
        row.name("sn"),
        int(row.number("cpu_milli")),
        int(row.number("memory_mib")),
        row.count("gpu"),
        row.text("model"),
    )


def _pod(row: _Row) -> TracePod:
    gpus = row.count("num_gpu")
    began = row.number("scheduled_time", row.number("creation_time", 0.0))
    return TracePod(
        row.name("name"),
        math.ceil(row.number("cpu_milli")),
        math.ceil(row.number("memory_mib")),
        gpus,
        row.part("gpu_milli") if gpus else 0,
        tuple(filter(None, row.text("gpu_spec").split("|"))) if gpus else (),
        max(row.number("deletion_time", began) - began, 1.0),
    )


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
