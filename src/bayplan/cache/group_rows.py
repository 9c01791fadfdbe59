"""GroupRows: on which rows the Pods of each group are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray
from bayplan.cache.pod_groups import group_key


class GroupRows:
    """A column that the plugin which places groups adds to the node table."""

    def __init__(self) -> None:
        self._by_key: dict[str, Counter[int]] = {}

    def of(self, key: str) -> list[int]:
        """The row of each Pod of the group ``key`` that has one."""
        return list(self._by_key.get(key, Counter[int]()).elements())

    def grow(self, n: int) -> None:
        """See `Column.grow`: only rows with Pods of groups are kept."""

    def clear(self, row: int) -> None:
        """See `Column.clear`: its Pods are gone already."""

    def take(self, _rows: IntArray) -> Self:
        """See `Column.take`; empty, as nothing asks a what-if table where a group is."""
        return type(self)()

    def count(self, row: int, pod: Pod, sign: int) -> None:
        """See `PodColumn.count`."""
        key = group_key(pod)
        if not key:
            return
        rows = self._by_key.get(key)
        if rows is None:
            rows = self._by_key[key] = Counter()
        rows[row] += sign
        if not rows[row]:
            del rows[row]
            if not rows:
                del self._by_key[key]

    def count_all(self, rows: Sequence[int], pods: Sequence[Pod], sign: int) -> None:
        """See `PodColumn.count_all`."""
        for row, pod in zip(rows, pods, strict=True):
            self.count(row, pod, sign)

    def differences(self, other: Self) -> dict[str, int]:
        """See `PodColumn.differences`."""
        keys = self._by_key.keys() | other._by_key.keys()
        return {"group_rows": sum(self._by_key.get(k) != other._by_key.get(k) for k in keys)}
