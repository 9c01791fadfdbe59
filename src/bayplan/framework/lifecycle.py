"""Lifecycle: the extension points before and after the choice of a node.

PreEnqueue, Reserve, Unreserve, Permit, PreBind, Bind and PostBind of one profile, in the order of
its plugins. The merging of statuses and the texts follow kube-scheduler's
``pkg/scheduler/framework/runtime/framework.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.plugin_set import PluginSet
from bayplan.framework.stages import AttemptError
from bayplan.framework.status import SKIP, SUCCESS, Code, Status

MAX_PERMIT_SECONDS = 15 * 60
"""Longest time that a Permit plugin may make a Pod wait."""


class Lifecycle:
    """One profile's plugins at the extension points around the choice of a node.

    Methods raise AttemptError when a plugin broke or reported an error.
    """

    def __init__(self, plugins: PluginSet) -> None:
        self._plugins = plugins

    def gates(self) -> list[tuple[str, Callable[[Pod], Status | None]]]:
        """(name, method) of the PreEnqueue plugins; one that breaks holds the Pod back."""
        return [(p.name, partial(self._pre_enqueue, p)) for p in self._plugins.at("preEnqueue")]

    def _pre_enqueue(self, plugin: Any, pod: Pod) -> Status | None:
        try:
            status: Status | None = self._plugins.call(
                plugin, "PreEnqueue", plugin.pre_enqueue, pod
            )
        except AttemptError as exc:
            return Status.error(str(exc))
        return status

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run Reserve plugins; the first that does not succeed ends it."""
        return self._until_failure("reserve", "reserve", state, pod, node_name)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo Reserve in reverse order. Must not fail: exceptions are logged and counted."""
        for plugin in reversed(self._plugins.at("reserve")):
            if hasattr(plugin, "unreserve"):
                try:
                    self._plugins.call(plugin, "Unreserve", plugin.unreserve, state, pod, node_name)
                except AttemptError:
                    continue

    def permit(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[Status, dict[str, float]]:
        """Run Permit plugins: (status, seconds to wait by plugin where it is Wait)."""
        waits: dict[str, float] = {}
        for plugin in self._plugins.at("permit"):
            answer = self._plugins.call(plugin, "Permit", plugin.permit, state, pod, node_name)
            status, seconds = answer if isinstance(answer, tuple) else (answer or SUCCESS, 0.0)
            if status.rejected:
                return status.by(plugin.name), {}
            if status.code is Code.WAIT:
                waits[plugin.name] = min(seconds, MAX_PERMIT_SECONDS)
            elif not status.ok:
                raise AttemptError(f'running Permit plugin "{plugin.name}": {status.message}')
        return (Status(Code.WAIT) if waits else SUCCESS), waits

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Skip when no PreBind plugin will do anything, else Success."""
        needed = False
        for plugin in self._plugins.at("preBind"):
            flight = getattr(plugin, "pre_bind_pre_flight", None)
            if flight is None:
                needed = True
                continue
            status = self._plugins.call(plugin, "PreBindPreFlight", flight, state, pod, node_name)
            if status.code is Code.SKIP:
                continue
            if not status.ok:
                raise AttemptError(f'running PreBindPreFlight "{plugin.name}": {status.message}')
            needed = True
        return SUCCESS if needed else SKIP

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run PreBind plugins. Runs on a binding worker."""
        return self._until_failure("preBind", "pre_bind", state, pod, node_name)

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Future[Status]:
        """The answer of the first Bind plugin that does not skip."""
        for plugin in self._plugins.at("bind"):
            answer = self._plugins.call(plugin, "Bind", plugin.bind, state, pod, node_name)
            if isinstance(answer, Future):
                return answer
            status: Status = answer or SUCCESS
            if status.code is not Code.SKIP:
                return status.by(plugin.name)
        return Status.error("no Bind plugin took the Pod")

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run PostBind plugins; exceptions are logged and counted."""
        for plugin in self._plugins.at("postBind"):
            try:
                self._plugins.call(plugin, "PostBind", plugin.post_bind, state, pod, node_name)
            except AttemptError:
                continue

    def _until_failure(
        self, point: str, method_name: str, state: CycleState, pod: Pod, node_name: str
    ) -> Status:
        title = point[0].upper() + point[1:]
        for plugin in self._plugins.at(point):
            method = getattr(plugin, method_name, None)
            if method is None:
                continue
            status: Status | None = self._plugins.call(plugin, title, method, state, pod, node_name)
            if status is not None and not status.ok:
                if status.rejected:
                    return status.by(plugin.name)
                raise AttemptError(f'running {title} plugin "{plugin.name}": {status.message}')
        return SUCCESS
