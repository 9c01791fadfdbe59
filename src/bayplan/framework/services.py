"""Services: what bayplan's own plugins do besides their extension points.

A plugin registers its services when it is made (``handle.services``). Whoever needs a service asks
the profile for it, whichever plugin has it. Plugins of users have extension points alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from bayplan.api.meta import ObjectFault
from bayplan.api.pod import Pod
from bayplan.cache.group_policy import Collects
from bayplan.cache.node_price import FloatArray
from bayplan.cache.queue_tree.past_use import PastUse
from bayplan.config.args import LoadSource, PriceSource
from bayplan.framework.effects import Effect
from bayplan.framework.groups import GroupSource
from bayplan.framework.points import Named
from bayplan.framework.turns import Turns


class NeverEvicted(Protocol):
    """The Pods that no plugin evicts for others. Scheduling thread only."""

    @property
    def any(self) -> bool:
        """Whether there may be such Pods."""

    def __contains__(self, pod: Pod, /) -> bool:
        """Whether ``pod``, which is on a node, is one."""


class Holdings(Named, Protocol):
    """What Pods on nodes hold besides the resources they request. Scheduling thread only.

    What the plugin rejects may fit once some of these Pods are gone.
    """

    def keeps(self, pod: Pod, /) -> str:
        """Why a Pod made again could not hold the like elsewhere, as a reason; "" if it could."""

    def without(self, pod: Pod, /) -> AbstractContextManager[None]:
        """As if the Pod held nothing, as far as that goes with the Pod."""


class GroupObjective(Protocol):
    """What Pods of a plan cost; moves and swaps make it less. Scheduling thread only."""

    def costs(self, pod: Pod, /) -> FloatArray:
        """``(n,)`` what ``pod``, which is on no node, costs on each row beside all others.

        Where the Pod moves, the cost of all Pods together changes by the difference.
        """


class Survival(NamedTuple):
    """What of a workload survives the loss of one failure domain.

    Attributes:
        workload: the key of its group, or the labels of its Pods.
        domain: label and value, as in ``topology.kubernetes.io/zone=eu-1a``.
        pods: how many Pods are left on nodes.
        needed: how many are to be left.
    """

    namespace: str
    workload: str
    domain: str
    pods: int
    needed: int


class Services:
    """The services of one profile's plugins, complete once the plugins are made.

    Attributes:
        group_sources: have Pods placed together; the first one that knows a Pod's group has it. A
            group in the Pod's spec comes before one in its labels.
        turns: decides from which tenant the next Pod comes; None where tenants take no turns.
        past_use: lowers the weights of tenants by what they have used; None where it does not.
        object_faults: what is wrong with objects of users: all faults there are, and the
            same object as the last time while none comes or goes.
        recounts: compare sums of plugins with a computation from scratch, by plugin: in how many
            places they differed, by sum.
        never_evicted: the Pods that no plugin evicts for others: all that one of these knows.
        holdings: what Pods hold besides resources.
        chores: what is to be done from time to time. The leader calls them every few seconds, and
            carries out at once what they return.
        load_sources: where the load of nodes is to be read.
        price_sources: where the prices of nodes are to be read.
        node_shares: by what people call it, a share of 0 to 1 for each row of the node table,
            ``(n,)``, NaN for none; a lens of the page. Scheduling thread only.
        survivors: what survives the loss of domains, by workload, as of late. Any thread.
        objective: what plans of groups are to make less; None for nothing.
    """

    def __init__(self) -> None:
        self.group_sources: list[GroupSource] = []
        self.turns: Turns | None = None
        self.past_use: PastUse | None = None
        self.object_faults: list[Callable[[], Sequence[ObjectFault]]] = []
        self.recounts: dict[str, Callable[[], Mapping[str, int]]] = {}
        self.never_evicted: list[NeverEvicted] = []
        self.holdings: list[Holdings] = []
        self.chores: list[Callable[[], Sequence[Effect]]] = []
        self.load_sources: list[LoadSource] = []
        self.price_sources: list[PriceSource] = []
        self.node_shares: dict[str, Callable[[], FloatArray]] = {}
        self.survivors: list[Callable[[], Sequence[Survival]]] = []
        self.objective: GroupObjective | None = None

    def add_group_source(self, source: GroupSource) -> None:
        """Have Pods of the groups that ``source`` knows placed together."""
        self.group_sources.append(source)
        self.group_sources.sort(key=lambda s: s.policy.collects is not Collects.ALWAYS)

    @property
    def any_never_evicted(self) -> bool:
        """Whether there may be Pods that no plugin evicts for others."""
        return any(some.any for some in self.never_evicted)

    def is_never_evicted(self, pod: Pod) -> bool:
        """Whether no plugin evicts ``pod``, which is on a node, for others."""
        return any(some.any and pod in some for some in self.never_evicted)
