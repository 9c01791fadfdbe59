"""CycleState: the data of plugins between the extension points of one Pod's cycle."""

from __future__ import annotations

from typing import Any

import numpy as np


class MissingStateError(LookupError):
    """A plugin asks for notes that were never made: its earlier extension point did not run."""


class CycleState:
    """A plugin's notes on one scheduling cycle, keyed by what the plugin chooses (its name).

    For preemption and nominated Pods the framework asks "what if Pods were added or removed"; it
    then works on `what_if` copies. A value with a method ``what_if(rows)`` gives the copy that its
    plugin's ``add_pod`` and ``remove_pod`` may change; any other value is shared and must not be
    changed by them.

    Attributes:
        dry_run: whether the attempt only answers a question: then no plugin may act, as preemption
            does, and nothing is counted or remembered for the next Pod.
    """

    __slots__ = ("_data", "dry_run", "skip_filter", "skip_pre_bind", "skip_score", "unconcerned")

    def __init__(self, *, dry_run: bool = False) -> None:
        self._data: dict[str, Any] = {}
        self.dry_run = dry_run
        self.skip_filter: set[str] = set()
        """Names of plugins whose PreFilter returned Skip."""
        self.skip_score: set[str] = set()
        """Names of plugins whose PreScore returned Skip."""
        self.skip_pre_bind: set[str] = set()
        """Names of plugins whose PreBindPreFlight returned Skip."""
        self.unconcerned: frozenset[str] = frozenset()
        """Names of plugins that have nothing to do with Pods of this spec."""

    def read(self, key: str) -> Any:
        """What was written under ``key``; raises MissingStateError when nothing was."""
        try:
            return self._data[key]
        except KeyError:
            raise MissingStateError(f'error reading "{key}" from cycleState: not found') from None

    def get(self, key: str, default: Any = None) -> Any:
        """What was written under ``key``, or ``default``."""
        return self._data.get(key, default)

    def write(self, key: str, value: Any) -> None:
        """Remember ``value`` for the rest of this cycle."""
        self._data[key] = value

    def adopt(self, other: CycleState) -> None:
        """Take over everything that ``other`` holds; values are shared."""
        self._data.update(other._data)
        self.skip_filter |= other.skip_filter
        self.skip_score |= other.skip_score
        self.unconcerned |= other.unconcerned

    def clone(self) -> CycleState:
        """A copy that may be written to without touching this one; values are shared."""
        copy = CycleState(dry_run=self.dry_run)
        copy.adopt(self)
        return copy

    def what_if(self, rows: np.ndarray) -> CycleState:
        """A copy for a table of only ``rows`` (row numbers of the full table, int64)."""
        copy = self.clone()
        for key, value in self._data.items():
            if hasattr(value, "what_if"):
                copy.write(key, value.what_if(rows))
        return copy
