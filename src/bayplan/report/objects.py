"""ObjectReport: an event on each object that a plugin finds wrong.

It is said once, and again when it was mended meanwhile. An object that is wrong is used as far as
it makes sense, so its Pods may never tell.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import structlog

from bayplan.api.meta import ObjectFault
from bayplan.engine.runtime import Framework
from bayplan.framework.handle import EventRecorder

log = structlog.get_logger("objects")


class ObjectReport:
    """Events about objects. Scheduling thread only."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._seen: list[Sequence[ObjectFault]] = []
        self._told: set[ObjectFault] = set()

    def check(self, frameworks: Iterable[Framework]) -> None:
        """Tell of what is new."""
        by_profile = [(f.name, faults()) for f in frameworks for faults in f.services.object_faults]
        faults = [faults for _, faults in by_profile]
        if len(faults) == len(self._seen) and all(map(operator.is_, faults, self._seen)):
            return
        self._seen = faults
        profiles = {fault: profile for profile, faults in by_profile for fault in faults}
        for fault, profile in profiles.items():
            if fault not in self._told:
                regarding, reason, message = fault
                log.warning(message, kind=regarding.kind, object=regarding.name, reason=reason)
                self._events.event(regarding, None, "Warning", reason, "Reading", message, profile)
        self._told = set(profiles)
