"""World: the state of the cluster and the queue. It lives as long as the process.

Nodes, Pods and other objects, the queue, Pods that wait in Permit or are in PreBind: nothing of it
depends on the configuration, so a reload does not change it; see `bayplan.profiles`.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.binding.preparing import PreparingPods
from bayplan.binding.waiting import WaitingPods
from bayplan.cache.cache import Cache
from bayplan.cache.counters import DomainCounters
from bayplan.cache.queue_tree import QueueTree
from bayplan.framework.evictions import Evictions
from bayplan.handlers import Handlers
from bayplan.profiles import Profiles
from bayplan.queue.nominator import Nominator
from bayplan.queue.rooms import Rooms
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.rejections.conflicts import Conflicts
from bayplan.rejections.node_backoff import NodeBackoff
from bayplan.rejections.overcommit import Overcommit
from bayplan.telemetry.instrument import Instrument


class World:
    """The state of one scheduler; scheduling thread only, `waiting` excepted.

    Attributes:
        cache: nodes, the Pods on them, every other object.
        counters: matching Pods per topology domain.
        queues: what each tenant uses and is entitled to.
        nominator: Pods nominated to nodes.
        evictions: Pods that are leaving, and for whom.
        waiting: Pods that wait in Permit.
        preparing: Pods in PreBind, by uid.
        queue: Pods that wait for a node.
        rooms: what is kept for Pods that are about to move.
        handlers: apply what the API server shows.
        overcommit: nodes whose Pods request more than there is.
        node_backoff: nodes that rejected a Pod, which its owner's Pods keep off.
        conflicts: finds Pods that a node rejected; None without an API server.
    """

    def __init__(self, clock: Callable[[], float], instrument: Instrument) -> None:
        self.cache = Cache()
        self.counters = DomainCounters(self.cache.nodes, self.cache.objects)
        self.nominator = Nominator()
        self.waiting = WaitingPods(clock)
        self.preparing = PreparingPods()
        self.queue = SchedulingQueue(
            clock,
            nominator=self.nominator,
            instrument=instrument,
            group_of=self.cache.groups.key_of,
        )
        self.evictions = Evictions(
            self.cache, leaves=self.queue.groups.pod_unbound, stays=self.queue.group_member_bound
        )
        self.queues = QueueTree(self.cache, self.queue)
        self.rooms = Rooms(self.queue, self.cache)
        self.handlers = Handlers(self.cache, self.queue, self.waiting, self.rooms)
        self.overcommit = Overcommit(self.cache.nodes)
        self.node_backoff = NodeBackoff(clock)
        self.conflicts: Conflicts | None = None

    def adopt(self, profiles: Profiles) -> None:
        """These profiles decide from now on."""
        if self.cache.groups.infer(profiles.policy.inferred_groups):
            self.queue.groups.recount(self.cache.pods(), self.cache.is_assumed)
        services = [framework.services for framework in profiles.values()]
        self.queues.adopt(next((s.past_use for s in services if s.past_use is not None), None))
        self.queue.adopt(profiles.policy)
        self.handlers.adopt(frozenset(profiles))

    def lead(self) -> None:
        """This process leads: from now on, report Pods rejected by nodes."""
        self.handlers.conflicts = self.conflicts
