"""Room: the request to make room for a group, and the answers of plugins.

The searches, and the rules for who yields, are in `bayplan.preemption`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.status import Code, Status


class RoomTrial(Protocol):
    """A preemptor that was placed as if some Pods were gone."""

    @property
    def status(self) -> Status:
        """What came of it."""

    @property
    def nodes(self) -> Mapping[str, str]:
        """Node name by uid of the Pods with a node, in the order of the attempts."""

    def keeps(self, pods: Sequence[Pod], /) -> bool:
        """Whether the preemptor fits on these nodes even if ``pods`` stay; then ``pods`` stay."""

    def gives_up(self, pods: Sequence[Pod], /) -> None:
        """Let ``pods``, which were kept, be gone again."""


class RoomRequest(Protocol):
    """A group that does not fit anywhere, and the questions a search for room may ask.

    Nothing that is asked here has an effect. Scheduling thread only.
    """

    @property
    def preemptor(self) -> Preemptor:
        """Who needs room."""

    @property
    def effects(self) -> list[Effect]:
        """Where plugins append what they want done if the answer is applied."""

    def rows_for(self, pod: Pod, /) -> BoolArray:
        """(n,) nodes that ``pod`` fits on, or may fit on when other Pods leave."""

    def plan_without(self, victims: Sequence[Pod], /) -> Mapping[str, str] | None:
        """One exact plan as if ``victims`` were gone: node name by uid; None where it falls."""

    def trial_without(self, victims: Sequence[Pod], /) -> AbstractContextManager[RoomTrial]:
        """The preemptor, placed as if ``victims`` were gone; undone at the end of ``with``."""


class AsksForRoom(Protocol):
    """Makes the `RoomRequest` of a Pod that a limit holds back."""

    def __call__(self, state: CycleState, pod: Pod, /) -> RoomRequest:
        """For ``pod``, after an attempt with that state."""


class Leaving(Protocol):
    """The Pods evicted for a preemptor, while the preemptor waits. Scheduling thread only."""

    def hold(self) -> Status | None:
        """Why the preemptor is not to be tried yet; None once all of them are leaving or gone."""

    def continues_after(self, pod: Pod, /) -> bool:
        """Whether ``pod`` was a victim and is gone, while other victims are still there."""


class Room(msgspec.Struct, frozen=True, eq=False):
    """Where a group goes as soon as some Pods are gone.

    Attributes:
        nodes: node name by uid, of every member that has room then; these are nominated.
        victims: the Pods to evict; none where all that has to go is leaving already.
        sentence: what is said of it.
        anywhere: whether each victim stands in the way of a limit, so that the room is of use on
            whichever node.
        groups: how many PodGroups of Kubernetes leave as a whole.
        violations: how many of the victims a PodDisruptionBudget protects.
    """

    nodes: Mapping[str, str]
    victims: tuple[Pod, ...]
    sentence: str
    anywhere: bool = False
    groups: int = 0
    violations: int = 0

    @property
    def code(self) -> Code:
        """The answer as a status code."""
        return Code.SUCCESS


class NoRoom(msgspec.Struct, frozen=True, eq=False):
    """Why no room can be made; "" where there is nothing worth saying.

    Attributes:
        sentence: why.
        final: whether that is all there is to say, so that no other plugin is asked or heard.
    """

    sentence: str = ""
    final: bool = False

    @property
    def code(self) -> Code:
        """The answer as a status code."""
        return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if self.final else Code.UNSCHEDULABLE
