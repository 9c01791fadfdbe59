"""Logging: structlog, as JSON lines or for the console, with kube-scheduler's ``-v`` levels.

A line is logged with ``v=N`` when it belongs to verbosity N; lines above the chosen level cost a
comparison. 0 is what always matters, 2 one line a decision, 3 one an attempt, 5 what PostFilter
plugins made of it, 10 the score of every plugin for every node. Errors and warnings always appear.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

# structlog loads rich where there is one, for tracebacks that are not printed here: half of its own
# time, and every command would wait for it.
_has_rich = "rich" in sys.modules
if not _has_rich:
    sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails
import structlog  # noqa: E402

if not _has_rich:
    del sys.modules["rich"]

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

VERBOSITY = 0
"""What is logged unless ``-v`` says otherwise."""

MOST = 10
_level = VERBOSITY


def parse_verbosity(text: str) -> int:
    """A level from 0 to 10.

    Raises:
        ValueError: it is none.
    """
    if not text.isdecimal() or int(text) > MOST:
        raise ValueError(f"must be a number from 0 to {MOST}")
    return int(text)


def verbosity() -> int:
    """The present level."""
    return _level


def enabled(v: int) -> bool:
    """Whether lines of verbosity ``v`` are logged; ask before computing what is costly to log."""
    return v <= _level


def set_verbosity(verbosity: int) -> None:
    """Log lines up to this verbosity from now on. Any thread."""
    global _level
    _level = verbosity


def configure(verbosity: int = VERBOSITY, *, json: bool = True) -> None:
    """Set up logging for the process, on standard error."""
    set_verbosity(verbosity)
    plain = structlog.dev.plain_traceback
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=_colored(), exception_formatter=plain)
    )
    structlog.configure(
        processors=[
            _drop_verbose,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            *(_JSON if json else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


_JSON = (
    structlog.processors.format_exc_info,
    # Kubernetes components name the text of a line so.
    structlog.processors.EventRenamer("msg"),
)


def _colored() -> bool:
    """Only on a terminal, and not where the user wants none (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _drop_verbose(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    if event.get("v", 0) > _level:
        raise structlog.DropEvent
    return event
