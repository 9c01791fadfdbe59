"""Queueing hints: whether an event may make a rejected Pod schedulable.

Only hints of plugins that rejected the Pod are called. A hint that raises an exception counts as
Queue: a broken plugin may cause useless attempts, but no Pod waits forever.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from bayplan.api.kinds import CORE_KINDS, Kind
from bayplan.api.pod import Pod
from bayplan.engine.faults import PluginTimeout, is_interrupt
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintFn,
    HintIndex,
    Resource,
)
from bayplan.framework.interface import Plugin
from bayplan.framework.points import EnqueueExtensions
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.unschedulable import PluginKey, WaitKey

log = structlog.get_logger(__name__)

EXTENDER = "Extender"
"""Stands among the rejectors for all extenders; any event may change their minds."""

Registrations = Iterable[tuple[str, EventRegistration]]
"""(plugin, what it registered for)."""

_ANY_EVENT = EventRegistration(ClusterEvent(Resource.ANY, Action.ALL))


class QueueingStrategy(enum.Enum):
    """What to do with a Pod after an event."""

    SKIP = enum.auto()
    """Leave it where it is."""
    AFTER_BACKOFF = enum.auto()
    """Try it again once its backoff is over."""
    IMMEDIATELY = enum.auto()
    """Try it again now: a Pending plugin has what it waited for."""


def registrations(plugins: Iterable[Plugin]) -> list[tuple[str, EventRegistration]]:
    """What each plugin registered for.

    A plugin that has no ``events_to_register`` is taken to care about everything.

    Raises:
        ValueError: a plugin registers for a kind that it does not declare; it may not be watched.
    """
    return [(p.name, registration) for p in plugins for registration in _registered(p)]


def _registered(plugin: Plugin) -> list[EventRegistration]:
    if not isinstance(plugin, EnqueueExtensions):
        return [_ANY_EVENT]
    events = list(plugin.events_to_register())
    kinds = plugin.kinds_for(plugin.args)
    for registration in events:
        resource = registration.event.resource
        if isinstance(resource, Kind) and resource not in (*CORE_KINDS, *kinds):
            raise ValueError(f"{resource} is not among the plugin's kinds")
    return events


PodKeys = Callable[[Pod], Iterable[Hashable]]
"""See `HintIndex`."""
Hints = Mapping[str, list[tuple[str, HintFn | None]]]
"""By profile, (plugin, its hint or None for always Queue)."""


@dataclass(frozen=True)
class Interest:
    """Who is interested in an event.

    Attributes:
        plugins: of all profiles; those that have to be asked about each Pod that they rejected.
        indexed: the others, each with what tells the Pods that the event may concern.
        hints: what to ask them.
        broken: plugins whose index has failed; they are asked about each Pod, too.
    """

    plugins: tuple[PluginKey, ...]
    indexed: tuple[tuple[PluginKey, HintIndex], ...]
    hints: Hints
    broken: set[PluginKey]

    def concerned(self, old: Any, new: Any) -> Iterator[WaitKey]:
        """Wait keys of Pods that the change of ``old`` to ``new`` may concern."""
        yield from self.plugins
        for plugin, index in self.indexed:
            keys = _keys(plugin, self.broken, index.event_keys, old, new)
            if keys is None or plugin in self.broken:
                yield plugin
            else:
                yield from ((*plugin, key) for key in keys)


class HintTable:
    """All registrations, by profile; the interested plugins are computed once per event."""

    def __init__(self, profiles: Mapping[str, Registrations], *, extenders: bool = False) -> None:
        """Registrations by profile, and whether any extender may reject Pods."""
        rest = [(EXTENDER, _ANY_EVENT)] if extenders else []
        self._profiles = {name: [*own, *rest] for name, own in profiles.items()}
        self._pod_keys: dict[PluginKey, dict[PodKeys, None]] = {}
        for profile, registered in self._profiles.items():
            for plugin, registration in registered:
                if registration.index is not None:
                    functions = self._pod_keys.setdefault((profile, plugin), {})
                    functions[registration.index.pod_keys] = None
        self._interest: dict[ClusterEvent, Interest] = {}
        self._interest_of_gated: dict[ClusterEvent, Interest] = {}
        self._broken: set[tuple[str, str, str]] = set()
        self._endless: set[HintFn] = set()
        """Hints that did not return; they are asked no more."""
        self._broken_indexes: set[PluginKey] = set()

    def interest(self, event: ClusterEvent, *, gated: bool = False) -> Interest:
        """Who is interested in ``event``; for the Pods that PreEnqueue holds back if ``gated``."""
        cached = self._interest_of_gated if gated else self._interest
        interest = cached.get(event)
        if interest is None:
            interest = cached[event] = self._find(event, gated=gated)
        return interest

    def _find(self, event: ClusterEvent, *, gated: bool) -> Interest:
        hints: dict[str, list[tuple[str, HintFn | None]]] = {}
        indexes: dict[PluginKey, list[HintIndex | None]] = {}
        for profile, registered in self._profiles.items():
            for plugin, registration in registered:
                if registration.event.matches(event) and (registration.gates or not gated):
                    hints.setdefault(profile, []).append((plugin, registration.hint))
                    indexes.setdefault((profile, plugin), []).append(registration.index)
        every = tuple(plugin for plugin, own in indexes.items() if None in own)
        indexed = [(p, i) for p, own in indexes.items() if p not in every for i in own if i]
        return Interest(every, tuple(indexed), hints, self._broken_indexes)

    def wait_keys(self, queued: QueuedPod, plugins: Iterable[str]) -> tuple[WaitKey, ...]:
        """What a Pod that waits for ``plugins`` is found by; see `UnschedulablePods`."""
        profile = queued.profile
        keys: list[WaitKey] = []
        for plugin in plugins:
            keys.append((profile, plugin))
            for pod_keys in self._pod_keys.get((profile, plugin), ()):
                for pod in (queued.pod, *queued.also_rejected):
                    own = _keys((profile, plugin), self._broken_indexes, pod_keys, pod)
                    keys += ((profile, plugin, key) for key in own or ())
        return tuple(keys)

    def woken(
        self, event: ClusterEvent, old: Any, new: Any, pods: Collection[QueuedPod]
    ) -> Iterator[tuple[QueuedPod, QueueingStrategy]]:
        """The ``pods`` for which ``event`` (``old`` became ``new``) is worth an attempt."""
        hints = self.interest(event).hints if pods else {}
        for queued in pods:
            strategy = self._strategy(queued, event, old, new, hints)
            if strategy is not QueueingStrategy.SKIP:
                yield queued, strategy

    def strategy(
        self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any
    ) -> QueueingStrategy:
        """Whether ``event`` (``old`` became ``new``) is worth another attempt for the Pod."""
        return self._strategy(queued, event, old, new, self.interest(event).hints)

    def _strategy(
        self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any, hints: Hints
    ) -> QueueingStrategy:
        rejected, pending = queued.unschedulable_plugins, queued.pending_plugins
        if not rejected and not pending:
            return QueueingStrategy.AFTER_BACKOFF
        if event.wildcard:
            elsewhere = isinstance(new, Pod) and new.uid != queued.uid
            return QueueingStrategy.SKIP if elsewhere else QueueingStrategy.AFTER_BACKOFF
        strategy = QueueingStrategy.SKIP
        for plugin, hint in hints.get(queued.profile, ()):
            if plugin not in pending and (
                plugin not in rejected or strategy is QueueingStrategy.AFTER_BACKOFF
            ):
                continue
            if hint is not None and not self._wants(plugin, hint, queued, event, old, new):
                continue
            if plugin in pending:
                return QueueingStrategy.IMMEDIATELY
            strategy = QueueingStrategy.AFTER_BACKOFF
            if not pending:
                break
        return strategy

    def _wants(
        self,
        plugin: str,
        hint: HintFn,
        queued: QueuedPod,
        event: ClusterEvent,
        old: Any,
        new: Any,
    ) -> bool:
        try:
            if (self._endless and hint in self._endless) or hint(
                queued.pod, old, new
            ) is Hint.QUEUE:
                return True
            return any(hint(pod, old, new) is Hint.QUEUE for pod in queued.also_rejected)
        except BaseException as exc:
            if is_interrupt(exc):
                raise
            if isinstance(exc, PluginTimeout):
                self._endless.add(hint)
            where = queued.profile, plugin, event.label
            if where not in self._broken:
                self._broken.add(where)
                log.exception(
                    "queueing hint failed; the event counts as Queue (logged once)",
                    profile=queued.profile,
                    plugin=plugin,
                    cluster_event=event.label,
                    pod=queued.pod.key,
                )
            return True


def _keys(
    plugin: PluginKey,
    broken: set[PluginKey],
    function: Callable[..., Iterable[Hashable] | None],
    *args: Any,
) -> Iterable[Hashable] | None:
    """What a function of an index answers; None where it breaks, and ``plugin`` is broken then."""
    try:
        keys = function(*args)
        return None if keys is None else dict.fromkeys(keys)
    except BaseException as exc:
        if is_interrupt(exc):
            raise
        if plugin not in broken:
            broken.add(plugin)
            profile, name = plugin
            text = "index of queueing hints failed; it is used no more (logged once)"
            log.exception(text, profile=profile, plugin=name)
        return None
