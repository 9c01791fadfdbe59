"""Coverage: all running Pods in the line in which guarantees cover Pods, and what is covered.

`reclaim` and `over_limit` ask for the line; `bayplan queues` and the statuses of Queues show what
guarantees cover, as nobody can tell from sums: Pods come in sizes
(`bayplan.plugins.fair_share.guarantees`).
"""

from __future__ import annotations

import numpy as np

from bayplan.cache.cache import Cache
from bayplan.cache.node_table import BoolArray
from bayplan.cache.queue_tree import QueueTree
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


def covered_amounts(queues: QueueTree, cache: Cache) -> dict[str, dict[str, int]]:
    """By queue and resource, what its guarantee covers of what stays. Scheduling thread only."""
    structure = queues.structure
    if not structure.guaranteed.any():
        return {}
    nodes, objects = cache.nodes, cache.objects
    running = RunningPods(nodes)
    gangs = objects.shared(Gangs, nodes, objects, cache.groups, cache.kubernetes_groups)
    everyone = np.ones(len(running), np.bool_)
    order = YieldOrder(running, everyone, gangs, objects.shared(Budgets, objects))
    never = NeverEvicted(queues, cache, nodes).among(running)
    line = line_of(queues, running, order, never).within(np.flatnonzero(~running.leaving))
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
