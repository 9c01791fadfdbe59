"""The scheduling queue: which Pod is tried next, and when a rejected one is tried again.

No I/O, no locks; the clock is a parameter. Only the scheduling thread uses it. Start with
`bayplan.queue.scheduling_queue`; `bayplan.queue.states` shows where a Pod can be.
"""

from bayplan.queue.heap import sort_key
from bayplan.queue.hints import HintTable, registrations
from bayplan.queue.policy import QueueSettings
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.queue.states import QueueState

__all__ = [
    "HintTable",
    "QueueSettings",
    "QueueState",
    "QueuedPod",
    "SchedulingQueue",
    "registrations",
    "sort_key",
]
