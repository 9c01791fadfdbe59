"""Gate: asks the PreEnqueue plugins whether a Pod may enter the active queue or the backoff."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bayplan.api.pod import Pod
from bayplan.framework.status import Status
from bayplan.queue.holds import Holds
from bayplan.queue.queued_pod import QueuedPod

PreEnqueue = tuple[str, Callable[[Pod], Status | None]]
"""A PreEnqueue plugin's name and method."""


class Gate:
    """The PreEnqueue plugins of every profile, in their order; `Holds` come before them."""

    def __init__(self, plugins: Mapping[str, Sequence[PreEnqueue]], holds: Holds) -> None:
        self._plugins = plugins
        self._holds = holds

    def holder(self, queued: QueuedPod) -> Status | None:
        """The rejection of the first PreEnqueue plugin that gates the Pod; None if all accept.

        The one that holds it already is asked first: most often it still does. A status of Error
        holds the Pod like a rejection.
        """
        held = self._holds.of(queued.pod)
        if held is not None:
            return held
        plugins = self._plugins.get(queued.profile, ())
        if queued.gating_plugin:
            plugins = sorted(plugins, key=lambda p: p[0] != queued.gating_plugin)
        for name, pre_enqueue in plugins:
            status = pre_enqueue(queued.pod)
            if status is not None and not status.ok:
                return status.by(name)
        return None
