"""The arrays that the node table is made of, and columns of values that are stored as codes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

ABSENT = -1
"""The code of no value."""


class CodedColumn:
    """A column of values, stored as codes: ``values[codes[row]]``; -1 where there is none."""

    __slots__ = ("_index", "codes", "values")

    def __init__(self, n: int) -> None:
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

    def take(self, rows: IntArray) -> CodedColumn:
        """The same codes for ``rows`` only; values are shared."""
        column = CodedColumn(0)
        column.codes, column.values, column._index = self.codes[rows], self.values, self._index
        return column
