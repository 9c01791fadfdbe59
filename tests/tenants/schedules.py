"""All schedules of a small world that the rules of tenants allow, one after the other.

A *state* is who runs where, in the order in which they started; Pods that are alike, and nodes that
are alike, are not told apart. What is wanted is always the same: whoever is evicted waits again. A
*move* places a Pod where there is room, or, where there is none, evicts one of the smallest sets of
Pods that may go for it (`tests.tenants.rules`). Whose turn it is, on which node, and which of the
sets, is open: every order is tried. An *end* is a state in which no move is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from tests.tenants.rules import Asked, World

State = tuple[tuple[int, str], ...]
"""Kind of the Pod and its node; the one that started first comes first."""
End = frozenset[tuple[tuple[int, str], int]]
"""The same without an order: how many Pods of a kind are on a node."""


class CircleError(AssertionError):
    """Moves that lead back to where they began."""


class Schedules:
    """The schedules of a world, from who runs there on.

    Attributes:
        ends: those that can be reached; not all of them unless `is_complete`.
        is_complete: whether there were no more states than ``most``.
        states: how many there were.
    """

    def __init__(self, world: World, most: int) -> None:
        self._world, self._most = world, most
        self._of = world.divided()
        self._kinds = sorted({_kind(pod) for pod in world.pods.values()}, key=repr)
        self._names: list[list[str]] = [[] for _ in self._kinds]
        for name in [*world.running, *(world.pods.keys() - world.running.keys())]:
            self._names[self._kinds.index(_kind(world.pods[name]))].append(name)
        self._nodes = {
            node: [other for other in world.nodes if _are_alike(world, node, other)]
            for node in world.nodes
        }
        self.ends: set[End] = set()
        self.is_complete = True
        self.states = 0
        self._walk(self._state(world))

    def end(self, world: World) -> End:
        """Who runs in a world of Pods of the same kinds."""
        return self._end(self._state(world))

    def _state(self, world: World) -> State:
        kinds = [self._kinds.index(_kind(world.pods[name])) for name in world.running]
        return self._alike(list(zip(kinds, world.running.values(), strict=True)))

    def _walk(self, begin: State) -> None:
        """Depth first; a state that comes up again on the way to itself closes a circle."""
        open_states: dict[State, Iterator[State]] = {begin: self._moves(begin)}
        done: set[State] = set()
        while open_states:
            state, moves = next(reversed(open_states.items()))
            for after in moves:
                if after in open_states:
                    raise CircleError(f"{after} comes again: {self._kinds}")
                if after not in done:
                    break
            else:
                done.add(state)
                del open_states[state]
                continue
            self.states = len(done) + len(open_states)
            if self.states >= self._most:
                self.is_complete = False
                return
            open_states[after] = self._moves(after)

    def _moves(self, state: State) -> Iterator[State]:
        afters = {after for kind in range(len(self._kinds)) for after in self._tries(state, kind)}
        if not afters:
            self.ends.add(self._end(state))
        return iter(sorted(afters))

    def _tries(self, state: State, kind: int) -> Iterator[State]:
        counts = Counter(k for k, _ in state)
        if counts[kind] == len(self._names[kind]):
            return
        numbers: Counter[int] = Counter()
        names = []
        for k, _ in state:
            names.append(self._names[k][numbers[k]])
            numbers[k] += 1
        world = self._world
        world.running = {name: at for name, (_, at) in zip(names, state, strict=True)}
        pod = world.pods[self._names[kind][counts[kind]]]
        nodes = world.fits(pod)
        for node in nodes:
            yield self._alike([*state, (kind, node)])
        if nodes:
            return
        for some in self._sets(pod):
            left = [one for name, one in zip(names, state, strict=True) if name not in some]
            for node in world.fits(pod, some):
                yield self._alike([*left, (kind, node)])

    def _sets(self, pod: Asked) -> Iterator[frozenset[str]]:
        """The smallest sets that make room and may go; each only if it is on one node.

        Where a limit is in the way, those of several nodes, too.
        """
        world = self._world
        by_node = {
            node: [name for name, at in world.running.items() if at == node] for node in world.nodes
        }
        enough: list[frozenset[str]] = []
        free = World(world.nodes, world.tenants.values(), world.pods.values())
        is_limited = not free.fits(pod) or any(
            world.used(link, plus=pod)[r] > amount
            for link in world.chain(pod.tenant)
            for r, amount in world.tenants[link].limit.items()
        )
        pools = [list(world.running)] if is_limited else list(by_node.values())
        for pool in pools:
            for size in range(1, len(pool) + 1):
                for some in map(frozenset, combinations(pool, size)):
                    if not any(smaller <= some for smaller in enough) and world.fits(pod, some):
                        enough.append(some)
        yield from (some for some in enough if world.may_evict(pod, some, self._of))

    def _alike(self, state: list[tuple[int, str]]) -> State:
        """The same with nodes that are alike by the order in which they were used first."""
        renamed: dict[str, str] = {}
        for _, node in state:
            if node not in renamed:
                free = [n for n in self._nodes[node] if n not in renamed.values()]
                renamed[node] = free[0]
        return tuple((kind, renamed[node]) for kind, node in state)

    def _end(self, state: State) -> End:
        """Nodes that are alike are sorted by what is on them."""
        on = {node: Counter(kind for kind, at in state if at == node) for node in self._nodes}
        counted: set[tuple[tuple[int, str], int]] = set()
        for group in {tuple(alike) for alike in self._nodes.values()}:
            contents = sorted(sorted(on[node].items()) for node in group)
            for node, content in zip(group, contents, strict=True):
                counted |= {((kind, node), number) for kind, number in content}
        return frozenset(counted)


def _are_alike(world: World, node: str, other: str) -> bool:
    kinds = world.kinds.get(node), world.kinds.get(other)
    listed = [pod.nodes for pod in world.pods.values() if pod.nodes is not None]
    return (
        world.nodes[node] == world.nodes[other]
        and kinds[0] == kinds[1]
        and all((node in nodes) == (other in nodes) for nodes in listed)
    )


def _kind(pod: Asked) -> tuple[object, ...]:
    nodes = None if pod.nodes is None else tuple(sorted(pod.nodes))
    return pod.tenant, tuple(sorted(pod.requests.items())), pod.priority, nodes
