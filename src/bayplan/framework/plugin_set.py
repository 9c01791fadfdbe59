"""PluginSet: one profile's plugins by extension point, and how they are called.

An exception of a plugin ends the attempt of the Pod it happened to, never the scheduler: `call`
logs the traceback, counts it and raises `AttemptError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeVar

import structlog

from bayplan.framework.cycle_state import MissingStateError
from bayplan.framework.interface import Depends, Plugin
from bayplan.framework.stages import AttemptError, Caller
from bayplan.framework.status import SUCCESS, Status
from bayplan.telemetry.instrument import Instrument

T = TypeVar("T")

log = structlog.get_logger("framework")

METHODS: dict[str, tuple[str, ...]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("less", "sort_key"),
    "preFilter": ("pre_filter",),
    "filter": ("filter", "filter_nodes"),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score", "score_nodes"),
    "reserve": ("reserve", "unreserve"),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
}
"""Extension point (as the configuration names it) -> methods that make a plugin part of it."""


def extension_points(plugin: type) -> frozenset[str]:
    """The extension points that ``plugin`` implements, by their names in the configuration."""
    return frozenset(
        point for point, methods in METHODS.items() if any(hasattr(plugin, m) for m in methods)
    )


def is_local(plugin: Plugin) -> bool:
    """Whether all that ``plugin`` answers is a matter of the Pod's shape and one row."""
    depends = Depends(0)
    if hasattr(plugin, "score") or hasattr(plugin, "score_nodes"):
        depends |= plugin.score_depends
    if any(hasattr(plugin, m) for m in ("filter", "filter_nodes", "pre_filter")):
        depends |= plugin.filter_depends
    return Depends.CLUSTER not in depends and not hasattr(plugin, "normalize_score")


class PluginSet:
    """The plugins of one profile.

    Attributes:
        profile: schedulerName of the profile.
        local: names of the plugins that are row-local, see `is_local`.
    """

    def __init__(
        self,
        profile: str,
        points: Mapping[str, Sequence[tuple[Plugin, int]]],
        instrument: Instrument,
    ) -> None:
        self.profile = profile
        self.instrument = instrument
        self.weights = {plugin.name: weight for plugin, weight in points.get("score", ())}
        self._points = {p: [plugin for plugin, _ in points.get(p, ())] for p in METHODS}
        self.local = {p.name for p in self.all() if is_local(p)}
        self.call: Caller = self._timed_call if instrument.times_plugins else self._call
        """``method(*args)`` of a plugin; its exception becomes an `AttemptError`."""

    def at(self, point: str) -> list[Any]:
        """The plugins of an extension point, in order."""
        return self._points[point]

    def at_any(self, points: Iterable[str]) -> list[Plugin]:
        """The plugins of all these extension points, each once."""
        return list({id(p): p for point in points for p in self._points[point]}.values())

    def all(self) -> list[Plugin]:
        """Every plugin of the profile, once."""
        return self.at_any(METHODS)

    def _call(self, plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T:
        try:
            return method(*args)
        except AttemptError:
            raise
        except MissingStateError as exc:
            raise AttemptError(
                f'running {point} plugins: plugin "{plugin.name}" failed with: {exc}'
            ) from exc
        except Exception as exc:
            self.instrument.plugin_failed(plugin.name, point)
            log.exception("plugin failed", plugin=plugin.name, point=point, profile=self.profile)
            text = f'running {point} plugin "{plugin.name}": {type(exc).__name__}: {exc}'
            raise AttemptError(text) from exc

    def _timed_call(self, plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T:
        started = perf_counter()
        try:
            return self._call(plugin, point, method, *args)
        finally:
            seconds = perf_counter() - started
            self.instrument.plugin_called(plugin.name, point, self.profile, seconds)

    def ask(
        self, kinds: tuple[type, ...], plugin: Plugin, point: str, method: Any, *args: Any
    ) -> Any:
        """Like `call`; an answer that is of none of ``kinds`` counts as an exception, too."""
        answer = self.call(plugin, point, method, *args)
        return answer if isinstance(answer, kinds) else self._refuse(plugin, point, answer, kinds)

    def status(self, plugin: Plugin, point: str, method: Any, *args: Any) -> Status:
        """Like `call`, for methods that answer with a Status, or with None for Success."""
        status: Any = self.call(plugin, point, method, *args)
        if status is None:
            return SUCCESS
        if not isinstance(status, Status):
            self._refuse(plugin, point, status, (Status,))
        return status  # type: ignore[no-any-return]

    def _refuse(self, plugin: Plugin, point: str, answer: Any, kinds: tuple[type, ...]) -> None:
        names = " or ".join(kind.__name__ for kind in kinds)
        error = TypeError(f"{answer!r} was returned, not a {names}")
        self.call(plugin, point, _raise, error)

    def time(self, point: str, started: float, status: str = "Success") -> None:
        """All plugins of an extension point ran since ``started`` (`time.perf_counter`)."""
        self.instrument.extension_point(point, self.profile, status, perf_counter() - started)


def _raise(error: Exception) -> None:
    raise error
