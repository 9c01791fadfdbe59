"""Instrument: everything that the pipeline reports about itself, as one interface.

`bayplan.telemetry.metrics.Metrics` is one implementation. A subclass overrides the methods that it
needs; those of `Instrument` itself do nothing. Methods are called on the thread where the thing
happens, mostly the scheduling thread: they must be fast and must not call the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from inspect import isfunction

from bayplan.api.pod import Pod


class Instrument:
    """Receives what happens, and ignores it. Times are in seconds.

    Attributes:
        times_plugins: whether `plugin_called` is wanted for in-tree plugins, too. Read once, when a
            profile is built: their calls are timed one by one only if an implementation needs it.
        times_calls: whether `called` is wanted.
    """

    times_plugins: bool = False
    times_calls: bool = False

    # Attempts, on the scheduling thread

    def attempt_began(self, pod: Pod, profile: str, number: int) -> None:
        """The ``number``-th attempt of a Pod that belongs to no group began."""

    def attempt(self, pod: Pod, profile: str, result: str, seconds: float) -> None:
        """An attempt ended as ``scheduled``, ``unschedulable`` or ``error``.

        ``pod`` has its node where it is scheduled.
        """

    def binding_began(self, pod: Pod) -> None:
        """``pod`` has a node, and its binding cycle begins."""

    def algorithm(self, seconds: float, evaluated: int) -> None:
        """The search for a node ended; ``evaluated`` nodes were looked at."""

    def scheduled(self, attempts: int, waited: float | None, flushed: bool) -> None:
        """A Pod is bound.

        Args:
            attempts: how many it needed.
            waited: since it was first taken from the queue; None if that is not known.
            flushed: no event woke it before the last attempt, only the periodic flush.
        """

    def group_planned(self, seconds: float) -> None:
        """The search for nodes for all Pods of a group ended, well or not."""

    def group_attempt(self, profile: str, result: str, reason: str, seconds: float) -> None:
        """An attempt of a group ended as ``scheduled``, ``unschedulable`` or ``error``.

        ``reason`` is that of the event on the group, one of a few words. ``seconds`` is from the
        attempt to the last binding, where it was scheduled.
        """

    def kubernetes_group_planned(self, seconds: float) -> None:
        """The search for nodes for all Pods of a PodGroup of Kubernetes ended, well or not."""

    def kubernetes_group_attempt(self, profile: str, result: str, seconds: float) -> None:
        """An attempt of a PodGroup of Kubernetes ended.

        ``result`` is scheduled, unschedulable, waiting_on_preemption or error.
        """

    def placements_generated(self, profile: str, number: int) -> None:
        """So many sets of nodes are to be tried for a PodGroup of Kubernetes."""

    def placement_evaluated(self, profile: str, result: str, seconds: float) -> None:
        """One set of nodes was tried: ``feasible`` or ``infeasible``."""

    def preemption(self, preemptor: str, result: str, seconds: float | None) -> None:
        """A preemption for a ``pod`` or ``podgroup`` was tried.

        ``result`` is the name of its status code, ``seconds`` the duration of the search for
        victims; None where none was necessary.
        """

    def eviction(self, preemptor: str, victims: int, groups: int, violations: int) -> None:
        """So many Pods are to leave for a ``pod`` or ``podgroup``.

        Args:
            preemptor: which of the two.
            victims: Pods, those included that are leaving already.
            groups: how many PodGroups leave as a whole.
            violations: how many of the Pods a PodDisruptionBudget protects.
        """

    def leaving(
        self, preemptors: Sequence[Pod], nodes: Collection[str] | None, victims: Sequence[Pod]
    ) -> None:
        """``victims`` are to leave so that ``preemptors``, a Pod or a group, fit on ``nodes``.

        None: anywhere, as a limit is all that they stand in the way of.
        """

    def evicted(self, preemptor: str, *, success: bool, seconds: float) -> None:
        """The API server has answered all requests of an eviction. Any thread."""

    def rejected_by_node(self, reason: str, scheduler: str, taken_by: str) -> None:
        """A kubelet rejected a Pod of ``scheduler`` (a schedulerName).

        ``taken_by`` is the scheduler whose Pod took the room at the same time, "" if none did.
        """

    def reclaimed(self, queue: str, rule: str, pods: int) -> None:
        """Pods of a Queue are evicted for another one, or ("") for its own, by a rule."""

    def improved(self, queue: str, result: str, moves: int) -> None:
        """A plan of moves for a Queue has ended: ``made``, ``stopped``, ``refused`` or ``none``.

        ``moves`` Pods were evicted.
        """

    # The queue, on the scheduling thread

    def incoming(self, queue: str, event: str, pod: Pod, members: int | None = None) -> None:
        """``pod`` entered ``queue`` (active, backoff, unschedulable) because of ``event``.

        With ``members`` it is a group of so many Pods that did, and ``pod`` is one of them.
        """

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """One Pod more (1) or less (-1) is in the queue that ``plugin`` has rejected."""

    # Plugins

    def extension_point(self, point: str, profile: str, status: str, seconds: float) -> None:
        """All plugins of an extension point ran."""

    def plugin_called(self, plugin: str, point: str, profile: str, seconds: float) -> None:
        """One call of a plugin ended, well or not. Any thread.

        In-tree plugins only where `times_plugins`.
        """

    def plugin_failed(self, plugin: str, point: str) -> None:
        """A plugin raised an exception, or answered what it must not. Any thread."""

    def permit_waited(self, pod: Pod, result: str, seconds: float) -> None:
        """A Pod's wait in Permit ended. Any thread."""

    def worker_serves(self, pod: Pod | None) -> None:
        """The calling thread works for the binding of ``pod`` from now on, or for none."""

    def plugin_counted(self, plugin: str, name: str, amount: float) -> None:
        """A user's plugin adds to its counter ``name``. Any thread."""

    def plugin_set(self, plugin: str, name: str, value: float) -> None:
        """A user's plugin sets its gauge ``name``. Any thread."""

    def plugin_observed(self, plugin: str, name: str, seconds: float) -> None:
        """A user's plugin adds a duration to its histogram ``name``. Any thread."""

    # The API server

    def claim_created(self, *, success: bool) -> None:
        """A ResourceClaim for a Pod's extended resources was created, or not. Any thread."""

    def device_awaited(
        self, profile: str, driver: str, outcome: str, seconds: float, *, conditions: bool
    ) -> None:
        """A binding has waited until the devices of its Pod are ready. Any thread.

        Called for each device of the Pod; ``conditions`` says whether it has binding conditions.
        The outcome is success, failure, timeout or error.
        """

    def request(self, host: str, method: str, code: str) -> None:
        """A request to ``host`` ended; the code is ``<error>`` without an answer. Any thread.

        A watch counts once, when it is answered.
        """

    def called(self, method: str, path: str, code: str, seconds: float) -> None:
        """A request to the API server ended, no watch; only where `times_calls`. Any thread."""


class Instruments(Instrument):
    """Passes everything on to several instruments, in order."""

    def __init__(self, *parts: Instrument) -> None:
        self.times_plugins = any(part.times_plugins for part in parts)
        self.times_calls = any(part.times_calls for part in parts)
        for name, method in vars(Instrument).items():
            if isfunction(method):
                setattr(self, name, _in_order([getattr(part, name) for part in parts]))


def _in_order(calls: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def call_all(*args: object, **kwargs: object) -> None:
        for call in calls:
            call(*args, **kwargs)

    return call_all
