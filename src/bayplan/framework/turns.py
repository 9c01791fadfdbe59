"""Turns: the order of tenants, as seen by the queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, NamedTuple, Protocol, TypeVar

from bayplan.api.pod import Pod
from bayplan.api.queues import Order

K = TypeVar("K", int, str)
Waiting = Mapping[int, Collection[Pod]]
"""By tenant, Pods that wait, each unlike the others."""

_SPARE = 64


class Ranking(Generic[K]):
    """Keys by rank, the lowest first, of equal ranks the lowest key. A change costs O(log n).

    An entry of the heap that has not the rank of its key is stale. It is dropped when it comes up,
    and all of them at once when they outnumber the keys.
    """

    def __init__(self) -> None:
        self._ranks: dict[K, float] = {}
        self._heap: list[tuple[float, K]] = []

    def put(self, key: K, rank: float) -> None:
        """The key has this rank from now on."""
        heap = self._heap
        self._ranks[key] = rank
        if heap and heap[0][1] == key:
            heapreplace(heap, (rank, key))
            return
        heappush(heap, (rank, key))
        if len(heap) > 2 * len(self._ranks) + _SPARE:
            self.rerank(self._ranks.__getitem__)

    def rerank(self, rank: Callable[[K], float]) -> None:
        """Every key has another rank."""
        self._ranks = {key: rank(key) for key in self._ranks}
        self._heap = [(rank, key) for key, rank in self._ranks.items()]
        heapify(self._heap)

    def discard(self, key: K) -> None:
        """The key is gone, if it was there."""
        self._ranks.pop(key, None)

    def first(self) -> K:
        """The key with the lowest rank.

        Raises:
            IndexError: there is none.
        """
        heap, ranks = self._heap, self._ranks
        while True:
            rank, key = heap[0]
            if ranks.get(key) == rank:
                return key
            heappop(heap)

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[K]:
        return iter(self._ranks)


def keeps_room(nominated: Pod, other: Pod, turns: Turns | None) -> bool:
    """Whether room that is made for a nominated Pod is kept from another one.

    A higher priority takes it. But priorities of different tenants are not compared: room that one
    tenant is entitled to is not for another one.
    """
    if nominated.priority >= other.priority:
        return True
    return turns is not None and turns.active and turns.are_rivals(nominated, other)


class Place(NamedTuple):
    """Where a tenant stands.

    Attributes:
        turn: 1 if the tenant is the next one to have a Pod tried.
        attempts: how many attempts more the tenant has had than the one beside it that has had the
            fewest; those of a tenant of weight 2 count half.
    """

    turn: int
    attempts: float


class Turns(Protocol):
    """Decides from which tenant the next Pod comes.

    A tenant is a number. The queue says who has Pods to be tried (`enters`, `leaves`), and asks
    for whom it is (`next_tenant`). Within a tenant it orders Pods itself.

    Attributes:
        ageing: seconds after which a Pod is ordered as if it had the next higher priority; 0 for
            never.
        compares: whether tenants may take room from each other now, so that `takers` finds any.
    """

    ageing: float
    compares: bool

    @property
    def active(self) -> bool:
        """Whether there are tenants."""

    @property
    def version(self) -> int:
        """Changes when Pods may be of other tenants, or tenants have other numbers."""

    def tenant(self, pod: Pod, /) -> int:
        """Whose Pod it is."""

    def are_rivals(self, one: Pod, other: Pod, /) -> bool:
        """Whether ``other`` may not take what ``one`` is entitled to, whatever the priorities."""

    def rivalry(self, other: Pod, /) -> Hashable:
        """What `are_rivals` depends on, besides its first Pod: equal values, equal answers."""

    def order(self, tenant: int, /) -> Order | None:
        """Whose turn it is within a tenant; None where QueueSort alone says so."""

    def restart(self, first: Callable[[int], Pod | None], /) -> None:
        """Start over: no tenant has Pods any more, and `tenant` may give other answers.

        ``first`` says which Pod of a tenant is next from now on, None where there is none.
        """

    def enters(self, tenant: int, /) -> None:
        """The tenant has Pods to be tried from now on."""

    def leaves(self, tenant: int, /) -> None:
        """It has none any more."""

    def next_tenant(self) -> int:
        """The tenant whose turn it is, among tenants with Pods."""

    def is_exposed(self, first: Pod, /) -> bool:
        """Whether anybody could take back the room of ``first``, as things are now.

        Ask this before `takers`, which answers about the same time.
        """

    def takers(self, first: Pod, waiting: Waiting, /) -> Iterator[tuple[int, Pod]]:
        """Who of other tenants could take back the room of ``first``; each with the tenant."""

    def tried(self, tenant: int, pods: int, /) -> None:
        """So many Pods of the tenant are being tried."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def places(self) -> Mapping[str, Place]:
        """By name, where tenants stand with a Pod to be placed; moves no turn."""
