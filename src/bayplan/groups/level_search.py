"""LevelSearch: places a group and all sub-groups, each in a domain of its own.

A group is a tree (`bayplan.cache.sub_groups`). To *place* a part of it is to find a domain within
that of its parent (`bayplan.groups.domains`), and there to place first the parts below it, then as
many of its other Pods as its minimum needs. At the end as many more Pods come along as fit, each in
the domain of its sub-group. A group without sub-groups is one part.

Parts that share a parent are placed beside each other, the hardest first: that with the fewest
domains that could hold it, then the largest. Where one of them finds no room, that before it takes
its next domain; where one cannot be placed although there is room, those after it are placed before
it, as they may attract it. So room that an earlier choice has taken is found, as long as the group
is small: when `attempts` Pods were tried in all, no choice is made anew.

A part that has slices is placed slice by slice (`bayplan.groups.slice_fill`), the minimum in a
layout that arithmetic has found; Pods beyond that go one by one where their slice may be. Slices of
unlike Pods, or beside other parts, are one packing of the whole group, if it is small enough
(`bayplan.groups.packed_fill`).

An example: two racks of 4 places, one of them with GPUs. Part a, of 4 Pods, and part b, of 4 Pods
that need GPUs, require a rack each. One rack can hold b, two can hold a: b is placed first. Where a
comes first by name and both could be anywhere, a takes the rack with GPUs, b finds none, a takes
the other rack, b the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.attempt import homes
from bayplan.attempt.outcome import Reason
from bayplan.attempt.slice_homes import Home
from bayplan.cache.cache import Cache
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import SubGroup, sub_group_of
from bayplan.engine.capacity import PodKind, kind_of
from bayplan.engine.runtime import Framework
from bayplan.groups import domains as levels
from bayplan.groups import words_label
from bayplan.groups.capacity import GroupCapacity, kinds_of
from bayplan.groups.decision import GroupRejection
from bayplan.groups.domains import Domain, Share
from bayplan.groups.fill import Fill, Rejected
from bayplan.groups.packed_fill import PackedFill
from bayplan.groups.slice_fill import SliceFill
from bayplan.groups.slice_packing import Steps

LEAST_ATTEMPTS = 4_000
"""About half a second's work."""
EACH_ATTEMPTS = 8
"""For each Pod of the group, if that is more."""

Rows = BoolArray | None
"""(n,) the rows that may be used; None for all."""


class LevelSearch:
    """One search. What it has taken when `run` returns is the caller's to undo.

    Args:
        framework: the profile of the Pods.
        fill: places them.
        cache: the nodes, and where Pods of groups are.
        group: what is asked for.
        pods: of the group, in the order in which they are tried.
        steps: how much work packings of slices may do.

    Attributes:
        domains: by part, the domain that it is in, where its topology has limited it to one.
        slices: by part that has slices, the domains of these, with the number of Pods in each.
    """

    def __init__(
        self,
        framework: Framework,
        fill: Fill,
        cache: Cache,
        group: Group,
        pods: Sequence[Pod],
        steps: Steps,
    ) -> None:
        self._framework, self._group, self._steps = framework, group, steps
        self._nodes, self._groups = cache.nodes, cache.groups
        self._fill = fill
        self.domains: dict[str, Domain] = {}
        self.slices: dict[str, list[Share]] = {}
        self._rows: dict[str, Rows] = {}
        self._plugins: set[str] = set()
        self._pods: dict[str, list[Pod]] = {part.name: [] for part in group.walk()}
        for pod in pods:
            self._pods[group.path(sub_group_of(pod.shape))[-1].name].append(pod)
        self._kinds = kinds_of(pods) if group.parts else {}
        self._most_attempts = max(LEAST_ATTEMPTS, EACH_ATTEMPTS * len(pods))

    def run(self) -> GroupRejection | None:
        """Place the minimum of the group and of each part, and what else fits; or nothing."""
        packed = self._packed_fill()
        if packed is not None and packed.first and self._pack(packed):
            return None
        rejection = self._place((self._group,), None)
        if rejection is None or rejection.reason is Reason.SCHEDULER_ERROR:
            return rejection
        if packed is not None and not packed.first and self._pack(packed):
            return None
        if not self._group.parts:
            return rejection
        # What helps another part than the one that it speaks of may leave room for that.
        capacity = self._capacity(self._group)
        plugins = self._plugins.union(rejection.plugins, capacity.plugins)
        return replace(rejection, plugins=plugins, pods=capacity.pods or rejection.pods)

    def _packed_fill(self) -> PackedFill | None:
        """What places all parts in one packing; None where that is of no use, or cannot help."""
        group, pods = self._group, dict[str, Sequence[Pod]]()
        if not any(part.slices for part in group.walk()) or any(p.begun for p in group.walk()):
            return None
        for part in group.walk():
            own = part.minimum - sum(below.minimum for below in part.parts)
            pods[part.name] = self._pods[part.name][:own]
        packed = PackedFill(
            self._framework, self._fill, self._nodes, group, pods, None, self._steps
        )
        fits = packed.applies and self._capacity(group).at_most() >= group.minimum
        return packed if fits else None

    def _pack(self, packed: PackedFill) -> bool:
        """Place the minimum of all parts at once, and what else fits; or nothing."""
        if not packed.run():
            return False
        self._rows, self.domains, self.slices = packed.rows, packed.domains, packed.slices
        self._fill_rest(self._group, 0)
        if len(self._fill.placed) >= self._group.minimum:
            return True
        self._fill.undo()
        self._rows, self.domains, self.slices = {}, {}, {}
        return False

    def _not_placed(self, pods: Iterable[Pod]) -> list[Pod]:
        placed = {placed.member.pod.uid for placed in self._fill.placed}
        return [pod for pod in pods if pod.uid not in placed]

    def _place(self, parts: Sequence[SubGroup], within: Rows) -> GroupRejection | None:
        """Place all of these beside each other, the first one first, or nothing."""
        if not parts:
            return None
        mark, why = len(self._fill.placed), None
        for first in parts:
            rest = [part for part in parts if part is not first]
            fits, attempts = False, self._fill.attempts
            for failure in self._place_in_each(first, within):
                fits |= failure is None
                rejection = failure or self._place(rest, within)
                if rejection is None:
                    return None
                self._fill.undo(mark)
                why = why or rejection
                if rejection.reason is Reason.SCHEDULER_ERROR:
                    return rejection
                if rest and self._fill.attempts > self._most_attempts:
                    return why
            if fits or self._fill.attempts == attempts:
                break
        return why

    def _hardest_first(self, parts: Sequence[SubGroup], within: Rows) -> Sequence[SubGroup]:
        def hardness(part: SubGroup) -> tuple[int, int]:
            level = part.topology.required if part.topology is not None else ""
            fit = levels.most_by_domain(self._nodes, level, self._capacity(part), within)
            choices = int((fit >= part.minimum).sum())
            return choices if level or not choices else len(self._nodes), -part.minimum

        return sorted(parts, key=hardness)

    def _capacity(self, part: SubGroup) -> GroupCapacity:
        pods = [pod for below in part.walk() for pod in self._pods[below.name]]
        return GroupCapacity(self._framework, pods, self._kinds)

    def _place_in_each(self, part: SubGroup, within: Rows) -> Iterator[GroupRejection | None]:
        """Place one part in one of its domains after the other.

        Yields:
            None where it is placed, which is for the caller to undo before it goes on; why it
            cannot be, at last, if it was in none.
        """
        capacity = self._capacity(part)
        slices = self._slices(part, capacity, within)
        tried: list[tuple[Domain, GroupRejection]] = []
        placed = False
        for level in part.topology.steps if part.topology is not None else ("",):
            domains = self._domains(part, level, capacity, within)
            if slices is not None:
                domains = slices.ordered(domains)
            enough = [domain for domain in domains if domain.holds >= part.minimum]
            for domain in enough[: levels.MOST_TRIES]:
                rejection = self._place_in(part, domain, slices)
                if rejection is None:
                    placed = True
                    yield None
                elif rejection.reason is Reason.SCHEDULER_ERROR:
                    yield rejection
                else:
                    tried.append((domain, rejection))
        if not placed:
            yield self._why_not(part, domains, tried, capacity)

    def _domains(
        self, part: SubGroup, level: str, capacity: GroupCapacity, within: Rows
    ) -> list[Domain]:
        """The domains of a level; for a part with Pods on nodes, only the domain with most Pods."""
        domains = levels.domains(self._nodes, level, capacity, within)
        if not part.begun or not level:
            return domains
        home = homes.home(self._nodes, level, self._groups.nodes_of(self._group.key, part))
        return [domain for domain in domains if home is None or domain.code == home]

    def _slices(self, part: SubGroup, capacity: GroupCapacity, within: Rows) -> SliceFill | None:
        """The fill of a part with slices; None for others, and for one with Pods on nodes."""
        if part.begun or part.topology is None or not part.topology.slices:
            return None
        pods = self._pods[part.name][: part.minimum]
        return SliceFill(self._fill, self._nodes, part.topology, pods, capacity, within)

    def _place_in(
        self, part: SubGroup, domain: Domain, slices: SliceFill | None
    ) -> GroupRejection | None:
        """Place one part in this domain, or nothing."""
        mark = len(self._fill.placed)
        rows = domain.rows
        rejection = self._place(self._hardest_first(part.parts, rows), rows)
        if rejection is not None:
            return rejection
        self._rows[part.name] = rows
        if domain.level:
            self.domains[part.name] = domain
        else:
            self.domains.pop(part.name, None)
        if slices is not None:
            failed = slices.run(domain, self._most_attempts)
            if failed is not None:
                return words_label.too_few_nodes(self._group, part, slices.reached, failed)
            self.slices[part.name] = slices.shares
        rejected = self._fill_rest(part, mark)
        placed = len(self._fill.placed) - mark
        if placed >= part.minimum:
            return None
        self._fill.undo(mark)
        return words_label.too_few_nodes(self._group, part, placed, rejected)

    def _fill_rest(self, part: SubGroup, mark: int) -> list[Rejected]:
        """Place what the part lacks to the minimum; for the group all Pods.

        ``mark`` Pods were placed before those of the part.
        """
        rejected: list[Rejected] = []
        for below in part.walk():
            most = None
            if part is not self._group:
                most = part.minimum - (len(self._fill.placed) - mark)
            pods = self._not_placed(self._pods[below.name])
            if not below.slices:
                rejected += self._fill.run(pods, self._rows[below.name], most)
            elif most is None:
                self._fill_further(below, pods)
        return rejected

    def _fill_further(self, part: SubGroup, pods: Sequence[Pod]) -> None:
        """Place Pods beyond the minimum of a part with slices, each where its slice may be."""
        within, refused = Home(self._rows[part.name]), set[PodKind]()
        for pod in pods:
            home = homes.in_slices_of(
                self._framework, self._nodes, pod, self._group.key, part, within
            )
            if kind_of(pod) not in refused and self._fill.place(pod, home.rows):
                refused.add(kind_of(pod))

    def _why_not(
        self,
        part: SubGroup,
        domains: Sequence[Domain],
        tried: Sequence[tuple[Domain, GroupRejection]],
        capacity: GroupCapacity,
    ) -> GroupRejection:
        """Why the part is in none of the ``domains`` of its last level."""
        self._plugins.update(*(rejection.plugins for _, rejection in tried))
        group, level = self._group, part.topology.required if part.topology is not None else ""
        if level:
            return words_label.no_domain(group, part, level, domains, tried, capacity)
        if tried and not tried[-1][0].level:
            return tried[-1][1]
        if part.slices:
            return words_label.too_few_slices(group, part, capacity, domains[0])
        return words_label.too_few_copies(group, part, capacity, domains[0].rows)
