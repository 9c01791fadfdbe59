"""Queues: the tree of tenants, what each of them uses, waits for, and is entitled to."""

from bayplan.cache.queue_tree.labels import PREEMPTIBLE
from bayplan.cache.queue_tree.limits import Excess
from bayplan.cache.queue_tree.structure import Structure
from bayplan.cache.queue_tree.tree import NO_QUEUE, QueueTree

__all__ = ["NO_QUEUE", "PREEMPTIBLE", "Excess", "QueueTree", "Structure"]
