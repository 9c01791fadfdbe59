"""The rules of tenants as a slow program of their own, by their words (docs/tenants.md).

Nothing of ``bayplan`` is used: whole and exact numbers, loops, no shortcut. A world is small: a few
nodes and queues, a dozen Pods. Resources are named; "cpu" is divisible, all others are counted in
whole devices. The rules judge; they do not choose: `World.sets` lists all smallest sets of Pods
that may be evicted for a Pod, so that the tests can ask whether the scheduler took one of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

CPU = "cpu"
Amounts = Mapping[str, int]
INFINITE = Fraction(10**12)
NEVER = 10**12
"""Above all priorities."""


@dataclass(frozen=True)
class Tenant:
    """A queue."""

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
    open: bool = True
    user_limit: Amounts = field(default_factory=dict)


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
        self.minimums: dict[str, int] = {}
        self.resources = sorted({name for amounts in nodes.values() for name in amounts})

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
        """The Pods of a queue and those below it."""
        return [pod for pod in self.pods.values() if tenant in self.chain(pod.tenant)]

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

    def is_open(self, tenant: str) -> bool:
        """Whether the queue and those above take Pods."""
        return all(self.tenants[link].open for link in self.chain(tenant))

    # Amounts

    def used(
        self,
        tenant: str,
        but: Collection[str] = (),
        plus: Asked | None = None,
        user: str | None = None,
    ) -> Amounts:
        """What its running Pods use, without some, and with another one; or those of a user."""
        some = [p for p in self.of(tenant) if p.name in self.running and p.name not in but]
        if plus is not None and tenant in self.chain(plus.tenant):
            some.append(plus)
        some = [pod for pod in some if user is None or pod.user == user]
        return {r: sum(p.requests.get(r, 0) for p in some) for r in self.resources}

    def guaranteed(self, tenant: str) -> Amounts:
        """What is guaranteed to it; a parent that names nothing has what its children have."""
        own = self.tenants[tenant].guaranteed
        below = [self.guaranteed(child) for child in self.children(tenant)]
        return {r: own.get(r, sum(amounts[r] for amounts in below)) for r in self.resources}

    def room(self, node: str, resource: str) -> int:
        """What the node has for Pods: one that takes no new ones, what its own use."""
        if node in self.closed:
            return self._on(node, resource, ())
        return self.nodes[node].get(resource, 0)

    def can_run(self, pod: Asked) -> bool:
        """Whether limits and the largest node that takes new Pods allow such a Pod at all.

        One that may use some nodes only needs one of these that is large enough.
        """
        if not self.is_open(pod.tenant):
            return False
        if self.is_never_evicted(pod):
            for link in self.chain(pod.tenant):
                guaranteed = self.guaranteed(link)
                if any(amount > guaranteed[r] for r, amount in pod.requests.items()):
                    return False
        tenants = [self.tenants[link] for link in self.chain(pod.tenant)]
        limits = [limit for its in tenants for limit in (its.limit, its.user_limit)]
        takers = [amounts for name, amounts in self.nodes.items() if name not in self.closed]
        if pod.nodes is not None:
            some = [
                amounts for name, amounts in self.nodes.items() if name in pod.nodes - self.closed
            ]
            if not any(all(has.get(r, 0) >= a for r, a in pod.requests.items()) for has in some):
                return False
        return all(
            amount <= min([limit.get(r, amount) for limit in limits])
            and amount <= max((amounts.get(r, 0) for amounts in takers), default=0)
            for r, amount in pod.requests.items()
        )

    def needs(self, tenant: str) -> Amounts:
        """What it can use."""
        below = [self.needs(child) for child in self.children(tenant)]
        own = [
            pod
            for pod in self.of(tenant)
            if pod.tenant == tenant and (pod.name in self.running or self.can_run(pod))
        ]
        below += [pod.requests for pod in own if not self.is_never_evicted(pod)]
        never = [pod.requests for pod in own if self.is_never_evicted(pod)]
        guaranteed = self.guaranteed(tenant)
        below.append(
            {r: min(guaranteed[r], sum(p.get(r, 0) for p in never)) for r in self.resources}
        )
        limit = self.tenants[tenant].limit
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

        def divide(parent: str, room: Amounts) -> None:
            children = [self.tenants[name] for name in self.children(parent)]
            needs = {child.name: self.needs(child.name) for child in children}
            for r in self.resources:
                want = {name: amounts[r] for name, amounts in needs.items()}
                if sum(want.values()) > room[r]:
                    contended[parent].add(r)
                promised = {child.name: self.needed_guarantee(child.name)[r] for child in children}
                first = {name: min(want[name], promised[name]) for name in want}
                got = fill(room[r], first, promised, children)
                share = dict(got)
                for name, (amount, _) in got.items():
                    kept[name][r] = amount
                for turn, weight in turns(children):
                    left = room[r] - sum(amount for amount, _ in share.values())
                    more = {t.name: want[t.name] - got[t.name][0] for t in turn}
                    for name, (amount, part) in fill(left, more, weight, turn).items():
                        share[name] = share[name][0] + amount, share[name][1] + part
                for name, (amount, part) in share.items():
                    whole[name][r] = amount
                    exact[name][r] = part if r == CPU else Fraction(amount)
            for child in children:
                divide(child.name, whole[child.name])

        divide("", together)
        return Divided(
            whole, exact, kept, {name: frozenset(some) for name, some in contended.items()}
        )

    def saturation(
        self, tenant: str, of: Divided, but: Collection[str] = (), plus: Asked | None = None
    ) -> Fraction:
        """The largest used / share of a contended resource."""
        used = self.used(tenant, but, plus)
        ratios = [Fraction(0)]
        for r in of.contended[self.tenants[tenant].parent]:
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

    def covered(self, tenant: str, amounts: Mapping[str, Amounts], plus: Asked | None) -> list[str]:
        """The running Pods, and another one, that are covered by such guarantees."""
        first = {n for child in self.children(tenant) for n in self.covered(child, amounts, plus)}
        mine = {pod.name: pod for pod in self.of(tenant)}
        together: dict[str, list[Asked]] = {}
        for name, unit in self.units().items():
            if name in mine:
                together.setdefault(unit, []).append(mine[name])
        if plus is not None and tenant in self.chain(plus.tenant):
            together[f"another {plus.name}"] = [plus]
        left = {r: amount for r, amount in amounts[tenant].items() if amount}
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

        Of the queues of the victims, up to where these part from that of ``pod``.
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

        Or as much. From its own queue upwards, in each from the highest priority down, the first
        difference counts; Pods that are never evicted come before all priorities.
        """
        levels = sorted({NEVER, *(one.priority for one in self.pods.values())}, reverse=True)
        for link in self.chain(pod.tenant):
            for level in levels:
                had = self._covered_from(link, level)
                with self._without(victims):
                    has = self._covered_from(link, level, pod)
                if has != had:
                    return all(has[r] >= had[r] for r in self.resources)
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
        amounts = {name: self.guaranteed(name) for name in self.tenants}
        pods = {**self.pods, plus.name: plus} if plus is not None else self.pods
        some = [pods[name] for name in self.covered(tenant, amounts, plus)]
        some = [pod for pod in some if pod.priority >= level or self.is_never_evicted(pod)]
        named = {r for r, amount in amounts[tenant].items() if amount}
        return {r: sum(p.requests.get(r, 0) for p in some if r in named) for r in self.resources}

    def claims(self, pod: Asked, tenant: str, of: Divided) -> bool:
        """Whether what is guaranteed to ``tenant``, and there, would cover it."""
        declared = {name: self.guaranteed(name) for name in self.tenants}
        both = of.guaranteed, declared
        return all(pod.name in self.covered(tenant, amounts, pod) for amounts in both)

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
        """Whether all of these may go for ``pod``."""
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
            after = self.saturation(mine, of, victims, pod)
            before = self.saturation(branch, of)
            if after >= min(before, INFINITE):
                return False
            if before < INFINITE and after > self.saturation(branch, of, victims):
                return False
        return True

    # Room

    def fits(self, pod: Asked, but: Collection[str] = ()) -> list[str]:
        """The nodes with room, if limits allow the Pod, without some Pods."""
        if not self.is_open(pod.tenant):
            return []
        for link in self.chain(pod.tenant) if self.is_never_evicted(pod) else ():
            some = [
                self.pods[name]
                for name in self.running
                if name not in but and self.pods[name] in self.of(link)
            ]
            never = [one.requests for one in some if self.is_never_evicted(one)]
            guaranteed = self.guaranteed(link)
            for r, amount in pod.requests.items():
                if sum(requests.get(r, 0) for requests in never) + amount > guaranteed[r]:
                    return []
        for link in self.chain(pod.tenant):
            used, limit = self.used(link, but, pod), self.tenants[link].limit
            own, of_user = self.used(link, but, pod, pod.user), self.tenants[link].user_limit
            for r in pod.requests:
                if pod.requests[r] and used[r] > limit.get(r, used[r]):
                    return []
                if pod.requests[r] and own[r] > of_user.get(r, own[r]):
                    return []
        free = {
            node: {r: has.get(r, 0) - self._on(node, r, but) for r in self.resources}
            for node, has in self.nodes.items()
            if node not in self.closed and (pod.nodes is None or node in pod.nodes)
        }
        return [node for node in free if place(pod.parts or (pod.requests,), free, node)]

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
