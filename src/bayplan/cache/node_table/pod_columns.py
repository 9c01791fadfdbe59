"""The columns that depend on the Pods of a row; each is always equal to a recount.

Dry runs add and remove Pods in many rows, so columns of dictionaries are copy-on-write: they share
the dictionaries with the original table until the first write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Generic, Self, TypeVar

import numpy as np

from bayplan.api.pod import Pod, SpecPart
from bayplan.api.pod_spec import ContainerPort
from bayplan.cache.node_table.column import IntArray, Numbers, NumbersByKey
from bayplan.cache.requests import Requests, pod_requests

HostPort = tuple[str, str, int]
"""(host IP, protocol, port)."""
Held = TypeVar("Held", bound=dict[Any, Any])


class _ByRow(Generic[Held]):
    """A dictionary a row.

    Attributes:
        values: by row; empty where there is no node.
    """

    _make: Callable[[], Held]

    def __init__(
        self, values: Iterable[Held] = (), shared: Iterable[int] = (), *, taken: bool = False
    ) -> None:
        self.values = list(values)
        self._shared = set(shared)
        """Rows whose dictionary belongs to the column that this one was taken from."""
        self._taken = taken

    def own(self, row: int) -> Held:
        """The dictionary of ``row``, to be written."""
        if row in self._shared:
            self._shared.remove(row)
            self.values[row] = copy(self.values[row])
        return self.values[row]

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        self.values += [self._make() for _ in range(n - len(self.values))]

    def clear(self, row: int) -> None:
        """See `Column.clear`: removing the Pods has already reset the row."""

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`."""
        values = [self.values[row] for row in rows.tolist()]
        return type(self)(values, range(len(rows)), taken=True)

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `PodColumn.count`."""
        raise NotImplementedError

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `PodColumn.count_all`."""
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def _wrong(self, other: Self) -> int:
        return sum(mine != its for mine, its in zip(self.values, other.values, strict=True))


class PodObjects(_ByRow[dict[str, Pod]]):
    """The Pods of each row, by uid."""

    _make = dict

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `PodColumn.count`."""
        pods = self.own(row) if self._shared else self.values[row]
        if sign > 0:
            pods[pod.uid] = pod
        else:
            del pods[pod.uid]

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `PodColumn.count_all`."""
        for row, pod in zip(rows, pods, strict=True):
            of_row = self.own(row) if row in self._shared else self.values[row]
            if sign > 0:
                of_row[pod.uid] = pod
            else:
                del of_row[pod.uid]

    def differences(self, other: Self) -> dict[str, int]:
        """See `PodColumn.differences`."""
        return {"pods": self._wrong(other)}


class HostPorts(_ByRow[Counter[HostPort]]):
    """How many Pods of each row take a host port.

    Where Pods share a port that they should not, kube-scheduler frees it with the first of them. A
    dry run has to find the victims that it would, so a column that was taken does likewise.
    """

    _make = Counter

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `PodColumn.count`."""
        ports = pod.shape.constraints.memo(host_ports)
        if not ports:
            return
        in_use = self.own(row)
        for port in ports:
            in_use[port] += sign
            if not in_use[port] or (sign < 0 and self._taken):
                del in_use[port]

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `PodColumn.count_all`; few Pods have host ports."""
        for row, pod in zip(rows, pods, strict=True):
            if pod.shape.constraints.memo(host_ports):
                self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `PodColumn.differences`."""
        return {"host_ports": self._wrong(other)}


class Requested(NumbersByKey):
    """What the Pods of each row request in sum: milli-CPU, bytes or counts by resource.

    Attributes:
        pods: how many Pods there are.
        nonzero_cpu: milli-CPU, with defaults for containers that request none.
        nonzero_memory: bytes, likewise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pods = Numbers(np.int64)
        self.nonzero_cpu = Numbers(np.int64)
        self.nonzero_memory = Numbers(np.int64)

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        super().grow(n)
        for numbers in (self.pods, self.nonzero_cpu, self.nonzero_memory):
            numbers.grow(n)

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`."""
        copy = super().take(rows)
        copy.pods = self.pods.take(rows)
        copy.nonzero_cpu = self.nonzero_cpu.take(rows)
        copy.nonzero_memory = self.nonzero_memory.take(rows)
        return copy

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `PodColumn.count`."""
        requests = pod_requests(pod)
        for resource, amount in requests.amounts.items():
            if amount:
                numbers = self._by_key.get(resource)
                if numbers is None:
                    numbers = self[resource]
                numbers[row] += sign * amount
        self.nonzero_cpu.values[row] += sign * requests.nonzero_cpu
        self.nonzero_memory.values[row] += sign * requests.nonzero_memory
        self.pods.values[row] += sign

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `PodColumn.count_all`; Pods that request the same are counted in one go."""
        alike: dict[int, tuple[Requests, list[int]]] = {}
        for row, pod in zip(rows, pods, strict=True):
            requests = pod_requests(pod)
            known = alike.get(id(requests))
            if known is None:
                known = alike[id(requests)] = requests, []
            known[1].append(row)
        for requests, of_rows in alike.values():
            index = np.array(of_rows)
            for resource, amount in requests.amounts.items():
                if amount:
                    np.add.at(self[resource], index, sign * amount)
            np.add.at(self.nonzero_cpu.values, index, sign * requests.nonzero_cpu)
            np.add.at(self.nonzero_memory.values, index, sign * requests.nonzero_memory)
            np.add.at(self.pods.values, index, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `PodColumn.differences`."""
        pairs = {
            "pod_count": (self.pods.values, other.pods.values),
            "nonzero_cpu": (self.nonzero_cpu.values, other.nonzero_cpu.values),
            "nonzero_memory": (self.nonzero_memory.values, other.nonzero_memory.values),
        }
        pairs |= {resource: (self[resource], other[resource]) for resource in self.keys()}
        return {name: int((mine != its).sum()) for name, (mine, its) in pairs.items()}


def host_ports(constraints: SpecPart) -> tuple[HostPort, ...]:
    """The host ports of a Pod's containers and sidecars, as (IP, protocol, port)."""
    sidecars = [c for c in constraints.spec.init_containers if c.restart_policy == "Always"]
    return tuple(
        _host_port(port)
        for container in (*constraints.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


def _host_port(port: ContainerPort) -> HostPort:
    return (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104
