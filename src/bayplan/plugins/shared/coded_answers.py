"""CodedAnswers: a question about a column's values, asked once per distinct value.

Nodes have few distinct taint sets, zones or feature sets. So Filter and Score plugins judge each
value once and then look the answer of every row up by the row's code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.cache.node_table import CodedColumn


class CodedAnswers:
    """The answers to ``ask(value)`` for the values of one column of one table at a time.

    Meant to be kept (per Pod shape, per selector): a later call asks only about new values.

    Args:
        ask: the question; a function of the value alone.
        absent: the answer for rows without a value.
        dtype: of the answers.
    """

    __slots__ = ("_absent", "_answers", "_ask", "_known", "_values")

    def __init__(
        self, ask: Callable[[Any], Any], absent: Any, dtype: npt.DTypeLike = np.bool_
    ) -> None:
        self._ask = ask
        self._absent = np.array([absent], dtype)
        self._values: list[Any] | None = None
        self._known = 0
        self._answers: npt.NDArray[Any] = self._absent

    def of(self, column: CodedColumn) -> npt.NDArray[Any]:
        """The answer for every row of ``column``, ``(n,)``, a fresh array."""
        values = column.values
        if values is not self._values or len(values) != self._known:
            self._extend(values)
        return self._answers[column.codes]

    def _extend(self, values: list[Any]) -> None:
        if values is not self._values:
            self._answers, self._known = self._absent, 0
        new = [self._ask(value) for value in values[self._known :]]
        # The answer for absent values stands last: that is where their code, -1, points.
        previous = self._answers[:-1]
        self._answers = np.concatenate([previous, np.array(new, previous.dtype), self._absent])
        self._values, self._known = values, len(values)
