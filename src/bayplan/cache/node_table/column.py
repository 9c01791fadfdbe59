"""Columns: one property of every row of a node table each.

A `Column` follows the rows of its table: it grows with it, clears the row of a removed node, and
copies some rows for a what-if table. A `NodeColumn` is written when a node is added or changes, a
`PodColumn` when Pods do; other columns are written by their owner. A plugin adds its own column
with `LiveNodeTable.ensure_column` and reads it, in what-if tables too, with `NodeTable.column`::

    class Devices(NumbersByKey): ...

    devices = handle.nodes.ensure_column(Devices)    # once, of the live table
    nodes.column(Devices)["example.com/gpu"]         # in filter_nodes, of any table

`Numbers`, `NumbersByKey` and `CodedColumn` are the building blocks of columns.
"""

from __future__ import annotations

from collections.abc import Hashable, KeysView, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.api.pod import Pod

IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)

ABSENT = -1
"""The code of no value."""


class Column(Protocol):
    """One property of every row. A new column has no rows; the table grows the column."""

    def grow(self, n: int) -> None:
        """The table has ``n`` rows now; the new ones have no node."""

    def clear(self, row: int) -> None:
        """The node of ``row`` is gone, after all its Pods."""

    def take(self, rows: IntArray) -> Self:
        """A column with these rows, in this order; both columns may then change independently.

        This one holds still as long as the other is used, so what is taken may be copied lazily.
        """


@runtime_checkable
class NodeColumn(Column, Protocol):
    """A column that the node object decides."""

    def set_node(self, row: int, node: Node, previous: Node | None) -> None:
        """``node`` is new on ``row`` or has changed; ``previous`` is what it replaces there."""


@runtime_checkable
class PodColumn(Column, Protocol):
    """A column that the Pods of a row decide."""

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """``pod`` counts on ``row`` from now on (``sign`` 1), or no longer does (-1)."""

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """`count` of ``pods[i]`` on ``rows[i]``, for all i."""

    def differences(self, other: Self) -> dict[str, int]:
        """How many rows differ from ``other``, by kind of fact; used to prove a recount."""


class Columns(dict[type[Any], Any]):
    """The columns of a table, by class.

    Attributes:
        pod_kinds: the classes of those that Pods decide.
    """

    def __init__(self, pod_kinds: list[type[Any]]) -> None:
        super().__init__()
        self.pod_kinds = pod_kinds


class Numbers(Generic[Number]):
    """One number a row, or an array of numbers of the shape ``each``.

    Attributes:
        values: ``(n, *each)``; 0 or False where there is no node.
    """

    __slots__ = ("values",)

    def __init__(self, dtype: type[Number], *each: int) -> None:
        self.values: npt.NDArray[Number] = np.zeros((0, *each), dtype)

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        more = np.zeros((n - len(self.values), *self.values.shape[1:]), self.values.dtype)
        self.values = np.concatenate([self.values, more])

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        self.values[row] = 0

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`."""
        copy = object.__new__(type(self))
        copy.values = self.values[rows]
        return copy


class NumbersByKey:
    """One number a row for every key (a resource, a driver); a key costs nothing until it is used.

    Rows and keys that were never written have the value ``fill``. Growing replaces the arrays, so
    do not keep a reference to an array across changes of the table.
    """

    def __init__(self, fill: int = 0) -> None:
        self._fill = fill
        self._n = 0
        self._by_key: dict[str, IntArray] = {}
        self._source: NumbersByKey | None = None
        self._picked: IntArray | None = None

    def __getitem__(self, key: str) -> IntArray:
        """The numbers of ``key``, ``(n,)``."""
        numbers = self._by_key.get(key)
        if numbers is None:
            numbers = self._by_key[key] = self._make(key)
        return numbers

    def _make(self, key: str) -> IntArray:
        if self._source is None:
            return np.full(self._n, self._fill, np.int64)
        return self._source[key][self._picked]

    def keys(self) -> KeysView[str]:
        """The keys that were used."""
        if self._source is None:
            return self._by_key.keys()
        return dict.fromkeys([*self._source.keys(), *self._by_key]).keys()

    def row(self, row: int) -> tuple[int, ...]:
        """All numbers of one row, in the order of `keys`; not of a column that was taken."""
        return tuple([numbers.item(row) for numbers in self._by_key.values()])

    def arrays(self) -> list[IntArray]:
        """The numbers of all keys, likewise."""
        return list(self._by_key.values())

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        more = np.full(n - self._n, self._fill, np.int64)
        self._n = n
        for key, numbers in self._by_key.items():
            self._by_key[key] = np.concatenate([numbers, more])

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        for numbers in self._by_key.values():
            numbers[row] = self._fill

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`; a key is copied when it is first read."""
        copy = object.__new__(type(self))
        copy._fill, copy._n, copy._by_key = self._fill, len(rows), {}
        copy._source, copy._picked = self, rows
        return copy


class CodedColumn:
    """A column of values, stored as codes: ``values[codes[row]]``; -1 where there is none."""

    __slots__ = ("_index", "codes", "values")

    def __init__(self, n: int = 0) -> None:
        self.codes: CodeArray = np.full(n, ABSENT, np.int32)
        self.values: list[Any] = []
        self._index: dict[Hashable, int] = {}

    def code(self, value: Any, key: Hashable | None = None) -> int:
        """The code of ``value``, a new one if need be; ``key`` where the value is unhashable."""
        key = value if key is None else key
        code = self._index.get(key)
        if code is None:
            code = self._index[key] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: Hashable) -> int:
        """The code of ``value``, or -1 when no row ever had it."""
        return self._index.get(value, ABSENT)

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        more = np.full(n - len(self.codes), ABSENT, np.int32)
        self.codes = np.concatenate([self.codes, more])

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        self.codes[row] = ABSENT

    def take(self, rows: IntArray) -> Self:
        """The same codes for ``rows`` only; values are shared."""
        copy = object.__new__(type(self))
        copy.codes, copy.values, copy._index = self.codes[rows], self.values, self._index
        return copy
