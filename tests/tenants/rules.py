"""The rules of tenants as a slow program of their own, by their words (docs/tenants.md).

Nothing of ``bayplan`` is used: whole and exact numbers, loops, no shortcut. A world is small: a few
nodes and queues, a dozen Pods. Resources are named; "cpu" is divisible, all others are counted in
whole devices. The rules judge; they do not choose: `World.sets` lists all smallest sets of Pods
that may be evicted for a Pod, so that the tests can ask whether the scheduler took one of these.

What is used on nodes of a kind is a resource of its own, such as "gpu@fast". A Pod asks for it as
far as some queue names an amount of it, and only where it is on such a node, or is to go there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations

CPU = "cpu"
Amounts = Mapping[str, int]
INFINITE = Fraction(10**12)
NEVER = 10**12
"""Above all priorities."""


@dataclass(frozen=True)
class OnKind:
    """What a queue has on nodes of a kind.

    Attributes:
        weight: None for that of the queue. Nodes of a kind for which some queue has one are divided
            by themselves.
    """

    kind: str
    guaranteed: Amounts = field(default_factory=dict)
    limit: Amounts = field(default_factory=dict)
    weight: int | None = None


@dataclass(frozen=True)
class Tenant:
    """A queue.

    Attributes:
        kinds: of nodes, those that its Pods prefer come first.
        is_bound: whether its Pods go to these only.
        evict_after: seconds after which what is above the limit goes; None for never.
    """

    name: str
    parent: str = ""
    guaranteed: Amounts = field(default_factory=dict)
    limit: Amounts = field(default_factory=dict)
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    min_runtime: int = 0
    preemptible: bool = True
    from_lower: bool = False
    state: str = "Open"
    user_limit: Amounts = field(default_factory=dict)
    kinds: tuple[OnKind, ...] = ()
    is_bound: bool = False
    evict_after: int | None = None

    def amounts(self, of: str) -> Amounts:
        """What is "guaranteed", or the "limit", on all nodes and on those of kinds."""
        on_kinds = {
            f"{r}@{on.kind}": amount for on in self.kinds for r, amount in getattr(on, of).items()
        }
        return {**getattr(self, of), **on_kinds}


@dataclass(frozen=True)
class Asked:
    """A Pod, or Pods that are placed together.

    Attributes:
        tenant: whose it is.
        requests: what it requests, or they together.
        nodes: that it may use; None for all.
        group: Pods of one are of no use below its minimum; "" for none.
        is_protected: whether a budget allows no eviction of it.
        user: whose limit it counts for; all that name nobody are of one user.
        parts: what each of several Pods requests; empty for one Pod.
        never: whether it is never evicted, whatever its queue says.
    """

    name: str
    tenant: str
    requests: Amounts
    priority: int = 0
    nodes: frozenset[str] | None = None
    group: str = ""
    is_protected: bool = False
    user: str = ""
    parts: tuple[Amounts, ...] = ()
    never: bool = False


@dataclass(frozen=True)
class Divided:
    """Shares by queue and resource; by parent, the resources of which its children lack some."""

    whole: Mapping[str, Amounts]
    exact: Mapping[str, Mapping[str, Fraction]]
    guaranteed: Mapping[str, Amounts]
    contended: Mapping[str, frozenset[str]]


class World:
    """Nodes, queues and Pods.

    Attributes:
        running: by name of a Pod, its node; in the order in which the Pods started.
        started: when they did, in seconds.
        now: in seconds.
        closed: the nodes that take no new Pods.
        kinds: by node, its kind; nodes that are not named are of none.
        minimums: by group, how many Pods of it are of no use without each other.
    """

    def __init__(
        self, nodes: Mapping[str, Amounts], tenants: Iterable[Tenant], pods: Iterable[Asked]
    ) -> None:
        self.nodes = dict(nodes)
        self.tenants = {tenant.name: tenant for tenant in tenants}
        self.pods = {pod.name: pod for pod in pods}
        self.running: dict[str, str] = {}
        self.started: dict[str, float] = {}
        self.now = 0.0
        self.closed: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.minimums: dict[str, int] = {}
        self.bases = sorted({name for amounts in nodes.values() for name in amounts})
        self._of: list[object] = []
        self._kept: tuple[list[str], set[str]] = [], set()

    # Who is part of what

    def children(self, parent: str) -> list[str]:
        """The queues below, by name."""
        return sorted(t.name for t in self.tenants.values() if t.parent == parent)

    def chain(self, tenant: str) -> Iterator[str]:
        """The queue and its ancestors."""
        while tenant:
            yield tenant
            tenant = self.tenants[tenant].parent

    def parting(self, one: str, other: str) -> tuple[str, str]:
        """The children of the lowest common ancestor, on the way to either."""
        mine, its = list(self.chain(one)), list(self.chain(other))
        return (
            [link for link in mine if link not in its][-1],
            [link for link in its if link not in mine][-1],
        )

    def of(self, tenant: str) -> list[Asked]:
        """The Pods of a queue and those below it, with what they ask for where they are."""
        return self._of_queue(tenant, self.pods)

    def running_of(self, tenant: str) -> list[Asked]:
        """Those that run."""
        return self._of_queue(tenant, [name for name in self.pods if name in self.running])

    def _of_queue(self, tenant: str, names: Iterable[str]) -> list[Asked]:
        pods = (self.pods[name] for name in names)
        mine = [pod for pod in pods if tenant in self.chain(pod.tenant)]
        if self.resources is self.bases:
            return mine
        return [self.at(pod, self.kind_of(pod)) for pod in mine]

    # Kinds of nodes

    @property
    def resources(self) -> list[str]:
        """Those of all nodes, then those of kinds for which some queue names an amount."""
        return self._named()[0]

    @property
    def divided_kinds(self) -> set[str]:
        """Those that are divided by themselves."""
        return self._named()[1]

    def _named(self) -> tuple[list[str], set[str]]:
        """`resources` and `divided_kinds`; kept, as everything asks for them."""
        of: list[object] = [self.bases, *(tenant.kinds for tenant in self.tenants.values())]
        if len(of) != len(self._of) or any(a is not b for a, b in zip(of, self._of, strict=True)):
            every = [on for tenant in self.tenants.values() for on in tenant.kinds]
            divided = {on.kind for on in every if on.weight is not None}
            named = {f"{r}@{on.kind}" for on in every for r in (*on.guaranteed, *on.limit)}
            named |= {f"{r}@{kind}" for r in self.bases for kind in divided}
            resources = [*self.bases, *sorted(named)] if named else self.bases
            self._of, self._kept = of, (resources, divided)
        return self._kept

    def pool(self, node: str) -> str:
        """With which nodes this one is divided: those of its kind, or "" for all together."""
        kind = self.kinds.get(node, "")
        return kind if kind in self.divided_kinds else ""

    def weight(self, tenant: Tenant, resource: str) -> int:
        """Its part of a resource, relative to its siblings."""
        kind = resource.partition("@")[2]
        named = [on.weight for on in tenant.kinds if on.kind == kind and on.weight is not None]
        return named[0] if named else tenant.weight

    def wants(self, pod: Asked) -> Amounts:
        """What it is demand for: on each kind that is divided by itself, if it may go there."""
        kinds = [kind for kind in self.possible_kinds(pod) if kind in self.divided_kinds]
        at = [self.at(pod, kind).requests for kind in (*kinds, self.kind_of(pod))]
        return {r: amount for requests in at for r, amount in requests.items()}

    @property
    def lines(self) -> list[str]:
        """The kinds in which guarantees cover Pods independently; "" stands for all nodes."""
        return ["", *sorted({r.partition("@")[2] for r in self.resources} - {""})]

    def at(self, pod: Asked, kind: str) -> Asked:
        """The Pod as it is on nodes of a kind."""
        named = self.resources[len(self.bases) :]
        if not named:
            return pod
        own = {r: amount for r, amount in pod.requests.items() if "@" not in r}
        on_kind = {f"{r}@{kind}": amount for r, amount in own.items() if f"{r}@{kind}" in named}
        return replace(pod, requests={**own, **on_kind})

    def order(self, tenant: str) -> list[str]:
        """The kinds where Pods of a queue may go, preferred ones first; "" is no kind.

        The nearest queue that names kinds says the order, all that are bound say what is allowed.
        """
        naming = [self.tenants[link] for link in self.chain(tenant) if self.tenants[link].kinds]
        every = [*self.preferred(tenant), "", *sorted(set(self.kinds.values()) - {""})]
        allowed = [{on.kind for on in its.kinds} for its in naming if its.is_bound]
        return [kind for kind in dict.fromkeys(every) if all(kind in some for some in allowed)]

    def preferred(self, tenant: str) -> list[str]:
        """The kinds that the nearest queue names; all others are alike, and come after these."""
        links = [self.tenants[link].kinds for link in self.chain(tenant)]
        return [on.kind for on in next(filter(None, links), ())]

    def kind_of(self, pod: Asked) -> str:
        """The kind of its node, or for which it asks: the first that it can have by itself."""
        if pod.name in self.running:
            return self.kinds.get(self.running[pod.name], "")
        return next(iter(self.possible_kinds(pod)), "")

    def possible_kinds(self, pod: Asked) -> list[str]:
        """Those with a node for it, whose limits allow such a Pod at all."""
        return [
            kind
            for kind in self.order(pod.tenant)
            if any(self.kinds.get(node, "") == kind for node in self.nodes_for(pod))
            and self.limits_allow(self.at(pod, kind))
        ]

    def nodes_for(self, pod: Asked) -> list[str]:
        """Those that take new Pods, that it may use, and that are large enough."""
        return [
            node
            for node, has in self.nodes.items()
            if node not in self.closed
            and (pod.nodes is None or node in pod.nodes)
            and all(has.get(r, 0) >= amount for r, amount in pod.requests.items() if "@" not in r)
        ]

    # Groups

    def together(self, group: str) -> Asked:
        """Those of a group that have to be placed at once."""
        mine = [pod for pod in self.pods.values() if pod.group == group]
        missing = self.minimums[group] - sum(pod.name in self.running for pod in mine)
        some = [pod for pod in mine if pod.name not in self.running][: max(missing, 1)]
        parts = tuple(pod.requests for pod in some)
        sums = {r: sum(part.get(r, 0) for part in parts) for r in self.resources}
        lowest = min(pod.priority for pod in some)
        return Asked(f"group {group}", some[0].tenant, sums, lowest, group=group, parts=parts)

    def units(self) -> dict[str, str]:
        """By running Pod, a name for all those that go together.

        Of a group, the Pods beyond its minimum go alone, those of the lowest priority first, then
        the youngest.
        """
        units = {name: name for name in self.running}
        for group, minimum in self.minimums.items():
            mine = [self.pods[name] for name in self.running if self.pods[name].group == group]
            mine.sort(key=lambda pod: -pod.priority)
            units |= {pod.name: f"group {group}" for pod in mine[:minimum]}
        return units

    def leaves_groups_whole(self, victims: Collection[str]) -> bool:
        """Whether each group loses what is beyond its minimum, or goes as a whole."""
        for group, minimum in self.minimums.items():
            mine = [name for name in self.running if self.pods[name].group == group]
            left = sum(name not in victims for name in mine)
            if 0 < left < min(minimum, len(mine)):
                return False
        return True

    def is_never_evicted(self, pod: Asked) -> bool:
        """Whether the Pod, its queue or a queue above says so."""
        return pod.never or not all(self.tenants[q].preemptible for q in self.chain(pod.tenant))

    def states(self, tenant: str) -> set[str]:
        """Of the queue and those above."""
        return {self.tenants[link].state for link in self.chain(tenant)}

    def takes(self, pod: Asked) -> bool:
        """Whether its queue and those above take the Pod: a draining one completes groups."""
        states = self.states(pod.tenant)
        completes = any(self.pods[name].group == pod.group for name in self.running)
        return states == {"Open"} or ("Closed" not in states and bool(pod.group) and completes)

    # Amounts

    def used(
        self,
        tenant: str,
        but: Collection[str] = (),
        plus: Asked | None = None,
        user: str | None = None,
    ) -> Amounts:
        """What its running Pods use, without some, and with another one; or those of a user."""
        some = [pod for pod in self.running_of(tenant) if pod.name not in but]
        if plus is not None and tenant in self.chain(plus.tenant):
            some.append(plus)
        some = [pod for pod in some if user is None or pod.user == user]
        return {r: sum(p.requests.get(r, 0) for p in some) for r in self.resources}

    def guaranteed(self, tenant: str) -> Amounts:
        """What is guaranteed to it; a parent that names nothing has what its children have."""
        own = self.tenants[tenant].amounts("guaranteed")
        below = [self.guaranteed(child) for child in self.children(tenant)]
        return {r: own.get(r, sum(amounts[r] for amounts in below)) for r in self.resources}

    def room(self, node: str, resource: str) -> int:
        """What the node has for Pods: one that takes no new ones, what its own use."""
        base, _, kind = resource.partition("@")
        if kind and self.kinds.get(node, "") != kind:
            return 0
        if node in self.closed:
            return self._on(node, base, ())
        return self.nodes[node].get(base, 0)

    def limits_allow(self, pod: Asked) -> bool:
        """Whether the Pod would be within all limits if it were alone."""
        tenants = [self.tenants[link] for link in self.chain(pod.tenant)]
        limits = [limit for its in tenants for limit in (its.amounts("limit"), its.user_limit)]
        if self.is_never_evicted(pod):
            limits += [self._for_never_evicted(link) for link in self.chain(pod.tenant)]
        return all(
            amount <= limit.get(r, amount) for limit in limits for r, amount in pod.requests.items()
        )

    def _for_never_evicted(self, tenant: str) -> Amounts:
        """What Pods that are never evicted may use together, on all nodes."""
        return {r: amount for r, amount in self.guaranteed(tenant).items() if "@" not in r}

    def can_run(self, pod: Asked) -> bool:
        """Whether limits and the largest node that takes new Pods allow such a Pod at all.

        One that may use some nodes, or whose queue names kinds, needs one that is large enough.
        """
        if not self.takes(pod) or not self.limits_allow(pod):
            return False
        if any(self.tenants[link].kinds for link in self.chain(pod.tenant)):
            return bool(self.possible_kinds(pod))
        if pod.nodes is not None:
            return bool(self.nodes_for(pod))
        takers = [amounts for name, amounts in self.nodes.items() if name not in self.closed]
        return all(
            amount <= max((amounts.get(r, 0) for amounts in takers), default=0)
            for r, amount in pod.requests.items()
            if "@" not in r
        )

    def needs(self, tenant: str) -> Amounts:
        """What it can use."""
        below = [self.needs(child) for child in self.children(tenant)]
        own = [
            pod
            for pod in self.of(tenant)
            if pod.tenant == tenant and (pod.name in self.running or self.can_run(pod))
        ]
        below += [self.wants(pod) for pod in own if not self.is_never_evicted(pod)]
        never = [self.wants(pod) for pod in own if self.is_never_evicted(pod)]
        most = self._for_never_evicted(tenant)
        together = {r: sum(p.get(r, 0) for p in never) for r in self.resources}
        below.append({r: min(amount, most.get(r, amount)) for r, amount in together.items()})
        limit = self.tenants[tenant].amounts("limit")
        sums = {r: sum(amounts.get(r, 0) for amounts in below) for r in self.resources}
        of_users = self._needs_of_users(tenant)
        return {
            r: min(amount, limit.get(r, amount), of_users.get(r, amount))
            for r, amount in sums.items()
        }

    def _needs_of_users(self, tenant: str) -> Amounts:
        """What its users can use together, of what has a limit for each."""
        limit = self.tenants[tenant].user_limit
        asked: dict[str, Counter[str]] = {}
        for pod in self.of(tenant):
            if pod.name in self.running or self.can_run(pod):
                asked.setdefault(pod.user, Counter()).update(pod.requests)
        return {
            r: sum(min(amounts[r], most) for amounts in asked.values()) for r, most in limit.items()
        }

    def divided(self) -> Divided:
        """The shares of all queues."""
        whole: dict[str, dict[str, int]] = {name: {} for name in self.tenants}
        exact: dict[str, dict[str, Fraction]] = {name: {} for name in self.tenants}
        kept: dict[str, dict[str, int]] = {name: {} for name in self.tenants}
        contended: dict[str, set[str]] = {name: set() for name in ("", *self.tenants)}
        together = {r: sum(self.room(name, r) for name in self.nodes) for r in self.resources}
        there = {r for r in self.resources if self._is_there(r, together[r])}

        def divide(parent: str, room: Amounts) -> None:
            children = [self.tenants[name] for name in self.children(parent)]
            needs = {child.name: self.needs(child.name) for child in children}
            needed = {child.name: self.needed_guarantee(child.name) for child in children}
            for r in self.resources:
                want = {name: amounts[r] for name, amounts in needs.items()}
                kind = r.partition("@")[2]
                if sum(want.values()) > room[r] and (not kind or kind in self.divided_kinds):
                    contended[parent].add(r)
                weighing = [replace(child, weight=self.weight(child, r)) for child in children]
                promised = {
                    n: max(its[r], min(want[n], _on_kinds(its, r))) for n, its in needed.items()
                }
                first = {name: min(want[name], promised[name]) for name in want}
                got = fill(room[r], first, promised, weighing)
                share = dict(got)
                for name, (amount, _) in got.items():
                    is_there = self._due(name)[r] if r in there else min(amount, needed[name][r])
                    kept[name][r] = is_there
                for turn, weight in turns(weighing):
                    left = room[r] - sum(amount for amount, _ in share.values())
                    more = {t.name: want[t.name] - got[t.name][0] for t in turn}
                    for name, (amount, part) in fill(left, more, weight, turn).items():
                        share[name] = share[name][0] + amount, share[name][1] + part
                for name, (amount, part) in share.items():
                    whole[name][r] = amount
                    exact[name][r] = part if r.startswith(CPU) else Fraction(amount)
            for child in children:
                divide(child.name, whole[child.name])

        divide("", together)
        return Divided(
            whole, exact, kept, {name: frozenset(some) for name, some in contended.items()}
        )

    def _due(self, tenant: str) -> Amounts:
        """What is guaranteed to it within its limit."""
        limit = self.tenants[tenant].amounts("limit")
        return {r: min(a, limit.get(r, a)) for r, a in self.guaranteed(tenant).items()}

    def _is_there(self, resource: str, room: int) -> bool:
        """Whether it is one of a kind, and all that is guaranteed of it fits, at each level."""
        below = {
            parent: sum(self._due(child)[resource] for child in self.children(parent))
            for parent in ("", *self.tenants)
        }
        return (
            "@" in resource
            and below[""] <= room
            and all(
                below[name] <= self._due(name)[resource]
                for name in self.tenants
                if self.children(name)
            )
        )

    def contended(self, tenant: str, of: Divided, pool: str) -> list[str]:
        """The resources on nodes of a pool of which it and its siblings need more than there is."""
        every = of.contended[self.tenants[tenant].parent]
        return [r for r in every if r.partition("@")[2] == pool]

    def lacks(self, tenant: str, of: Divided, pool: str = "") -> set[str]:
        """The contended resources of which it uses something without a share."""
        used = self.used(tenant)
        return {r for r in self.contended(tenant, of, pool) if used[r] and not of.exact[tenant][r]}

    def saturation(
        self,
        tenant: str,
        of: Divided,
        but: Collection[str] = (),
        plus: Asked | None = None,
        pool: str = "",
    ) -> Fraction:
        """The largest used / share of a contended resource."""
        used = self.used(tenant, but, plus)
        ratios = [Fraction(0)]
        for r in self.contended(tenant, of, pool):
            if used[r]:
                share = of.exact[tenant][r]
                ratios.append(used[r] / share if share else INFINITE)
        return max(ratios)

    def needed_guarantee(self, tenant: str) -> Amounts:
        """What of its guarantee is needed by whom it is for."""
        children, need = self.children(tenant), self.needs(tenant)
        guaranteed = self.guaranteed(tenant)
        if not children:
            return {r: min(guaranteed[r], need[r]) for r in self.resources}
        below = [self.guaranteed(child) for child in children]
        needed = [self.needed_guarantee(child) for child in children]
        return {
            r: min(
                guaranteed[r],
                need[r],
                max(guaranteed[r] - sum(amounts[r] for amounts in below), 0)
                + sum(amounts[r] for amounts in needed),
            )
            for r in self.resources
        }

    # Who may be evicted

    def covered(self, tenant: str, amounts: Mapping[str, Amounts], plus: Asked | None) -> set[str]:
        """The running Pods, and another one, that are covered by such guarantees."""
        return set().union(*self.covered_by_line(tenant, amounts, plus).values())

    def covered_by_line(
        self, tenant: str, amounts: Mapping[str, Amounts], plus: Asked | None
    ) -> dict[str, list[str]]:
        """By kind of nodes who is covered; "" for all nodes, where those of kinds come first."""
        first = {n for child in self.children(tenant) for n in self.covered(child, amounts, plus)}
        by_line: dict[str, list[str]] = {}
        for kind in reversed(self.lines):
            left = {
                r: amount
                for r, amount in amounts[tenant].items()
                if amount and r.partition("@")[2] == kind
            }
            before = first.union(*by_line.values()) if not kind else first
            by_line[kind] = self._go_through(tenant, left, plus, before)
        return by_line

    def _go_through(
        self, tenant: str, left: dict[str, int], plus: Asked | None, first: Collection[str]
    ) -> list[str]:
        mine = {pod.name: pod for pod in self.running_of(tenant)}
        together: dict[str, list[Asked]] = {}
        for name, unit in self.units().items():
            if name in mine:
                together.setdefault(unit, []).append(mine[name])
        if plus is not None and tenant in self.chain(plus.tenant):
            together[f"another {plus.name}"] = [plus]
        asks = {
            unit: {r: sum(pod.requests.get(r, 0) for pod in pods) for r in left}
            for unit, pods in together.items()
        }
        line = sorted(
            (unit for unit in together if any(asks[unit].values())),
            key=lambda unit: (
                not any(self.is_never_evicted(pod) for pod in together[unit]),
                all(pod.name not in first for pod in together[unit]),
                -max(pod.priority for pod in together[unit]),
            ),
        )
        covered: list[str] = []
        units: set[str] = set()
        for unit in line:
            base = f"group {together[unit][0].group}"
            has_base = unit == base or base not in line or base in units
            if has_base and all(asks[unit][r] <= left[r] for r in left):
                left = {r: left[r] - asks[unit][r] for r in left}
                units.add(unit)
                covered += [pod.name for pod in together[unit]]
        return covered

    def is_kept(self, pod: Asked, victims: Collection[str]) -> bool:
        """Whether guarantees cover as much without the victims, counted from each priority upwards.

        Of the queues of the victims, up to where these part from that of ``pod``; in each line.
        """
        mine = set(self.chain(pod.tenant))
        links = {q for name in victims for q in self.chain(self.pods[name].tenant)} - mine
        priorities = {self.pods[name].priority for name in victims}
        had = {(q, p): self._covered_from(q, p) for q in links for p in priorities}
        with self._without(victims):
            has = {(q, p): self._covered_from(q, p) for q in links for p in priorities}
        return all(has[key][r] >= had[key][r] for key in had for r in self.resources)

    def gains(self, pod: Asked, victims: Collection[str]) -> bool:
        """Whether guarantees of its own queue and those above cover more, if it runs for them.

        Or as much. From its own queue upwards, in each on kinds of nodes before all nodes, from the
        highest priority down, the first difference counts; Pods that are never evicted come before
        all priorities.
        """
        levels = sorted({NEVER, *(one.priority for one in self.pods.values())}, reverse=True)
        for link in self.chain(pod.tenant):
            had = {level: self._covered_from(link, level) for level in levels}
            with self._without(victims):
                has = {level: self._covered_from(link, level, pod) for level in levels}
            for kind in reversed(self.lines):
                line = [r for r in self.resources if r.partition("@")[2] == kind]
                for level in levels:
                    if any(has[level][r] != had[level][r] for r in line):
                        return all(has[level][r] >= had[level][r] for r in line)
        return True

    @contextmanager
    def _without(self, victims: Collection[str]) -> Iterator[None]:
        before = self.running
        self.running = {name: at for name, at in before.items() if name not in victims}
        yield
        self.running = before

    def is_replaced(self, pod: Asked, victim: str, of: Divided) -> bool:
        """Whether each guarantee that covers a Pod of the own queue covers ``pod`` instead."""
        declared = {name: self.guaranteed(name) for name in self.tenants}
        return all(
            self.claims(pod, link, of)
            for link in self.chain(pod.tenant)
            if victim in self.covered(link, declared, None)
        )

    def _covered_from(self, tenant: str, level: int, plus: Asked | None = None) -> Amounts:
        """What is covered from a priority upwards; of each resource, by the line of its kind."""
        amounts = {name: self.guaranteed(name) for name in self.tenants}
        pods = {pod.name: pod for pod in self.running_of(tenant)}
        if plus is not None:
            pods[plus.name] = plus
        by_line = self.covered_by_line(tenant, amounts, plus)
        result = dict.fromkeys(self.resources, 0)
        for r in (r for r, amount in amounts[tenant].items() if amount):
            some = [pods[name] for name in by_line[r.partition("@")[2]]]
            some = [pod for pod in some if pod.priority >= level or self.is_never_evicted(pod)]
            result[r] = sum(pod.requests.get(r, 0) for pod in some)
        return result

    def claims(self, pod: Asked, tenant: str, of: Divided) -> bool:
        """Whether what is guaranteed to ``tenant``, and there, would cover it, in one line."""
        declared = {name: self.guaranteed(name) for name in self.tenants}
        both = [self.covered_by_line(tenant, some, pod) for some in (of.guaranteed, declared)]
        return any(all(pod.name in by_line[line] for by_line in both) for line in self.lines)

    def stays(self, pod: Asked, victim: Asked) -> bool:
        """Whether the victim does not go for ``pod``, whatever shares and guarantees are."""
        if victim.tenant == pod.tenant:
            return self.is_never_evicted(victim)
        its, is_lower = self.tenants[victim.tenant], victim.priority < pod.priority
        return (
            self.is_never_evicted(victim)
            or not its.reclaimable
            or self.now - self.started.get(victim.name, 0) < its.min_runtime
            or (self.tenants[pod.tenant].from_lower and not is_lower)
        )

    def may_evict(self, pod: Asked, victims: Collection[str], of: Divided) -> bool:
        """Whether all of these may go for ``pod``, which then is on nodes of some kind."""
        kinds = {self.kinds.get(node, ""): self.pool(node) for node in self.fits(pod, victims)}
        return any(
            self._may_evict(self.at(pod, kind), victims, of, pool) for kind, pool in kinds.items()
        )

    def may_claim(self, pod: Asked, of: Divided) -> set[frozenset[str]]:
        """The sets of Pods that may go for one whom a guarantee would cover, where it may go."""
        claimed = {
            kind: any(self.claims(self.at(pod, kind), link, of) for link in self.chain(pod.tenant))
            for kind in self.order(pod.tenant)
        }
        sets = self.sets(pod) if any(claimed.values()) else []
        return {
            some
            for some in sets
            if any(claimed[self.kinds.get(node, "")] for node in self.fits(pod, some))
        }

    def _may_evict(self, pod: Asked, victims: Collection[str], of: Divided, pool: str) -> bool:
        others = [name for name in victims if self.pods[name].tenant != pod.tenant]
        if not self.leaves_groups_whole(victims) or not self.is_kept(pod, others):
            return False
        if not self.gains(pod, victims):
            return False
        for name in victims:
            victim = self.pods[name]
            if self.stays(pod, victim):
                return False
            if victim.tenant == pod.tenant:
                if victim.priority >= pod.priority or not self.is_replaced(pod, name, of):
                    return False
                continue
            mine, branch = self.parting(pod.tenant, victim.tenant)
            if self.claims(pod, mine, of):
                continue
            after = self.saturation(mine, of, victims, pod, pool)
            before = self.saturation(branch, of, pool=pool)
            if before < INFINITE:
                left = self.saturation(branch, of, victims, pool=pool)
                is_entitled = after < before and after <= left
            else:
                lacking = self.lacks(branch, of, pool)
                requests = self.at(victim, self.kind_of(victim)).requests
                is_entitled = after < INFINITE and any(requests.get(r, 0) for r in lacking)
            if not is_entitled or self.pool(self.running[name]) != pool:
                return False
        return True

    # Limits that were lowered

    def is_above_limit(self, tenant: str, but: Collection[str] = ()) -> bool:
        """Whether it uses more than its limit; a closed queue may have no Pods."""
        if "Closed" in self.states(tenant):
            return any(pod.name in self.running and pod.name not in but for pod in self.of(tenant))
        used = self.used(tenant, but)
        return any(used[r] > most for r, most in self.tenants[tenant].amounts("limit").items())

    def may_leave(self, tenant: str) -> set[str]:
        """The Pods that help a queue back to its limit; those that are never evicted stay."""
        used, closed = self.used(tenant), "Closed" in self.states(tenant)
        limit = self.tenants[tenant].amounts("limit")
        above = {r for r, most in limit.items() if used[r] > most}
        return {
            pod.name
            for pod in self.of(tenant)
            if pod.name in self.running
            and not self.is_never_evicted(pod)
            and (closed or any(pod.requests.get(r, 0) for r in above))
        }

    def faults_of_lowering(self, tenants: Collection[str], gone: set[str]) -> Iterator[str]:
        """What is wrong if these go as ``tenants`` have been above their limits for long."""
        leaving = {name: self.may_leave(name) for name in tenants}
        if beyond := gone.difference(*leaving.values()):
            yield f"{beyond} must stay"
        if not self.leaves_groups_whole(gone):
            yield "a part of a group is left"
        declared = {name: self.guaranteed(name) for name in self.tenants}
        last: set[str] = set()
        for name, some in leaving.items():
            if self.is_above_limit(name, gone) and not some <= gone:
                yield f"{name} is above its limit still"
            below = [link for link in self.tenants if name in self.chain(link)]
            covered = set().union(*(self.covered(link, declared, None) for link in below))
            last |= some - covered
            if self.is_above_limit(name, some - covered):
                last |= some
        if early := gone - last:
            yield f"{early} are covered, and others are enough"
        units = self.units()
        for unit in {units[pod] for pod in gone}:
            left = {pod for pod in gone if units[pod] != unit}
            same = all(
                self.is_above_limit(name, gone) or not self.is_above_limit(name, left)
                for name in tenants
            )
            if self.leaves_groups_whole(left) and same:
                yield f"{unit} goes for nothing"

    # Room

    def fits(self, pod: Asked, but: Collection[str] = ()) -> list[str]:
        """The nodes with room, if limits allow the Pod, without some Pods; preferred ones first."""
        if not self.takes(pod):
            return []
        nodes: list[str] = []
        for kind in self.order(pod.tenant):
            if not self._is_within_limits(self.at(pod, kind), but):
                continue
            free = {
                node: {r: has.get(r, 0) - self._on(node, r, but) for r in self.bases}
                for node, has in self.nodes.items()
                if node not in self.closed
                and (pod.nodes is None or node in pod.nodes)
                and self.kinds.get(node, "") == kind
            }
            nodes += [node for node in free if place(pod.parts or (pod.requests,), free, node)]
        return nodes

    def _is_within_limits(self, pod: Asked, but: Collection[str]) -> bool:
        for link in self.chain(pod.tenant):
            tenant = self.tenants[link]
            of_all = self.used(link, but, pod), tenant.amounts("limit")
            of_user = self.used(link, but, pod, pod.user), tenant.user_limit
            never = self.used_by_never_evicted(link, but, pod), self._for_never_evicted(link)
            for used, limit in (of_all, of_user, *([never] if self.is_never_evicted(pod) else [])):
                asked = [r for r, amount in pod.requests.items() if amount]
                if any(used[r] > limit.get(r, used[r]) for r in asked):
                    return False
        return True

    def used_by_never_evicted(self, tenant: str, but: Collection[str], plus: Asked) -> Amounts:
        """What those use of its running Pods, and another one, that are never evicted."""
        stay = {pod.name for pod in self.of(tenant) if not self.is_never_evicted(pod)}
        return self.used(tenant, {*but, *stay}, plus)

    def _on(self, node: str, resource: str, but: Collection[str]) -> int:
        return sum(
            self.pods[name].requests.get(resource, 0)
            for name, its in self.running.items()
            if its == node and name not in but
        )

    def sets(self, pod: Asked, largest: int = 3) -> list[frozenset[str]]:
        """The smallest sets of Pods that make room, if they may be evicted."""
        of = self.divided()
        enough: list[frozenset[str]] = []
        together: dict[str, list[str]] = {}
        for name, unit in self.units().items():
            together.setdefault(unit, []).append(name)
        for size in range(1, largest + 1):
            for units in combinations(together.values(), size):
                some = frozenset(name for unit in units for name in unit)
                if not any(smaller <= some for smaller in enough) and self.fits(pod, some):
                    enough.append(some)
        return [some for some in enough if self.may_evict(pod, some, of)]

    def waiting(self) -> list[Asked]:
        """The Pods that do not run; those of a group whose minimum does not, together."""
        pods = [pod for pod in self.pods.values() if pod.name not in self.running]
        begun = {self.pods[name].group for name in self.running}
        groups = {pod.group for pod in pods} - begun - {""}
        alone = [pod for pod in pods if pod.group not in groups]
        sizes = Counter(pod.group for pod in pods)
        whole = [self.together(g) for g in sorted(groups) if sizes[g] >= self.minimums[g]]
        return alone + whole


def _on_kinds(amounts: Amounts, resource: str) -> int:
    """What of a resource there is on nodes of all kinds together."""
    return sum(a for r, a in amounts.items() if r.startswith(f"{resource}@"))


def place(
    parts: Sequence[Amounts], free: Mapping[str, Mapping[str, int]], first: str | None = None
) -> bool:
    """Whether all of them fit, the first one on a node if one is given."""
    if not parts:
        return True
    for node in free if first is None else (first,):
        left = {r: free[node][r] - parts[0].get(r, 0) for r in free[node]}
        enough = all(amount >= 0 for r, amount in left.items() if parts[0].get(r))
        if enough and place(parts[1:], {**free, node: left}):
            return True
    return False


def turns(tenants: Sequence[Tenant]) -> Iterator[tuple[list[Tenant], Mapping[str, int]]]:
    """Who is served together with which weights: by priority; weight 0 comes last."""
    for priority in sorted({t.priority for t in tenants}, reverse=True):
        turn = [t for t in tenants if t.priority == priority and t.weight]
        yield turn, {t.name: t.weight for t in turn}
    idle = [t for t in tenants if not t.weight]
    yield idle, {t.name: 1 for t in idle}


def fill(
    room: int, want: Amounts, weight: Mapping[str, int], tenants: Sequence[Tenant]
) -> dict[str, tuple[int, Fraction]]:
    """Water-filling in whole units, the rest by the largest remainder; and not rounded."""
    exact = {name: Fraction(0) for name in want}
    left, thirsty = Fraction(room), {name for name in want if want[name]}
    while thirsty:
        level = left / sum(weight[name] for name in thirsty)
        full = {name for name in thirsty if want[name] <= level * weight[name]}
        for name in full:
            exact[name] = Fraction(want[name])
            left -= want[name]
        if not full:
            exact |= {name: level * weight[name] for name in thirsty}
            break
        thirsty -= full
    whole = {name: int(part) for name, part in exact.items()}
    by_name = {tenant.name: tenant for tenant in tenants}
    order = sorted(
        (name for name in want if exact[name] > whole[name]),
        key=lambda n: (whole[n] - exact[n], -by_name[n].priority, -by_name[n].weight, n),
    )
    for name in order[: min(room, sum(want.values())) - sum(whole.values())]:
        whole[name] += 1
    return {name: (whole[name], exact[name]) for name in want}
