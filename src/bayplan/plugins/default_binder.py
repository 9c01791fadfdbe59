"""DefaultBinder: assigns the Pod to its node at the API server."""

from __future__ import annotations

from concurrent.futures import Future

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Plugin
from bayplan.framework.points import Bind
from bayplan.framework.status import SUCCESS, Status


class DefaultBinder(Plugin, Bind):
    """Posts the binding; does not wait for the answer."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Future[Status]:
        """The outcome, once the API server has answered."""
        outcome: Future[Status] = Future()

        def done(error: Exception | None) -> None:
            outcome.set_result(SUCCESS if error is None else Status.error(str(error)))

        writer = self.handle.writer
        assert writer is not None, "without a cluster nothing is bound"
        writer.bind(pod, node_name, done)
        return outcome
