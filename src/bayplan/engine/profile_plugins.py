"""ProfilePlugins: one profile's plugins, sorted once by extension point, and the calls to plugins.

An exception of a plugin ends the attempt of the Pod it happened to, never the scheduler: `call`
counts it, logs the traceback and raises `AttemptFault`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NoReturn, TypeVar

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault, FailureLog, NodeFault, is_interrupt
from bayplan.engine.stages import Caller
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.effects import Effect
from bayplan.framework.interface import Depends, Plugin, PreFilterResult
from bayplan.framework.points import (
    FORMS,
    REJECTING,
    AdmitsGroups,
    Bind,
    BoundsCopies,
    CarriesOut,
    FilterNodes,
    FilterOne,
    FilterPlugin,
    Named,
    NormalizeScore,
    Permit,
    PlacementFeasible,
    PlacementGenerate,
    PlacementScore,
    PodGroupPostFilter,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueueKey,
    QueueLess,
    QueueSort,
    Reserve,
    ScoreNodes,
    ScoreOne,
    ScorePlugin,
    Selective,
    Unreserve,
    extension_points,
    has,
)
from bayplan.framework.status import SKIP, SUCCESS, Code, Status
from bayplan.telemetry.instrument import Instrument

T = TypeVar("T")

# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_PRE_FILTER = Point.PRE_FILTER
_PRE_SCORE = Point.PRE_SCORE
_SKIP = Code.SKIP

Enabled = Mapping[Point, Sequence[tuple[Plugin, int]]]
"""Extension point -> its plugins in order, with their weights."""


@dataclass(frozen=True)
class Trust:
    """Facts about an in-tree plugin, so that some checks of each call can be left out.

    Attributes:
        binds_at_once: whether Bind only hands over a request, so that it needs no worker.
        unprepared: what kube-scheduler says where Score runs in a profile that has the plugin off
            at PreScore; empty where it can do without.
    """

    binds_at_once: bool = False
    unprepared: str = ""


def is_local(plugin: Plugin) -> bool:
    """Whether all that ``plugin`` answers is a matter of the Pod's shape and one row."""
    cls, depends = type(plugin), Depends(0)
    points = extension_points(cls)
    if Point.SCORE in points:
        depends |= plugin.score_depends
    if Point.FILTER in points or Point.PRE_FILTER in points:
        depends |= plugin.filter_depends
    return Depends.CLUSTER not in depends and not has(cls, NormalizeScore)


class ProfilePlugins:
    """The plugins of one profile; every attribute named after a point has its plugins, in order.

    Args:
        enabled: the plugins by point.
        trusted: the in-tree plugins among them, by name.
        clock: monotonic seconds.

    Attributes:
        profile: schedulerName of the profile.
        weights: of the Score plugins, by name.
        placement_weights: of the PlacementScore plugins, by name.
        placement_generate: the plugin that says where groups may go, if any.
        local: the plugins that are row-local (see `is_local`), with what they read of a Pod.
        selective: those at PreFilter that may have nothing to do with a Pod.
        trusted: see above.
        all: every plugin once, in the order of the points.
        pure_post_filter: those at PostFilter that do nothing by themselves.
        rejecting: those that can reject a Pod.
        bounding: those at Filter that bound how many Pods a node takes.
        admitting: those at PreFilter that look at a whole group first.
    """

    def __init__(
        self,
        profile: str,
        enabled: Enabled,
        instrument: Instrument,
        trusted: Mapping[str, Trust] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.profile = profile
        self.instrument = instrument
        self.trusted = trusted or {}
        self._failures = FailureLog(profile, clock)
        points = {
            p: [plugin for plugin, _ in enabled.get(p, ()) if p not in plugin.idle] for p in FORMS
        }
        self.pre_enqueue: tuple[PreEnqueue, ...] = tuple(
            p for p in points[Point.PRE_ENQUEUE] if isinstance(p, PreEnqueue)
        )
        self.queue_sort: tuple[QueueSort, ...] = tuple(
            p for p in points[Point.QUEUE_SORT] if isinstance(p, QueueKey | QueueLess)
        )
        self.pre_filter: tuple[PreFilter, ...] = tuple(
            p for p in points[Point.PRE_FILTER] if isinstance(p, PreFilter)
        )
        self.filter: tuple[FilterPlugin, ...] = tuple(
            p for p in points[Point.FILTER] if isinstance(p, FilterNodes | FilterOne)
        )
        self.post_filter: tuple[PostFilter, ...] = tuple(
            p for p in points[Point.POST_FILTER] if isinstance(p, PostFilter)
        )
        self.pure_post_filter = tuple(p for p in self.post_filter if p.pure)
        self.pod_group_post_filter: tuple[PodGroupPostFilter, ...] = tuple(
            p for p in points[Point.POD_GROUP_POST_FILTER] if isinstance(p, PodGroupPostFilter)
        )
        self.pre_score: tuple[PreScore, ...] = tuple(
            p for p in points[Point.PRE_SCORE] if isinstance(p, PreScore)
        )
        self.score: tuple[ScorePlugin, ...] = tuple(
            p for p in points[Point.SCORE] if isinstance(p, ScoreNodes | ScoreOne)
        )
        reserving = points[Point.RESERVE]
        self.reserve: tuple[Reserve, ...] = tuple(p for p in reserving if isinstance(p, Reserve))
        self.unreserve: tuple[Unreserve, ...] = tuple(
            p for p in reversed(reserving) if isinstance(p, Unreserve)
        )
        """In the order in which they are called: the last one first."""
        self.permit: tuple[Permit, ...] = tuple(
            p for p in points[Point.PERMIT] if isinstance(p, Permit)
        )
        self.pre_bind: tuple[PreBind, ...] = tuple(
            p for p in points[Point.PRE_BIND] if isinstance(p, PreBind)
        )
        self.bind: tuple[Bind, ...] = tuple(p for p in points[Point.BIND] if isinstance(p, Bind))
        self.post_bind: tuple[PostBind, ...] = tuple(
            p for p in points[Point.POST_BIND] if isinstance(p, PostBind)
        )
        generators = (
            p for p in points[Point.PLACEMENT_GENERATE] if isinstance(p, PlacementGenerate)
        )
        self.placement_generate: PlacementGenerate | None = next(generators, None)
        self.placement_score: tuple[PlacementScore, ...] = tuple(
            p for p in points[Point.PLACEMENT_SCORE] if isinstance(p, PlacementScore)
        )
        self.weights, self.placement_weights = (
            {plugin.name: weight for plugin, weight in enabled.get(point, ())}
            for point in (Point.SCORE, Point.PLACEMENT_SCORE)
        )
        self.all = _once([plugin for plugin, _ in enabled.get(p, ())] for p in FORMS)
        self.rejecting = _once(points[point] for point in REJECTING)
        judging = (Point.PRE_FILTER, Point.FILTER, Point.RESERVE, Point.PERMIT)
        self._judging = _once(points[point] for point in judging)
        self.bounding: tuple[BoundsCopies, ...] = tuple(
            p for p in self.filter if isinstance(p, BoundsCopies)
        )
        self.placement_feasible: tuple[PlacementFeasible, ...] = tuple(
            p for p in self.all if isinstance(p, PlacementFeasible)
        )
        self.admitting: tuple[AdmitsGroups, ...] = tuple(
            p for p in self.pre_filter if isinstance(p, AdmitsGroups)
        )
        self._carrying = {p.name: p for p in self.all if isinstance(p, CarriesOut)}
        self.local = {p.name: p.reads for p in self.all if is_local(p)}
        self.selective: tuple[Selective, ...] = tuple(
            p for p in self.pre_filter if isinstance(p, Selective) and p.name not in self.local
        )
        everything = instrument.times_plugins
        self._timed = {p.name for p in self.all if everything or p.name not in self.trusted}
        self.call: Caller = self._timed_call if self._timed else self._call
        """``method(*args)`` of a plugin; its exception becomes an `AttemptFault`."""

    def is_row_local(self, state: CycleState) -> bool:
        """Whether a look at one node is enough to say if the Pod fits there.

        Args:
            state: that of the Pod, after PreFilter: plugins that skip it have no say.
        """
        return all(
            p.name in state.skip_filter or Depends.CLUSTER not in p.filter_depends
            for p in self._judging
        )

    def _call(self, plugin: Named, point: Point, method: Callable[..., T], *args: Any) -> T:
        try:
            return method(*args)
        except AttemptFault:
            raise
        except MissingStateError as exc:
            raise AttemptFault(point, plugin.name, exc) from exc
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            node, cause = "", exc
            if isinstance(exc, NodeFault) and exc.__cause__ is not None:
                node, cause = exc.node, exc.__cause__
            self.instrument.plugin_failed(plugin.name, point.display)
            self._failures.write(plugin.name, point, cause, node)
            raise AttemptFault(point, plugin.name, cause, node) from cause

    def _timed_call(self, plugin: Named, point: Point, method: Callable[..., T], *args: Any) -> T:
        if plugin.name not in self._timed:
            return self._call(plugin, point, method, *args)
        started = perf_counter()
        try:
            return self._call(plugin, point, method, *args)
        finally:
            seconds = perf_counter() - started
            self.instrument.plugin_called(plugin.name, point.display, self.profile, seconds)

    def ask(
        self,
        kinds: tuple[type, ...],
        plugin: Named,
        point: Point,
        method: Callable[..., T],
        *args: Any,
    ) -> T:
        """Like `call`; an answer that is of none of ``kinds`` counts as an exception, too."""
        answer = self.call(plugin, point, method, *args)
        if not isinstance(answer, kinds):
            self._refuse(kinds, plugin, point, answer)
        return answer

    def status(
        self, plugin: Named, point: Point, method: Callable[..., Status | None], *args: Any
    ) -> Status:
        """Like `call`, for methods that answer with a Status, or with None for Success."""
        status = self.call(plugin, point, method, *args)
        if status is None:
            return SUCCESS
        if not isinstance(status, Status):
            self._refuse((Status,), plugin, point, status)
        return status

    def _refuse(
        self, kinds: tuple[type, ...], plugin: Named, point: Point, answer: object
    ) -> NoReturn:
        names = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
        self.call(plugin, point, _refuse, answer, names)
        raise AssertionError("`call` has raised an AttemptFault")

    def carry_out(self, effect: Effect) -> None:
        """Have ``effect`` carried out by its plugin. Never raises: faults are logged."""
        plugin = self._carrying[effect.plugin]
        with suppress(AttemptFault):
            self.call(plugin, Point.CARRY_OUT, plugin.carry_out, effect)

    def ask_pre_filter(
        self, plugin: PreFilter, state: CycleState, pod: Pod, nodes: NodeTable
    ) -> PreFilterResult | Status | None:
        """What ``plugin`` answers at PreFilter; notes a Skip in ``state``."""
        answer = self.call(plugin, _PRE_FILTER, plugin.pre_filter, state, pod, nodes)
        if answer is SKIP:
            state.skip_filter.add(plugin.name)
            return SKIP
        if not isinstance(answer, _PRE_FILTER_ANSWERS):
            self._refuse(_PRE_FILTER_ANSWERS, plugin, _PRE_FILTER, answer)
        if isinstance(answer, Status) and answer.code is _SKIP:
            state.skip_filter.add(plugin.name)
        return answer

    def ask_pre_score(
        self, plugin: PreScore, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> AttemptFault | None:
        """Run PreScore of ``plugin``; returns the fault if it reports an error."""
        status = self.status(plugin, _PRE_SCORE, plugin.pre_score, state, pod, nodes, feasible)
        if status.ok:
            return None
        if status.code is _SKIP:
            state.skip_score.add(plugin.name)
            return None
        return AttemptFault(_PRE_SCORE, plugin.name, status)

    def time(
        self, state: CycleState, point: Point, started: float, status: str = "Success"
    ) -> None:
        """All plugins of an extension point ran since ``started`` (`time.perf_counter`)."""
        if state.timed:
            seconds = perf_counter() - started
            self.instrument.extension_point(point.display, self.profile, status, seconds)


_PRE_FILTER_ANSWERS = (Status, PreFilterResult, type(None))


def _once(points: Iterable[Sequence[Plugin]]) -> tuple[Plugin, ...]:
    return tuple({id(plugin): plugin for plugins in points for plugin in plugins}.values())


def _refuse(answer: object, names: str) -> NoReturn:
    raise TypeError(f"{answer!r} was returned, not a {names}")
