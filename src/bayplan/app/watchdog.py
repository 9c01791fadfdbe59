"""Watchdog: a thread that detects a stuck scheduling thread.

Plugins of users run on the scheduling thread. A plugin that never returns stops everything: no Pod
is placed, no signal is handled. The watchdog reads the `Pulse` and reacts in steps:

    1 s             a warning names the plugin, the extension point and the stack, once an attempt
    half the limit  the plugin's call is ended, where that is possible: `CallDeadline`
    the limit       `on_stuck`: /livez fails, and the Lease is released
    a signal        to end, to which the scheduling thread has not reacted in time: `on_abandon`

Python's signal handlers run on the main thread, which may be inside a plugin. So signals are also
written to a file descriptor by C code. Code that holds the interpreter lock stops this thread, too;
then a timer of `faulthandler`, which needs no lock, ends the process.

The reasons: docs/decisions/0018-a-watchdog.md.
"""

from __future__ import annotations

import faulthandler
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

import structlog

from bayplan.app.culprit import Culprit, culprit_of
from bayplan.telemetry.pulse import Pulse

log = structlog.get_logger("watchdog")

WARN_SECONDS = 1.0
"""An attempt that takes longer is warned of."""
SLOW_INBOX_SECONDS = 10.0
"""The same for what was in the inbox: the first lists of a large cluster take their time."""
LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 5.0
"""How long a step may take after a signal to end."""
GRACE_SECONDS = 25.0
"""The process ends at the latest this long after a signal; Kubernetes gives 30 s."""
LOCKED_SECONDS = 30.0
"""How long after the limit the process is ended if another thread holds the lock."""
ENDING = {signal.SIGTERM, signal.SIGINT}


def end_process_in(seconds: float) -> None:
    """Print all stacks and exit with code 1 after ``seconds``, unless called again before."""
    faulthandler.dump_traceback_later(seconds, exit=True)


class Watchdog:
    """Watches the scheduling thread; must be created on this thread.

    Args:
        pulse: of that thread.
        limit: seconds after which a step counts as stuck; 0 is never.
        on_stuck: called once per step, with a sentence that says what is stuck, and the culprit.
        on_abandon: must end the process, without the scheduling thread.
        clock: that of the pulse.
        arm: let the process end in so many seconds, without the interpreter lock, and forget what
            was said before.
        on_look: called before each look; that of `CallDeadline`.
    """

    def __init__(
        self,
        pulse: Pulse,
        limit: float,
        on_stuck: Callable[[str, Culprit], None],
        on_abandon: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        arm: Callable[[float], None] = end_process_in,
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._arm = arm
        self._on_look = on_look
        self._pulse = pulse
        self._limit = limit or float("inf")
        self._on_stuck = on_stuck
        self._on_abandon = on_abandon
        self._clock = clock
        self._watched = threading.get_ident()
        self._warned = self._reported = 0.0
        self._asked_at = float("inf")
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    @property
    def stuck(self) -> bool:
        """Whether the current step has taken longer than the limit."""
        return self._pulse.age() >= self._limit

    @property
    def late(self) -> bool:
        """Whether the current step takes long enough for a warning."""
        limit = SLOW_INBOX_SECONDS if self._pulse.pod is None else WARN_SECONDS
        return self._pulse.age() >= limit

    def start(self) -> None:
        """Begin to watch. Main thread only, because it installs a file descriptor for signals."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._rearm()
            self._on_look()
            if select.select([self._reader], [], [], LOOK_SECONDS)[0]:
                self.hear(self._reader.recv(64))
            self.look()

    def hear(self, signals: bytes) -> None:
        """These signals came. A handler of signals may say so, too: that needs no other thread."""
        if ENDING.intersection(signals):
            self._asked_at = min(self._asked_at, self._clock())
            self._rearm()

    def look(self) -> None:
        """Compare the pulse with the times."""
        since, now = self._pulse.since, self._clock()
        age = now - since
        if self.late and since != self._warned:
            self._warned = since
            self._warn(age)
        if age >= self._limit and since != self._reported:
            self._reported = since
            culprit = self.culprit()
            self._on_stuck(self._sentence(culprit), culprit)
        patience = self._asked_at + PATIENCE_SECONDS
        if (since <= self._asked_at and now >= patience) or now >= self._asked_at + GRACE_SECONDS:
            self._on_abandon()

    def _warn(self, age: float) -> None:
        culprit = self.culprit()
        pod = culprit.pod or self._pulse.pod
        if pod is None and not culprit.plugin:
            return
        log.warning(
            "Plugin takes long" if culprit.plugin else "Attempt takes long",
            plugin=culprit.plugin,
            point=culprit.where,
            pod=pod.key if pod else "",
            seconds=round(age, 1),
            stack=culprit.stack,
        )

    def culprit(self) -> Culprit:
        """Whose code the scheduling thread is in."""
        frames = sys._current_frames()  # noqa: SLF001 - documented for this
        return culprit_of(frames.get(self._watched))

    def _sentence(self, culprit: Culprit) -> str:
        pod = culprit.pod or self._pulse.pod
        who = f"plugin {culprit.plugin} ({culprit.where})" if culprit.plugin else "a step"
        about = f" with Pod {pod.key}" if pod else ""
        return f"{who} has not returned for {self._limit:g} s{about}"

    def _rearm(self) -> None:
        """Rearm the timer of C code that ends the process."""
        last = min(self._limit + LOCKED_SECONDS, self._asked_at + GRACE_SECONDS - self._clock())
        if last < float("inf"):
            self._arm(max(1.0, last))
