"""What the scheduler writes to the API server: trouble is told, a Pod that is gone is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from bayplan.api.meta import Condition
from bayplan.app.api_client import PodStatusWriter
from bayplan.client.errors import ApiError, Conflict, NotFound
from bayplan.client.writer import Writer
from bayplan.testing import make_pod

CONDITION = Condition("PodScheduled", "False")
Done = Callable[[ApiError | None], None]


class Writes(Writer):
    """Every write ends as a test says."""

    def __init__(self, error: ApiError | None) -> None:
        self.error = error
        self.written: list[tuple[Any, ...]] = []

    def patch_pod_status(self, *args: Any) -> None:
        *written, done = args
        self.written.append(tuple(written))
        done(self.error)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(None, [], id="written"),
        pytest.param(NotFound("pod is gone"), [], id="gone"),
        pytest.param(
            Conflict("it has changed"),
            [
                {
                    "event": "Pod status not written",
                    "log_level": "warning",
                    "pod": "default/p",
                    "error": "it has changed",
                }
            ],
            id="trouble",
        ),
    ],
)
def test_a_status_that_is_not_written_is_told(
    error: ApiError | None, told: list[dict[str, Any]]
) -> None:
    writes, pod = Writes(error), make_pod("p").obj()
    with capture_logs() as logged:
        PodStatusWriter(writes).patch(pod, CONDITION, "n1")
    assert writes.written == [(pod, CONDITION, "n1")]
    assert logged == told
