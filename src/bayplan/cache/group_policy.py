"""GroupPolicy: in what groups of one source differ from those of another, as data.

A PodGroup that a label names, and a group that is inferred from the owner of its Pods, follow
`LABEL`; a PodGroup of Kubernetes follows `KUBERNETES`, which is what kube-scheduler does. All that
queues, places or reports on groups reads these fields; nothing asks for the source of a group.

The reasons: docs/decisions/0025-groups-of-every-source.md.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class Collects(Enum):
    """Until when the Pods of a group wait for a node together."""

    UNTIL_BEGUN = "until a Pod has a node; Pods without one go singly from then on"
    ALWAYS = "Pods beyond the minimum and later ones wait with their group, too"


class Search(Enum):
    """How nodes are sought for a group."""

    LEVELS = "the tightest domain that holds the group; Pods that fit nowhere are tried again"
    PLACEMENTS = "the placement that scores best; each Pod is tried once, in its turn"


class Words(Enum):
    """To whom the outcome is told, in which words."""

    EVENT = "one sentence as an event on the group, a condition without figures on each Pod"
    CONDITION = "a condition on the PodGroup; of each Pod what kube-scheduler says of it"


class GroupPolicy(msgspec.Struct, frozen=True):
    """In what groups of one source differ.

    Attributes:
        collects: until when its Pods wait together.
        search: how nodes are sought.
        words: how the outcome is reported.
        gates_whole: whether a Pod that a PreEnqueue plugin holds back holds back its whole group.
        refuses_mixed: whether Pods of several profiles or priorities are an error of the group.
            Otherwise Pods of each profile are a group of their own, and unequal priorities are
            waited out.
    """

    collects: Collects
    search: Search
    words: Words
    gates_whole: bool
    refuses_mixed: bool


LABEL = GroupPolicy(
    collects=Collects.UNTIL_BEGUN,
    search=Search.LEVELS,
    words=Words.EVENT,
    gates_whole=False,
    refuses_mixed=False,
)
KUBERNETES = GroupPolicy(
    collects=Collects.ALWAYS,
    search=Search.PLACEMENTS,
    words=Words.CONDITION,
    gates_whole=True,
    refuses_mixed=True,
)
