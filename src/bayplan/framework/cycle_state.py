"""CycleState: the data of plugins between the extension points of one Pod's cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray
from bayplan.framework.effects import Effect
from bayplan.framework.status import Status

OUTSIDE = Status.unresolvable("node(s) were outside of the group's topology domain")

T = TypeVar("T")


class MissingStateError(LookupError):
    """A plugin reads state that was never written: an earlier extension point did not run."""


class CycleState:
    """A plugin's notes on one scheduling cycle, keyed by what the plugin chooses (its name).

    For preemption and nominated Pods the framework asks "what if Pods were added or removed"; it
    then works on `what_if` copies. A value with a method ``what_if(rows)`` gives the copy that its
    plugin's ``add_pod`` and ``remove_pod`` may change; any other value is shared and must not be
    changed by them.

    Attributes:
        beside: for `BoundsCopies.copies`, one Pod of each other kind that may be placed meanwhile.
        effects: what plugins want done when the decision is applied (`bayplan.framework.effects`).
        domain: ``(n,)`` bool, the rows of the live table that the Pod may go to; None for all.
        outside: the status of the other rows; None where a message is to count them as no nodes.
        unlimited: whether limits of tenants are left out of account, to find out which nodes would
            do for a Pod that one holds back.
    """

    __slots__ = (
        "_data",
        "beside",
        "domain",
        "effects",
        "explained",
        "outside",
        "skip_filter",
        "skip_pre_bind",
        "skip_score",
        "timed",
        "unconcerned",
        "unlimited",
    )

    def __init__(
        self,
        *,
        timed: bool = True,
        explained: bool = False,
        domain: BoolArray | None = None,
        outside: Status | None = OUTSIDE,
        unlimited: bool = False,
    ) -> None:
        self._data: dict[str, object] = {}
        self.timed = timed
        self.beside: Sequence[Pod] = ()
        self.effects: list[Effect] = []
        self.explained = explained
        self.domain = domain
        self.outside = outside
        self.unlimited = unlimited
        self.skip_filter: set[str] = set()
        """Names of plugins whose PreFilter returned Skip."""
        self.skip_score: set[str] = set()
        """Names of plugins whose PreScore returned Skip, or that need none to say so."""
        self.skip_pre_bind: set[str] = set()
        """Names of plugins whose PreBindPreFlight returned Skip."""
        self.unconcerned: frozenset[str] = frozenset()
        """Names of plugins that have nothing to do with Pods of this spec."""

    def read(self, key: str, of: type[T]) -> T:
        """What was written under ``key``.

        Raises:
            MissingStateError: nothing was.
            TypeError: it is not a ``of``.
        """
        try:
            value = self._data[key]
        except KeyError:
            raise MissingStateError(f'error reading "{key}" from cycleState: not found') from None
        return _checked(key, value, of)

    def get(self, key: str, of: type[T]) -> T | None:
        """What was written under ``key``, None when nothing was; raises TypeError like `read`."""
        value = self._data.get(key)
        return None if value is None else _checked(key, value, of)

    def write(self, key: str, value: object) -> None:
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
        copy = CycleState(timed=self.timed, domain=self.domain, outside=self.outside)
        copy.adopt(self)
        return copy

    def what_if(self, rows: np.ndarray) -> CycleState:
        """A copy for a table of only ``rows`` (row numbers of the full table, int64)."""
        copy = self.clone()
        for key, value in self._data.items():
            what_if = getattr(value, "what_if", None)
            if what_if is not None:
                copy.write(key, what_if(rows))
        return copy


def _checked(key: str, value: object, of: type[T]) -> T:
    if isinstance(value, of):
        return value
    raise TypeError(f'"{key}" in cycleState is a {type(value).__name__}, not a {of.__name__}')
