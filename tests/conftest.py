"""Logging for all tests: plain tracebacks, as in earnest; pretty ones take a second each."""

import structlog

structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)
