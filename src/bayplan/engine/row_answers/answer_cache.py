"""AnswerCache: finds or makes the kept answers of a Pod, and drops the least recently used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import LiveNodeTable
from bayplan.config.points import Point
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.engine.row_answers.blocks import MANY
from bayplan.engine.row_answers.joined import RowAnswers
from bayplan.engine.row_answers.load_groups import GroupedAnswers, LoadGroups
from bayplan.engine.row_answers.part import PartAnswers, PartStages
from bayplan.engine.stages import FilterStage, ScoreStage
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import PodPart
from bayplan.framework.points import PreFilter, PreScore
from bayplan.framework.status import Status

MEMORY_BUDGET = 32 << 20
"""Bytes that one profile's joined answers may take, roughly, and its parts as many again."""
FEWEST = 16
"""Entries that are kept whatever they take."""
_PATIENCE = 16
"""To group all rows takes about as long as to compute these for so many new sizes."""
_PAUSE = 256
"""After so many new sizes it is tried again whether groups are few."""
_SIZES_REMEMBERED = 4096


JoinedKey = int | tuple[int, int]
"""The id of a Pod's shape, or of its constraints and of its requests."""


_Readership = tuple[PodPart, bool]
"""A part, and whether its readers are those whose answers are not by load.

One such plugin would have all others that read the requests asked for each binding, too.
"""


_OWN: _Readership = (PodPart.SHAPE, False)
_SIZES: _Readership = (PodPart.REQUESTS, False)


class Sized(Protocol):
    """Something that takes memory."""

    @property
    def nbytes(self) -> int:
        """Bytes, roughly."""


Key = TypeVar("Key")
Entry = TypeVar("Entry", bound=Sized)


class LruEntries(Generic[Key, Entry]):
    """Entries by key, within `MEMORY_BUDGET`; the least recently used ones go first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        """The entry of ``key``."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: Key, entry: Entry) -> list[Key]:
        """Keep ``entry``, which is filled in; the others are taken to be about as large.

        Returns the keys of those that were dropped for it.
        """
        self._entries[key] = entry
        limit = max(FEWEST, MEMORY_BUDGET // max(entry.nbytes, 1))
        excess = max(0, len(self._entries) - limit)
        return [self._entries.popitem(last=False)[0] for _ in range(excess)]


class _Readers(NamedTuple):
    """The row-local plugins that read one part of a Pod, in the order of the profile."""

    pre_filter: Sequence[PreFilter]
    pre_score: Sequence[PreScore]
    filters: Sequence[FilterStage]
    scores: Sequence[ScoreStage]


class AnswerCache:
    """The kept answers of one profile."""

    def __init__(
        self,
        plugins: ProfilePlugins,
        filters: Sequence[FilterStage],
        scores: Sequence[ScoreStage],
        nodes: LiveNodeTable,
    ) -> None:
        self._plugins = plugins
        self._nodes = nodes
        instances = (
            *plugins.pre_filter,
            *plugins.filter,
            *plugins.pre_score,
            *plugins.score,
        )
        stages: list[FilterStage | ScoreStage] = [*filters, *scores]
        apart = {stage.name for stage in stages if stage.on_pods and not stage.by_load}
        of = {
            name: (part, part is PodPart.REQUESTS and name in apart)
            for name, part in plugins.local.items()
        }
        in_use = dict.fromkeys(of[p.name] for p in instances if p.name in of)
        self._shared = sorted(
            (each for each in in_use if each != _OWN),
            key=lambda each: (list(PodPart).index(each[0]), each[1]),
        )
        self._own = _OWN in in_use
        self._readers = {
            each: _Readers(
                [p for p in plugins.pre_filter if of.get(p.name) == each],
                [p for p in plugins.pre_score if of.get(p.name) == each],
                [f for f in filters if of.get(f.name) == each],
                [s for s in scores if of.get(s.name) == each],
            )
            for each in in_use
        }
        self._parts = LruEntries[int, PartAnswers]()
        self._joined = LruEntries[JoinedKey, RowAnswers]()
        self._with_columns: OrderedDict[JoinedKey, RowAnswers] = OrderedDict()
        """The answers that have columns, the least recently used ones first."""
        self._latest: RowAnswers | None = None
        self._groups = LruEntries[int, LoadGroups]()
        """By the id of the constraints."""
        self._asked: OrderedDict[JoinedKey, int] = OrderedDict()
        """How often each size was asked about by groups."""

    def __len__(self) -> int:
        return len(self._joined)

    def answers(self, pod: Pod, *, once: bool = False) -> RowAnswers:
        """The answers for ``pod``, up to date; ``once``: they need not hold for another Pod.

        Raises:
            AttemptFault: a plugin broke; the next question asks it again.
        """
        shape = pod.shape
        key = shape.id if self._own else (shape.constraints.id, shape.requests.id)
        answers = self._joined.get(key)
        if once and (answers is None or answers.released):
            grouped = self._by_groups(pod, key)
            if grouped is not None:
                return grouped
        if answers is None:
            answers = self._make_joined(pod, key)
        else:
            answers.refresh(pod, self._nodes)
        if answers is not self._latest:
            self._latest = answers
            self._release(key, answers)
        return answers

    def _make_joined(self, pod: Pod, key: JoinedKey) -> RowAnswers:
        shape = pod.shape
        shared = {_key(each, shape): self._part(pod, each) for each in self._shared}
        own = self._make(pod, _OWN) if self._own else None
        answers = RowAnswers(list(shared.values()), own, self._unconcerned(pod))
        answers.refresh(pod, self._nodes)
        for id_, part in shared.items():
            self._parts.put(id_, part)
        for dropped in self._joined.put(key, answers):
            self._with_columns.pop(dropped, None)
        return answers

    def _by_groups(self, pod: Pod, key: JoinedKey) -> RowAnswers | None:
        """Answers by groups of rows that are as full; None where there is no gain in groups.

        Groups are made after some sizes for which all rows were computed, and a size that comes
        again and again has all rows computed, as its answers are kept then.
        """
        nodes = self._nodes
        if len(nodes) < MANY or self._own or _SIZES not in self._shared:
            return None
        others = [self._parts.get(_key(e, pod.shape)) for e in self._shared if e != _SIZES]
        groups = self._groups.get(pod.shape.constraints.id)
        if groups is None:
            groups = LoadGroups()
            self._groups.put(pod.shape.constraints.id, groups)
        groups.wanted += 1
        asked = self._asked.pop(key, 0) + 1
        if asked >= _PATIENCE or groups.wanted < _PATIENCE:
            return None
        self._asked[key] = asked
        if len(self._asked) > _SIZES_REMEMBERED:
            self._asked.popitem(last=False)
        known = [part for part in others if part is not None]
        for part in known:
            part.refresh(pod, nodes, nodes.exists)
        if len(known) < len(others) or not all(part.is_even for part in known):
            return None
        by_load = self._make(pod, _SIZES)
        if not by_load.is_by_load:
            return None
        groups.refresh(nodes, known)
        if not groups.are_few:
            groups.wanted = -_PAUSE
            return None
        parts = [by_load, *known]
        answers = GroupedAnswers(parts, self._unconcerned(pod), groups, pod, nodes)
        return None if by_load.failed else answers

    def _release(self, key: JoinedKey, latest: RowAnswers) -> None:
        """Have the answers that are far behind give back their columns.

        With Pods of a thousand sizes each would write to columns that have left the processor's
        caches since its last Pod. Memory that was just given back is still there.
        """
        self._with_columns[key] = latest
        self._with_columns.move_to_end(key)
        while next(iter(self._with_columns.values())).release(self._nodes):
            self._with_columns.popitem(last=False)

    def _unconcerned(self, pod: Pod) -> frozenset[str]:
        plugins = self._plugins
        return frozenset(
            p.name
            for p in plugins.selective
            if not plugins.call(p, Point.PRE_FILTER, p.concerns, pod.spec)
        )

    def _part(self, pod: Pod, of: _Readership) -> PartAnswers:
        return self._parts.get(_key(of, pod.shape)) or self._make(pod, of)

    def _make(self, pod: Pod, of: _Readership) -> PartAnswers:
        return PartAnswers(self._ask_pod(pod, of), self._plugins.call)

    def _ask_pod(self, pod: Pod, of: _Readership) -> PartStages:
        """PreFilter and PreScore of the readers of a part, for a new one."""
        plugins, nodes, readers = self._plugins, self._nodes, self._readers[of]
        state = CycleState()
        pre_filter = {
            plugin.name: plugins.ask_pre_filter(plugin, state, pod, nodes)
            for plugin in readers.pre_filter
        }
        faults = [
            plugins.ask_pre_score(plugin, state, pod, nodes, nodes.exists)
            for plugin in readers.pre_score
        ]
        fault = next((f for f in faults if f), None)
        # A Pod that PreFilter rejects reaches no Filter and no Score plugin.
        rejected = any(isinstance(a, Status) and a.rejected for a in pre_filter.values())
        filters, scores = readers.filters, readers.scores
        return PartStages(
            state,
            pre_filter,
            fault,
            [] if rejected else [f for f in filters if f.name not in state.skip_filter],
            [] if rejected or fault else [s for s in scores if s.name not in state.skip_score],
        )


def _key(of: _Readership, shape: PodShape) -> int:
    """The id of the part of ``shape``; negative for readers apart."""
    part, apart = of
    return -part.of(shape).id if apart else part.of(shape).id
