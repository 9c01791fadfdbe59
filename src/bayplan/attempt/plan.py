"""Plan: nodes for all Pods of a group, or a `GroupRejection` that says why there is none.

`bayplan.attempt.group.Planner` makes plans. The members of a plan count on their nodes, assumed and
reserved, from the moment it is made: it is then either bound or dropped (`Planner.drop`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bayplan.api.pod import Pod
from bayplan.attempt.commit import Member
from bayplan.attempt.levels import Domain
from bayplan.attempt.outcome import Placement, Reason
from bayplan.framework.effects import Effect
from bayplan.framework.room import Room


class Plan(msgspec.Struct, frozen=True, eq=False):
    """Nodes for a group: all of ``members`` count on theirs.

    Attributes:
        members: the Pods that have a node, through Permit.
        placements: the attempts behind them, in the same order; only in a dry run with the rows
            that were as good.
        left: the Pods beyond the minimum that fit nowhere.
        domains: the topology domain that the members of each sub-group are in, where it was
            limited to one; "" is the group itself.
    """

    members: tuple[Member, ...]
    placements: tuple[Placement, ...]
    left: tuple[Pod, ...]
    domains: Mapping[str, Domain] = {}


class GroupRejection(msgspec.Struct, frozen=True, eq=False):
    """Why a group was not placed; nothing of it counts anywhere.

    Attributes:
        sentence: reason and figures, for the event on the group.
        message: without figures, for the condition of each Pod: it changes only with the cause.
        reason: of that condition.
        plugins: the plugins that rejected its Pods; not the one that has them placed together.
        pods: the Pods that they rejected, one of each shape.
        fit: how many of its Pods had a node before it was undone.
        room: where there will be room for it, and who is evicted for that.
        fault: the exception behind a SchedulerError, where there is one.
        effects: what plugins want done when the rejection counts.
    """

    sentence: str
    message: str
    reason: Reason = Reason.UNSCHEDULABLE
    plugins: frozenset[str] = frozenset()
    pods: tuple[Pod, ...] = ()
    fit: int = 0
    room: Room | None = None
    fault: Exception | None = None
    effects: Sequence[Effect] = ()
