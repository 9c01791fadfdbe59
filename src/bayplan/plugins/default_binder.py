"""DefaultBinder: assigns the Pod to its node at the API server."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Plugin
from bayplan.framework.points import Bind, BindRequest
from bayplan.framework.status import SUCCESS, Status


class DefaultBinder(Plugin, Bind):
    """Posts the binding; does not wait for the answer."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> BindRequest:
        """The request; its outcome is what the API server answers."""
        writer = self.handle.writer
        assert writer is not None, "without a cluster nothing is bound"

        def send(done: Callable[[Status], None]) -> None:
            writer.bind(
                pod,
                node_name,
                lambda error: done(SUCCESS if error is None else Status.error(str(error))),
            )

        return send
