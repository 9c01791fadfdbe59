"""AttemptFault: an attempt is over because a plugin or an extender broke, or reported an error.

Who needs to know what happened reads the fault's fields. Its text is for people: it goes to the
Pod's condition and event, in kube-scheduler's words where kube-scheduler has any, and is put
together nowhere else.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from bayplan.config.points import Point
from bayplan.framework.cycle_state import MissingStateError
from bayplan.framework.status import Code, Status
from bayplan.support.text import error_text, text_of

log = structlog.get_logger("framework")

TRACEBACK_PERIOD = 60.0
"""Seconds between two tracebacks of one plugin at one extension point."""


PLUGIN_TIMEOUT = "PluginTimeout"
"""Reason of the condition PodScheduled of a Pod that a plugin did not return for."""


class PluginTimeout(BaseException):
    """Raised in a plugin to end a call without return; `except Exception` does not stop this."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"has not returned for {seconds:g} s")


class InvalidScoreError(ValueError):
    """A score is outside of 0..100; the message says so in kube-scheduler's words."""


class NodeFault(Exception):  # noqa: N818 - only ever the wrapper of the plugin's own exception
    """A plugin raised ``__cause__`` when it was asked about one node."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class AttemptFault(Exception):  # noqa: N818 - the outcome of an attempt, not a bug of its own
    """This attempt to schedule a Pod is over.

    Attributes:
        point: where it happened; None for an extender.
        plugin: the plugin, or the extender.
        cause: the exception that was raised, or the status that was returned.
        node: the node that the plugin was asked about; "" where it was not about one node.
    """

    def __init__(
        self, point: Point | None, plugin: str, cause: BaseException | Status, node: str = ""
    ) -> None:
        super().__init__(point, plugin, cause, node)
        self.point = point
        self.plugin = plugin
        self.cause = cause
        self.node = node

    def __str__(self) -> str:
        if isinstance(self.cause, Status):
            return _reported(self.point, self.plugin, self.cause)
        return _raised(self.point, self.plugin, self.cause)

    @property
    def timed_out(self) -> bool:
        """Whether the plugin did not return."""
        return isinstance(self.cause, PluginTimeout)

    @property
    def status(self) -> Status:
        """The fault as an Error status of its plugin, in the same words."""
        return Status.error(str(self)).by(self.plugin)


def _reported(point: Point | None, plugin: str, status: Status) -> str:
    """The sentence for a status with code Error, or with a code that the point does not allow."""
    if point is None:
        return status.message
    if point is Point.FILTER:
        # A status with a plugin filled in comes from `FilterStage.status`, which has worded it.
        text = status.message
        return text if status.plugin else f'running "{plugin}" filter plugin: {text}'
    if point is Point.POD_GROUP_POST_FILTER:
        return f'error in "{plugin}" {point.display} plugins: {status.message}'
    if point is Point.PRE_BIND_PRE_FLIGHT:
        if status.code is Code.ERROR:
            return f'running {point.display} "{plugin}": {status.message}'
        return (
            f'{point.display} {plugin} returned "{status.code}", which is unsupported. It is '
            "supposed to return Success, Skip, or Error status"
        )
    return f'running {point.display} plugin "{plugin}": {status.message}'


def _raised(point: Point | None, plugin: str, cause: BaseException) -> str:
    if point is None or isinstance(cause, InvalidScoreError):
        return text_of(cause)
    if isinstance(cause, PluginTimeout):
        return f'running {point.display} plugin "{plugin}": {cause}'
    if isinstance(cause, MissingStateError):
        return f'running {point.display} plugins: plugin "{plugin}" failed with: {text_of(cause)}'
    return f'running {point.display} plugin "{plugin}": {error_text(cause)}'


def is_interrupt(error: BaseException) -> bool:
    """Whether ``error`` is Ctrl-C and not a plugin's doing.

    Only where Python's own handler of SIGINT is installed does a signal raise KeyboardInterrupt,
    and then only on the main thread. Everything else that a plugin lets out, SystemExit included,
    is a fault of the plugin.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


@dataclass
class _Failures:
    """The failures of one kind since their last traceback."""

    logged_at: float
    suppressed: int = 0


class FailureLog:
    """Logs exceptions of plugins: of each kind one traceback a minute, the rest counted.

    Of one kind are those of one plugin, point, type and line.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, profile: str, clock: Callable[[], float]) -> None:
        self._profile = profile
        self._clock = clock
        self._failures: dict[tuple[str, Point, str, int], _Failures] = {}

    def write(self, plugin: str, point: Point, cause: BaseException, node: str) -> None:
        """Log ``cause``, or count it for the next line."""
        now = self._clock()
        kind = plugin, point, type(cause).__name__, _line(cause)
        failures = self._failures.get(kind)
        if failures is not None and now - failures.logged_at < TRACEBACK_PERIOD:
            failures.suppressed += 1
            return
        self._failures[kind] = _Failures(now)
        about = {"node": node} if node else {}
        log.error(
            "plugin failed",
            plugin=plugin,
            point=point.display,
            profile=self._profile,
            suppressed=0 if failures is None else failures.suppressed,
            exc_info=cause,
            **about,
        )


def _line(cause: BaseException) -> int:
    """The line that raised ``cause``; 0 if never raised."""
    line, traceback = 0, cause.__traceback__
    while traceback is not None:
        line, traceback = traceback.tb_lineno, traceback.tb_next
    return line
