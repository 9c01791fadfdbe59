"""For all tests: plain tracebacks in logs, as in earnest (pretty ones take a second each), and one
Hypothesis profile. With CI=true its examples are the same at every run.
"""

import os

import structlog
from hypothesis import settings
from tests.properties import FACTOR

structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

settings.register_profile(
    "bayplan",
    max_examples=100 * FACTOR,
    stateful_step_count=30,
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("bayplan")
