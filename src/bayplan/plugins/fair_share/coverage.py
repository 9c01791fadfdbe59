"""Coverage: all running Pods in the line in which guarantees cover Pods, and what is covered.

`reclaim` and `over_limit` ask for the line; `bayplan queues` and the statuses of Queues show what
guarantees cover, as nobody can tell from sums: Pods come in sizes
(`bayplan.plugins.fair_share.guarantees`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.amounts import Amounts
from bayplan.cache.cache import Cache
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.node_table.pod_table import NOT_STARTED
from bayplan.cache.objects import ObjectStore
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.framework.handle import PodNominator
from bayplan.plugins.fair_share.guarantees import Guarantees, Line
from bayplan.plugins.fair_share.never_evicted import NeverEvicted
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.eviction_units import YieldOrder
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.running_pods import RunningPods


def line_of(queues: QueueTree, running: RunningPods, order: YieldOrder, never: BoolArray) -> Line:
    """All running Pods, in line; (p,) ``never``: which are never evicted."""
    examples, codes = running.examples, running.codes
    leaves = np.array([queues.leaf(pod) for pod in examples], np.int64)[codes]
    each = np.array([queues.requests(pod) for pod in examples], np.int64)
    requests = each.reshape(len(examples), len(queues.structure.resources))[codes]
    kinds = queues.kinds.codes
    for kind, column, base in queues.structure.kind_columns:
        requests[:, column] = np.where(kinds[running.rows] == kind, requests[:, base], 0)
    priorities, starts = running.priorities, running.starts
    return Line(leaves, requests, priorities, starts, order.units, order.bases, never)


def staying(
    queues: QueueTree,
    running: RunningPods,
    gangs: Gangs,
    objects: ObjectStore,
    never: NeverEvicted,
) -> tuple[Line, YieldOrder]:
    """The running Pods that are not leaving, in line; and the order of all."""
    everyone = np.ones(len(running), np.bool_)
    order = YieldOrder(running, everyone, gangs, objects.shared(Budgets, objects))
    line = line_of(queues, running, order, never.among(running))
    return line.within(np.flatnonzero(~running.leaving)), order


class Entering(NamedTuple):
    """A Pod, or the minimum of a group, as if placed now.

    Attributes:
        pod: the Pod, or one of the group.
        requests: (r,) of all of them.
        priority: the lowest of these.
        never: whether one of them is never evicted.
    """

    pod: Pod
    requests: Amounts
    priority: int
    never: bool

    @staticmethod
    def alone(queues: QueueTree, pod: Pod) -> Entering:
        """A single Pod."""
        return Entering(pod, queues.requests(pod), pod.priority, queues.is_never_evicted(pod))


def nominated(queues: QueueTree, nominator: PodNominator) -> Iterator[Pod]:
    """The nominated Pods of queues, as if they were on their nodes; their order is always one."""
    pairs = [(p, n) for n in nominator.nominated_nodes() for p in nominator.nominated_pods(n)]
    for pod, node in sorted(pairs, key=lambda pair: pair[0].uid):
        if queues.leaf(pod) != NO_QUEUE:
            yield pod.on_node(node)


def enter(queues: QueueTree, line: Line, order: YieldOrder, entering: Sequence[Entering]) -> Line:
    """Pods in line with others, which stand behind all of an equal priority."""
    number = len(entering)
    units = line.units.max(initial=-1) + 1 + np.arange(number)
    bases = [order.base_of(one.pod) for one in entering]
    waiting = Line(
        np.array([queues.leaf(one.pod) for one in entering], np.int64),
        np.array([one.requests for one in entering], np.int64),
        np.array([one.priority for one in entering], np.int64),
        np.full(number, NOT_STARTED),
        units,
        np.where([base is None for base in bases], units, [base or 0 for base in bases]),
        np.array([one.never for one in entering], np.bool_),
    )
    return Line(*(np.concatenate(pair) for pair in zip(line, waiting, strict=True)))


def claims_of_last(
    queues: QueueTree, there: IntArray, line: Line, chain: Sequence[int]
) -> tuple[BoolArray, Guarantees]:
    """Whether guarantees cover the last Pod in line; and who is covered by what is declared.

    What is promised but not there is kept by who has it, and claimed by nobody.

    Args:
        queues: the tree.
        there: (q, r) what is guaranteed and there.
        line: the Pods.
        chain: rows.

    Returns:
        (k,) by row of the chain; and who is covered.
    """
    declared = Guarantees(queues.structure, queues.structure.guaranteed, line)
    available = Guarantees(queues.structure, there, line)
    last = [available.by_line(q)[:, -1] & declared.by_line(q)[:, -1] for q in chain]
    return np.array([by_line.any() for by_line in last]), declared


def covered_amounts(queues: QueueTree, cache: Cache) -> dict[str, dict[str, int]]:
    """By queue and resource, what its guarantee covers of what stays. Scheduling thread only."""
    structure = queues.structure
    if not structure.guaranteed.any():
        return {}
    running = RunningPods(cache.nodes)
    gangs = cache.objects.shared(
        Gangs, cache.nodes, cache.objects, cache.groups, cache.kubernetes_groups
    )
    never = NeverEvicted(queues, cache, cache.nodes)
    line, _ = staying(queues, running, gangs, cache.objects, never)
    guarantees = Guarantees(structure, structure.guaranteed, line)
    amounts: dict[str, dict[str, int]] = {}
    named = structure.guaranteed.any(axis=1) & ~np.array(structure.own)
    for row in np.flatnonzero(named).tolist():
        by_line = guarantees.by_line(row)
        amounts[structure.name(row)] = {
            structure.resources[column]: int(line.requests[covered, column].sum())
            for covered, columns in zip(by_line, structure.lines, strict=True)
            for column in columns
            if structure.guaranteed[row, column]
        }
    return amounts
