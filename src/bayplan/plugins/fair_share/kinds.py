"""Kinds of nodes: where a Pod of a queue may go, where a limit is in the way, what is preferred.

An example: a queue names the kinds ``a100``, with a limit of 8 GPUs, and ``spot``. It uses 8 on
nodes of ``a100``. A Pod that needs one GPU is rejected there, and placed on a node of ``spot`` or,
where none fits, on another node. If its node selector leaves only nodes of ``a100``, it is rejected
before any node is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.amounts import Rows
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree import QueueTree
from bayplan.cache.queue_tree.kinds import NO_KIND
from bayplan.cache.queue_tree.limits import excess
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.framework.status import Status

_FITS, _NOT_NAMED = 0, 1


class KindVerdict(NamedTuple):
    """What a queue says of nodes, by their kind; the last element is for nodes of none.

    Attributes:
        codes: (k + 1,) 0 where the Pod may go, else a place in `statuses`.
        statuses: why it may not.
        scores: (k + 1,) 0 to 100; None where no kind is preferred.
        held: why limits are in the way wherever it could go; none if there is a way.
    """

    codes: IntArray
    statuses: Sequence[Status]
    scores: IntArray | None
    held: Sequence[str]


def judge(queues: QueueTree, pod: Pod, promised: Rows | None, *, unlimited: bool) -> KindVerdict:
    """The verdict on a Pod of a queue.

    Args:
        queues: the tree.
        pod: the Pod.
        promised: (q, r) what nominated Pods will use.
        unlimited: whether limits are left out of account.
    """
    kinds, row = queues.kinds, queues.leaf(pod)
    preference, name = queues.structure.preferences[row], queues.structure.name(row)
    codes = np.full(len(kinds) + 1, _FITS)
    scores: IntArray | None = None
    if preference is not None:
        order = preference.order
        if preference.allowed is not None:
            codes[:] = _NOT_NAMED
            codes[list(preference.allowed)] = _FITS
        if order:
            scores = np.zeros(len(kinds) + 1, np.int64)
            scores[list(order)] = MAX_NODE_SCORE * np.arange(len(order), 0, -1) // len(order)
    statuses = [Status(), Status.unresolvable(f"node(s) were of no kind that queue {name} uses")]
    if unlimited:
        return KindVerdict(codes, statuses, scores, ())
    possible = queues.possible_kinds(pod)
    charges = {k: queues.charge_on(pod, k) for k in queues.structure.orders[row] or [NO_KIND]}
    excesses = {k: excess(c, c.requests, promised=promised) for k, c in charges.items()}
    beyond = {kind: excess.message for kind, excess in excesses.items() if excess is not None}
    if beyond and all(kind in beyond for kind in possible or excesses):
        return KindVerdict(
            codes,
            statuses,
            scores,
            list(dict.fromkeys(beyond[kind] for kind in possible or beyond)),
        )
    for kind, message in beyond.items():
        codes[kind] = len(statuses)
        statuses.append(Status.unschedulable(f"node(s) beyond the {message}"))
    return KindVerdict(codes, statuses, scores, ())
