"""Proof: exact plans of a group in worlds without some units, until one stands.

The steps 4 to 6 of `bayplan.preemption.shortest_prefix`. `FreedCapacity` says by resources alone
which units have to go; only a plan by all plugins proves it.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cache.node_table import LiveNodeTable
from bayplan.framework.room import RoomRequest
from bayplan.preemption.capacity import FreedCapacity
from bayplan.preemption.eviction_units import EvictionUnits
from bayplan.preemption.member_fit import OnRow

PROOFS = 16
"""Exact plans that one search may make."""
LONGER = 4
"""How many times as long the next prefix is where a proof has failed."""


class Proof:
    """The units to evict, and the plan to prove it.

    Attributes:
        gone: the units.
        plan: node name by uid of the members, in a world without them.
    """

    def __init__(
        self,
        request: RoomRequest,
        nodes: LiveNodeTable,
        units: EvictionUnits,
        capacity: FreedCapacity,
    ) -> None:
        self._request = request
        self._nodes = nodes
        self._units = units
        self._capacity = capacity
        self._left = PROOFS
        self.gone: set[int] = set()
        self.plan: Mapping[str, str] = {}

    def find(self) -> bool:
        """Find a prefix of the units without which the group fits."""
        length = self._capacity.shortest()
        if length is None or not len(self._units):
            return False
        prefix = set(range(length))
        if self._stands(prefix - self._capacity.spared(prefix, self._capacity.fill(length))):
            return True
        length = max(length, 1)
        while not self._stands(set(range(length))):
            if length == len(self._units) or not self._left:
                return False
            length = min(LONGER * length, len(self._units))
        return True

    def _stands(self, gone: set[int]) -> bool:
        """Whether the group fits in a world without these units; if so, they are what goes."""
        gone = self._units.closed(gone)
        if not gone or not self._left:
            return False
        self._left -= 1
        plan = self._request.plan_without(self._units.pods_of(gone))
        if plan is None:
            return False
        self.gone, self.plan = gone, plan
        return True

    def reprieve(self) -> None:
        """Spare units that need not go."""
        self._spare(sorted(self._capacity.spared(self.gone, self._members())))
        self._spare(sorted(self._capacity.spared_anywhere(self.gone)))
        if self._capacity.ceilings and len(self._request.preemptor.pods) == 1:
            tried: set[int] = set()
            while others := self._on_account_of_nodes() - tried:
                tried.add(max(others))
                self._stands(self.gone - {max(others)})

    def is_by_limits_alone(self) -> bool:
        """Whether limits demand each of the units that go."""
        return bool(self._capacity.ceilings) and not self._on_account_of_nodes()

    def _on_account_of_nodes(self) -> set[int]:
        """The units that must go for room on nodes, and not for a limit."""
        others = self.gone - self._capacity.demanded(self.gone)
        return {unit for unit in others if unit >= self._units.leaving}

    def _spare(self, units: list[int]) -> None:
        """Spare these units or, if too many, each half in turn."""
        if not units or self._stands(self.gone - set(units)) or len(units) == 1:
            return
        middle = len(units) // 2
        self._spare(units[:middle])
        self._spare(units[middle:])

    def _members(self) -> list[OnRow]:
        """As many as are needed: nobody is evicted for one more."""
        preemptor = self._request.preemptor
        rows = ((self._nodes.row(self.plan.get(pod.uid, "")), pod) for pod in preemptor.pods)
        return [(row, pod) for row, pod in rows if row is not None][: preemptor.minimum]
