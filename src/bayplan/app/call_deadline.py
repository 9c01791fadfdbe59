"""CallDeadline: ends a plugin's call that does not return, where Python can be interrupted.

A timer of the kernel sends SIGALRM to the scheduling thread while one of its steps takes long. The
handler looks which call of a plugin is running, and raises `PluginTimeout` in one that has run for
too long. So the attempt of one Pod fails, and all others go on:

    step begins ... sampling begins ... the same call for the rest of the time > PluginTimeout

Code that waits or loops is interrupted, a slow regular expression included, although it holds the
interpreter lock. What cannot be interrupted: other C code that never looks for signals, plugins on
worker threads (`blocking`), code that catches BaseException and goes on, and bayplan's own code
that a plugin has called. Then the watchdog has the whole process replaced.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType

from bayplan.app.culprit import Culprit, culprit_of, interruptible_call
from bayplan.engine.faults import PluginTimeout
from bayplan.telemetry.pulse import Pulse

INTERVAL = 0.25
"""Seconds between two looks at a step that takes long."""


def alarm_in(seconds: float) -> None:
    """Send SIGALRM after ``seconds`` and then every `INTERVAL`, unless called again before."""
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01), INTERVAL)


class CallDeadline:
    """The deadline of plugins' calls on the scheduling thread.

    Args:
        pulse: of that thread.
        seconds: how long a call may take; infinite is for ever.
        on_timeout: called with the culprit just before its call is ended; must be safe in a
            handler of signals.
        clock: that of the pulse.
        arm: see `alarm_in`.
    """

    def __init__(
        self,
        pulse: Pulse,
        seconds: float,
        on_timeout: Callable[[Culprit], None],
        clock: Callable[[], float] = time.monotonic,
        arm: Callable[[float], None] = alarm_in,
    ) -> None:
        self._pulse = pulse
        self._seconds = seconds
        self._on_timeout = on_timeout
        self._clock = clock
        self._arm = arm
        self._call: FrameType | None = None
        self._since = 0.0
        self._ended_step = 0.0

    def start(self) -> None:
        """Handle SIGALRM from now on. Main thread only."""
        signal.signal(signal.SIGALRM, self.look)

    def rearm(self) -> None:
        """Look at the step once it has taken half of the time. Any thread, often."""
        if self._seconds == float("inf"):
            return
        due = self._seconds / 2 - self._pulse.age()
        if due > 0:
            self._call = None
        self._arm(due)

    def look(self, _signal: int, innermost: FrameType | None) -> None:
        """Handle SIGALRM.

        Raises:
            PluginTimeout: in the plugin, whose call has taken too long.
        """
        step, now = self._pulse.since, self._clock()
        if self._pulse.age() < self._seconds / 2:
            return
        call = interruptible_call(innermost)
        if call is None:
            return
        if call is not self._call:
            # It may have begun with the step, at most: the step says so for the first one.
            self._since = step if self._call is None else now
            self._call = call
        if now - self._since < self._seconds:
            return
        if step != self._ended_step:
            self._ended_step = step
            self._on_timeout(culprit_of(innermost))
        raise PluginTimeout(self._seconds)
