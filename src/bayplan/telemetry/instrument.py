"""Instrument: everything that the pipeline reports about itself, as one interface.

`bayplan.telemetry.metrics.Metrics` is one implementation. A subclass overrides the methods that it
needs; those of `Instrument` itself do nothing. Methods are called on the thread where the thing
happens, mostly the scheduling thread: they must be fast and must not call the pipeline.
"""

from __future__ import annotations

from bayplan.api.pod import Pod


class Instrument:
    """Receives what happens, and ignores it. Times are in seconds.

    Attributes:
        times_plugins: whether `plugin_called` is wanted. Read once, when a profile is built: calls
            of plugins are timed one by one only if an implementation needs it.
    """

    times_plugins: bool = False

    # Attempts, on the scheduling thread

    def attempt(self, profile: str, result: str, seconds: float) -> None:
        """An attempt ended as ``scheduled``, ``unschedulable`` or ``error``."""

    def algorithm(self, seconds: float, evaluated: int) -> None:
        """The search for a node ended; ``evaluated`` nodes were looked at."""

    def scheduled(self, attempts: int, waited: float | None, flushed: bool) -> None:
        """A Pod is bound.

        Args:
            attempts: how many it needed.
            waited: since it was first taken from the queue; None if that is not known.
            flushed: no event woke it before the last attempt, only the periodic flush.
        """

    def group_planned(self, seconds: float) -> None:
        """The search for nodes for all Pods of a group ended, well or not."""

    def group_attempt(self, profile: str, result: str, seconds: float) -> None:
        """An attempt of a group ended as ``scheduled``, ``unschedulable`` or ``error``.

        ``seconds`` is from the attempt to the last binding, where it was scheduled.
        """

    def preemption(self, victims: int) -> None:
        """A preemption was tried; ``victims`` is 0 where it found none."""

    # The queue, on the scheduling thread

    def incoming(self, queue: str, event: str, pod: Pod) -> None:
        """``pod`` entered ``queue`` (active, backoff, unschedulable) because of ``event``."""

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """One Pod more (1) or less (-1) is in the queue that ``plugin`` has rejected."""

    # Plugins

    def extension_point(self, point: str, profile: str, status: str, seconds: float) -> None:
        """All plugins of an extension point ran."""

    def plugin_called(self, plugin: str, point: str, profile: str, seconds: float) -> None:
        """One call of a plugin ended, well or not; only where `times_plugins`. Any thread."""

    def plugin_failed(self, plugin: str, point: str) -> None:
        """A plugin raised an exception, or answered what it must not. Any thread."""

    def permit_waited(self, result: str, seconds: float) -> None:
        """A Pod's wait in Permit ended. Any thread."""

    def plugin_counted(self, plugin: str, name: str, amount: float) -> None:
        """A user's plugin adds to its counter ``name``. Any thread."""

    def plugin_set(self, plugin: str, name: str, value: float) -> None:
        """A user's plugin sets its gauge ``name``. Any thread."""

    def plugin_observed(self, plugin: str, name: str, seconds: float) -> None:
        """A user's plugin adds a duration to its histogram ``name``. Any thread."""

    # The API server

    def claim_created(self, *, success: bool) -> None:
        """A ResourceClaim for a Pod's extended resources was created, or not. Any thread."""

    def request(self, host: str, method: str, code: str) -> None:
        """A request to ``host`` ended; the code is ``<error>`` without an answer. Any thread.

        A watch counts once, when it is answered.
        """


class Instruments(Instrument):
    """Passes everything on to several instruments, in order."""

    def __init__(self, *parts: Instrument) -> None:
        self._parts = parts
        self.times_plugins = any(part.times_plugins for part in parts)

    def attempt(self, profile: str, result: str, seconds: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.attempt(profile, result, seconds)

    def algorithm(self, seconds: float, evaluated: int) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.algorithm(seconds, evaluated)

    def scheduled(self, attempts: int, waited: float | None, flushed: bool) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.scheduled(attempts, waited, flushed)

    def group_planned(self, seconds: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.group_planned(seconds)

    def group_attempt(self, profile: str, result: str, seconds: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.group_attempt(profile, result, seconds)

    def preemption(self, victims: int) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.preemption(victims)

    def incoming(self, queue: str, event: str, pod: Pod) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.incoming(queue, event, pod)

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.rejected(plugin, profile, change)

    def extension_point(self, point: str, profile: str, status: str, seconds: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.extension_point(point, profile, status, seconds)

    def plugin_called(self, plugin: str, point: str, profile: str, seconds: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            if part.times_plugins:
                part.plugin_called(plugin, point, profile, seconds)

    def plugin_failed(self, plugin: str, point: str) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.plugin_failed(plugin, point)

    def permit_waited(self, result: str, seconds: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.permit_waited(result, seconds)

    def plugin_counted(self, plugin: str, name: str, amount: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.plugin_counted(plugin, name, amount)

    def plugin_set(self, plugin: str, name: str, value: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.plugin_set(plugin, name, value)

    def plugin_observed(self, plugin: str, name: str, seconds: float) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.plugin_observed(plugin, name, seconds)

    def claim_created(self, *, success: bool) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.claim_created(success=success)

    def request(self, host: str, method: str, code: str) -> None:
        """See `Instrument`."""
        for part in self._parts:
            part.request(host, method, code)
