"""Culprit: whose code a thread is in, read from its stack."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

from bayplan.api.pod import Pod
from bayplan.config.points import Point
from bayplan.engine import lifecycle, profile_plugins, stages
from bayplan.engine.faults import AttemptFault, PluginTimeout
from bayplan.framework.interface import Plugin
from bayplan.queue import hints

_CALL = profile_plugins.__name__, "_call"
_HINT = hints.__name__, "_wants"
_BETWEEN = stages.__name__, lifecycle.__name__
"""Modules between `ProfilePlugins.call` and a plugin; they change no shared state."""


_CALLERS = (_CALL[0], *_BETWEEN)


class Culprit(NamedTuple):
    """Whose code a step is in.

    Attributes:
        plugin: its name; "" where no plugin runs.
        point: the extension point, or the name of the method.
        pod: the Pod that the plugin was asked about, if any.
        stack: from the plugin on; from the start of the thread where no plugin runs.
    """

    plugin: str
    point: Point | str
    pod: Pod | None
    stack: str

    @property
    def where(self) -> str:
        """The extension point as it is displayed."""
        return self.point.display if isinstance(self.point, Point) else self.point

    def timeout(self, seconds: float) -> str:
        """The sentence for the Pod: as if the attempt had ended by a `PluginTimeout`."""
        point = self.point if isinstance(self.point, Point) else None
        error = PluginTimeout(seconds)
        return str(AttemptFault(point, self.plugin, error)) if point else str(error)


def culprit_of(innermost: FrameType | None) -> Culprit:
    """The outermost plugin of a stack, given by its innermost frame."""
    frames = list(_outward(innermost))
    for depth in range(len(frames) - 1, -1, -1):
        frame, names = frames[depth], frames[depth].f_locals
        plugin, point = names.get("plugin"), names.get("point")
        if isinstance(plugin, Plugin) and isinstance(point, Point):  # ProfilePlugins.call
            inside = frames[:depth]
            while inside and _module(inside[-1]) in _CALLERS:
                inside.pop()
            pod = next((arg for arg in names.get("args", ()) if isinstance(arg, Pod)), None)
            return Culprit(plugin.name, point, pod, _text(inside))
        if isinstance(names.get("self"), Plugin):  # a queueing hint
            name = frame.f_code.co_name
            return Culprit(names["self"].name, name, None, _text(frames[: depth + 1]))
    return Culprit("", "", None, _text(frames))


def interruptible_call(innermost: FrameType | None) -> FrameType | None:
    """The frame that calls a user's plugin, if only the plugin's code is inside of the frame.

    An exception that is raised in ``innermost`` then leaves nothing of bayplan half done.
    """
    own = False
    for frame in _outward(innermost):
        where = _module(frame), frame.f_code.co_name
        if where == _HINT:
            return frame if own else None
        if where == _CALL:
            names = frame.f_locals
            return frame if own and names["plugin"].name not in names["self"].trusted else None
        if where[0] in _BETWEEN:
            continue
        if where[0].startswith("bayplan."):
            return None
        own |= isinstance(frame.f_locals.get("self"), Plugin)
    return None


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _text(frames: list[FrameType]) -> str:
    """These frames as a traceback shows them; the first one is the innermost."""
    lines = ((frame, frame.f_lineno) for frame in reversed(frames))
    return "".join(traceback.StackSummary.extract(lines).format())


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
