"""Aligning: which zone of a node a kubelet with ``single-numa-node`` would take, for many nodes.

As the topology manager does it, in the order of containers: each takes the lowest zone that has all
it asks for, and what is left there is for the next ones. Init containers run one after the other,
so they leave nothing out, and nor do sidecars.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.plugins.node_resource_topology_match.asking import (
    ON_EVERY_NODE,
    Amounts,
    Asking,
    is_affine,
    is_host_level,
)
from bayplan.plugins.node_resource_topology_match.tables import ZoneTable

Codes = npt.NDArray[np.int8]

FITS, STALE, INIT, SIDECAR, CONTAINER, POD = range(6)
MESSAGES = {
    STALE: "invalid node topology data",
    INIT: "cannot align init container",
    SIDECAR: "cannot align sidecar container",
    CONTAINER: "cannot align container",
    POD: "cannot align pod",
}


@dataclass
class Aligned:
    """How a Pod would stand in the zones of some rows.

    Attributes:
        codes: ``(m,)`` `FITS`, or what cannot be aligned.
        failed: ``(m,)`` which container fails, of `Asking.every`; -1 where none does.
        chosen: the index of the zone of each container, ``(m,)`` each; of the Pod where its scope
            is the Pod.
    """

    codes: Codes
    failed: IntArray
    chosen: list[IntArray]


class Free:
    """What is available in the zones of some rows, and becomes less.

    Attributes:
        rows: ``(m,)`` of the table.
        zones: ``(m, zones)`` the numbers of the zones, -1 where there is none.
    """

    def __init__(self, table: ZoneTable, rows: IntArray, nodes: NodeTable) -> None:
        self.rows, self.zones = rows, table.ids[rows]
        self._table, self._nodes = table, nodes
        self._by_name: dict[str, IntArray] = {}

    def __getitem__(self, resource: str) -> IntArray:
        """``(m, zones)``, negative where a zone does not list it."""
        free = self._by_name.get(resource)
        if free is None:
            # A fancy index copies, so that it may be written.
            free = self._by_name[resource] = self._table.available(resource)[self.rows]
        return free

    def align(self, amounts: Amounts, *, guaranteed: bool) -> tuple[BoolArray, IntArray]:
        """Where one zone has all of ``amounts``, ``(m,)``, and the index of the lowest one."""
        m = len(self.rows)
        fits = np.ones(m, np.bool_)
        suitable = np.ones((m, self._table.width), np.bool_)
        for name, amount in amounts.items():
            if not amount:
                continue
            if name not in ON_EVERY_NODE:
                fits &= self._nodes.allocatable(name)[self.rows] > 0
            free = self[name]
            least = amount if guaranteed or not is_affine(name) else 0
            suits = free >= least
            if is_host_level(name):
                suits = suits | (free < 0).all(axis=1, keepdims=True)
            suitable &= suits
        lowest = suitable.argmax(axis=1)
        fits &= suitable[np.arange(m), lowest]
        return fits, lowest

    def take(
        self, amounts: Amounts, zones: IntArray, where: BoolArray, *, guaranteed: bool
    ) -> None:
        """Take ``amounts`` from the zones of these indexes, in the rows ``where``."""
        at = np.flatnonzero(where)
        for name, amount in amounts.items():
            if amount and (guaranteed or not is_affine(name)):
                free = self[name]
                left = free[at, zones[at]]
                free[at, zones[at]] = np.where(left >= 0, np.maximum(left - amount, 0), left)


def align(asks: Asking, table: ZoneTable, rows: IntArray, nodes: NodeTable) -> Aligned:
    """How the Pod would stand in ``rows``, all with ``single-numa-node``."""
    of_pod = table.pod_scope[rows]
    if of_pod.all():
        return _pod(asks, Free(table, rows, nodes))
    if not of_pod.any():
        return _containers(asks, Free(table, rows, nodes))
    codes, failed = np.zeros(len(rows), np.int8), np.full(len(rows), -1)
    chosen = [np.zeros(len(rows), np.int64) for _ in asks.every]
    for mine, answer in (
        (of_pod, _pod(asks, Free(table, rows[of_pod], nodes))),
        (~of_pod, _containers(asks, Free(table, rows[~of_pod], nodes))),
    ):
        codes[mine], failed[mine] = answer.codes, answer.failed
        for zones, its in zip(chosen, answer.chosen, strict=False):
            zones[mine] = its
    return Aligned(codes, failed, chosen)


def _pod(asks: Asking, free: Free) -> Aligned:
    fits, zones = free.align(asks.pod, guaranteed=asks.guaranteed)
    codes = np.where(fits, FITS, POD).astype(np.int8)
    return Aligned(codes, np.full(len(codes), -1), [zones])


def _containers(asks: Asking, free: Free) -> Aligned:
    codes, failed = np.zeros(len(free.rows), np.int8), np.full(len(free.rows), -1)
    chosen: list[IntArray] = []
    kinds = [SIDECAR if is_sidecar else INIT for is_sidecar, _ in asks.init]
    for index, amounts in enumerate(asks.every):
        fits, zones = free.align(amounts, guaranteed=asks.guaranteed)
        chosen.append(zones)
        fails = ~fits & (codes == FITS)
        codes[fails] = kinds[index] if index < len(kinds) else CONTAINER
        failed[fails] = index
        if index >= len(kinds) and index + 1 < len(asks.every):
            free.take(amounts, zones, codes == FITS, guaranteed=asks.guaranteed)
    return Aligned(codes, failed, chosen)
