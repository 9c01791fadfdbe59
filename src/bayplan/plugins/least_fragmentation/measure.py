"""Fragmentation of nodes: the room that typical Pods of a cluster cannot use.

Room is counted in devices: a GPU of which shares are in use counts as what is left of it. For a
typical Pod, a node's room is lost (*stranded*) where the Pod cannot have it::

    all of the room      if the Pod needs no device, may not run on the node, or would find too
                         little CPU or too few devices with enough left
    else                 what is left of devices with less than the Pod needs of each

``stranded`` is the mean over the typical Pods. The measure is that of "Beware of Fragmentation"
(USENIX ATC'23), where it is F(n), with any device in place of GPUs.

A worked example: a node with 2 GPUs left and 8 free CPUs. Of the typical Pods 60 % ask for 1 GPU
and 4 CPUs, 30 % for 1 GPU and 16 CPUs, 10 % for no GPU. The first can have both GPUs, the others
none: 0.6 x 0 + 0.3 x 2 + 0.1 x 2 = 0.8 GPUs are stranded. With a Pod of 1 GPU and 6 CPUs there, 1
GPU and 2 CPUs are left, which nobody can have: 1 x 1 = 1. The Pod strands 0.2 GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import BoolArray, IntArray

FloatArray = npt.NDArray[np.float64]

ROUNDING = 1e-9
"""Sums of shares that differ by less are equal."""


@dataclass(slots=True)
class Room:
    """What is free on ``n`` nodes.

    Attributes:
        cpu: free milli-CPU, ``(n,)``.
        whole: free devices that nobody can share, ``(n,)``.
        shares: what is left of each device that can be shared, 0 to 1, in the order in which they
            are given out; ``(n, k)``, 0 where a node has fewer.
        kind: which row of the tables of shares holds for the node's devices, ``(n,)``.
        runs: whether the Pods of a type may run on the node; ``(n, types)``.
    """

    cpu: IntArray
    whole: FloatArray
    shares: FloatArray
    kind: IntArray
    runs: BoolArray

    def take(self, rows: IntArray) -> Room:
        """The room of these rows; a copy."""
        return Room(
            self.cpu[rows], self.whole[rows], self.shares[rows], self.kind[rows], self.runs[rows]
        )

    def put(self, rows: IntArray, room: Room) -> None:
        """Replace these rows."""
        self.cpu[rows], self.whole[rows], self.runs[rows] = room.cpu, room.whole, room.runs
        self.shares[rows], self.kind[rows] = room.shares, room.kind

    def total(self) -> FloatArray:
        """All that is left, in devices, ``(n,)``."""
        if not self.shares.shape[1]:
            return self.whole
        total: FloatArray = self.whole + self.shares.sum(axis=1)
        return total

    def place(self, cpu: int, count: int, share: FloatArray) -> FloatArray | None:
        """Put a Pod on every node.

        Args:
            cpu: milli-CPU that it asks for.
            count: devices that it asks for: the first ones that have enough left.
            share: what it asks for of each device, by kind.

        Returns:
            How full the devices are that the Pod takes parts of, 0 to 1, NaN where it takes whole
            ones, ``(n,)``; None where it does so everywhere.
        """
        self.cpu -= cpu
        if not count:
            return None
        if not self.shares.shape[1]:
            self.whole = np.maximum(self.whole - count, 0.0)
            return None
        part = share[self.kind]
        fits = self.shares >= part[:, None] - ROUNDING
        taken = fits & (fits.cumsum(axis=1) <= count)
        self.shares -= taken * part[:, None]
        chosen = taken.sum(axis=1)
        self.whole = np.maximum(self.whole - (count - chosen), 0.0)
        if share.min() >= 1.0:
            return None
        left = (self.shares * taken).sum(axis=1) / np.maximum(chosen, 1)
        return np.where((part < 1.0) & (chosen > 0), 1.0 - left, np.nan)


@dataclass(frozen=True, slots=True)
class Types:
    """The typical Pods that ask for devices.

    Attributes:
        weight: how frequent they are among all typical Pods, ``(types,)``; 1 in sum, but for the
            Pods that need no device.
        cpu: milli-CPU, ``(types,)``.
        count: devices, ``(types,)``.
        level: which of the shares each asks of a device, ``(types,)``.
        shares: the different shares by kind of device, ``(kinds, levels)``.
    """

    weight: FloatArray
    cpu: IntArray
    count: IntArray
    level: IntArray
    shares: FloatArray

    def stranded(self, room: Room) -> FloatArray:
        """How many devices of the room are of no use for a typical Pod, ``(n,)``."""
        total = room.total()
        enough_cpu = room.runs & (room.cpu[:, None] >= self.cpu)
        if not room.shares.shape[1]:
            useful = enough_cpu & (total[:, None] >= self.count)
            return total - total * (useful @ self.weight)
        # With the devices in front, sums over them run along whole rows of memory.
        left = room.shares.T[:, :, None]
        small = left < self.shares[room.kind] - ROUNDING
        remains = (small * left).sum(axis=0)
        able = room.whole[:, None] + (len(left) - small.sum(axis=0))
        useful = enough_cpu & (able[:, self.level] >= self.count)
        lost: FloatArray = (
            total - (useful * (total[:, None] - remains[:, self.level])) @ self.weight
        )
        return lost
