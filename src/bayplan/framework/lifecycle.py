"""Lifecycle: the extension points before and after the choice of a node.

PreEnqueue, Reserve, Unreserve, Permit, PreBind, Bind and PostBind of one profile, in the order of
its plugins. The merging of statuses and the texts follow kube-scheduler's
``pkg/scheduler/framework/runtime/framework.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import QueuedPod
from bayplan.framework.plugin_set import PluginSet
from bayplan.framework.stages import AttemptError, in_tree
from bayplan.framework.status import SKIP, SUCCESS, Code, Status

MAX_PERMIT_SECONDS = 15 * 60
"""Longest time that a Permit plugin may make a Pod wait."""


class Lifecycle:
    """One profile's plugins at the extension points around the choice of a node.

    Methods raise AttemptError when a plugin broke or reported an error.
    """

    def __init__(self, plugins: PluginSet) -> None:
        self._plugins = plugins
        self.binds_at_once = all(p.binds_at_once for p in plugins.at("bind")) and not plugins.at(
            "postBind"
        )
        """Whether Bind and PostBind need no worker."""

    def queue_sort(self) -> Any:
        """The QueueSort plugin, so guarded that one that breaks gives way to the order of entry."""
        plugin = self._plugins.at("queueSort")[0]
        return plugin if in_tree(plugin) else _GuardedSort(self._plugins, plugin)

    def gates(self) -> list[tuple[str, Callable[[Pod], Status | None]]]:
        """(name, method) of the PreEnqueue plugins; one that breaks holds the Pod back."""
        return [(p.name, partial(self._pre_enqueue, p)) for p in self._plugins.at("preEnqueue")]

    def _pre_enqueue(self, plugin: Any, pod: Pod) -> Status:
        try:
            return self._plugins.status(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
        except AttemptError as exc:
            return Status.error(str(exc))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run Reserve plugins; the first that does not succeed ends it."""
        plugins = self._plugins.at("reserve")
        return self._until_failure("Reserve", "reserve", plugins, state, pod, node_name)

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
            status, seconds = self._plugins.call(
                plugin, "Permit", _permission, plugin.permit, state, pod, node_name
            )
            if status.rejected:
                return status.by(plugin.name), {}
            if status.code is Code.WAIT:
                waits[plugin.name] = min(seconds, MAX_PERMIT_SECONDS)
            elif not status.ok:
                raise AttemptError(f'running Permit plugin "{plugin.name}": {status.message}')
        return (Status(Code.WAIT) if waits else SUCCESS), waits

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Skip when no PreBind plugin will do anything, else Success."""
        for plugin in self._plugins.at("preBind"):
            flight = getattr(plugin, "pre_bind_pre_flight", None)
            if flight is None:
                continue
            status = self._plugins.status(plugin, "PreBindPreFlight", flight, state, pod, node_name)
            if status.code is Code.SKIP:
                state.skip_pre_bind.add(plugin.name)
            elif status.code is Code.ERROR:
                raise AttemptError(f'running PreBindPreFlight "{plugin.name}": {status.message}')
            elif not status.ok:
                raise AttemptError(
                    f'PreBindPreFlight {plugin.name} returned "{status.code}", which is '
                    "unsupported. It is supposed to return Success, Skip, or Error status"
                )
        names = {plugin.name for plugin in self._plugins.at("preBind")}
        return SKIP if names <= state.skip_pre_bind else SUCCESS

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run PreBind plugins, those excepted that have nothing to do. On a binding worker."""
        plugins = [p for p in self._plugins.at("preBind") if p.name not in state.skip_pre_bind]
        return self._until_failure("PreBind", "pre_bind", plugins, state, pod, node_name)

    def bind(
        self, state: CycleState, pod: Pod, node_name: str, done: Callable[[Status], None]
    ) -> None:
        """Let the first Bind plugin that does not skip bind the Pod; a Future cannot skip.

        ``done`` gets the outcome, once, now or later and then on any thread.
        """
        for plugin in self._plugins.at("bind"):
            answer = self._plugins.ask(
                _BIND_ANSWERS, plugin, "Bind", plugin.bind, state, pod, node_name
            )
            if isinstance(answer, Future):
                answer.add_done_callback(partial(self._pass_on, plugin, done))
                return
            status: Status = answer or SUCCESS
            if status.code is not Code.SKIP:
                done(_bound(plugin.name, status))
                return
        done(Status.error("no Bind plugin took the Pod"))

    def _pass_on(self, plugin: Any, done: Callable[[Status], None], answer: Future[Any]) -> None:
        try:
            status = _bound(plugin.name, self._plugins.status(plugin, "Bind", answer.result))
        except AttemptError as exc:
            status = Status.error(str(exc))
        done(status)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run PostBind plugins; exceptions are logged and counted."""
        for plugin in self._plugins.at("postBind"):
            try:
                self._plugins.call(plugin, "PostBind", plugin.post_bind, state, pod, node_name)
            except AttemptError:
                continue

    def _until_failure(
        self,
        point: str,
        method_name: str,
        plugins: Iterable[Any],
        state: CycleState,
        pod: Pod,
        node_name: str,
    ) -> Status:
        for plugin in plugins:
            method = getattr(plugin, method_name, None)
            if method is None:
                continue
            status = self._plugins.status(plugin, point, method, state, pod, node_name)
            if status.rejected:
                return status.by(plugin.name)
            if not status.ok:
                raise AttemptError(f'running {point} plugin "{plugin.name}": {status.message}')
        return SUCCESS


class _GuardedSort:
    """A user's QueueSort plugin; once it has broken it is asked no more."""

    def __init__(self, plugins: PluginSet, plugin: Any) -> None:
        self._plugins = plugins
        self._plugin = plugin
        self._broken = False
        key = getattr(plugin, "sort_key", None)
        self._less = plugin.less if key is None else lambda a, b: key(a) < key(b)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether ``a`` comes before ``b``."""
        if not self._broken:
            try:
                return bool(self._plugins.call(self._plugin, "QueueSort", self._less, a, b))
            except AttemptError:
                self._broken = True
        return a.timestamp < b.timestamp


_BIND_ANSWERS = (Status, Future, type(None))


def _permission(method: Callable[..., Any], *args: Any) -> tuple[Status, float]:
    """What a Permit plugin answers: a Status, or that with seconds to wait, or None."""
    answer = method(*args)
    status, seconds = answer if isinstance(answer, tuple) else (answer, 0.0)
    if not isinstance(status, Status | None):
        raise TypeError(f"{answer!r} was returned, not a Status, alone or with seconds to wait")
    return status or SUCCESS, float(seconds)


def _bound(plugin: str, status: Status) -> Status:
    """The outcome of a Bind plugin, in the words that go to the Pod."""
    if status.ok:
        return status
    if status.rejected:
        return status.by(plugin)
    return Status.error(f'running Bind plugin "{plugin}": {status.message}').by(plugin)
