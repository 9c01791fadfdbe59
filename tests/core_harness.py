"""A whole scheduler without a cluster: a clock to turn, an API server that only writes down.

Everything between the informers and the API server is real. Work for other threads is done at once,
in the thread that hands it over, so that a test is the same at every run.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ParamSpec, TypeVar

import msgspec
from tests.handles import RefusingWriter

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.api.node import Node
from bayplan.api.pod import Pod, PodCondition
from bayplan.app.assembly import Ports, build
from bayplan.config import parse_config
from bayplan.extenders.extenders import Extenders
from bayplan.framework.interface import Plugin
from bayplan.framework.registry import Registry
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Changed, Command, Message, Removed
from bayplan.queue.places import Place
from bayplan.simulation.name_order import NameOrder
from bayplan.telemetry.metrics import Metrics
from bayplan.testing import Json, NodeBuilder, PodBuilder

PROFILE = "bayplan"
Done = Callable[[Exception | None], None]
P = ParamSpec("P")
T = TypeVar("T")

_versions = count(1)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


@dataclass(frozen=True)
class Call(Command):
    """Runs a function of the test on the scheduling thread."""

    function: Callable[[], object]

    def run(self) -> None:
        """See `bayplan.inbox.messages.Command`."""
        self.function()


class Inline(Executor):
    """Does what it is given at once; with `held` set, when `release` is called."""

    def __init__(self) -> None:
        self.held = False
        self._later: list[Callable[[], None]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``fn``; like a worker's, its exception ends in the future."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(fn(*args, **kwargs))
            except Exception as exc:  # noqa: BLE001
                done.set_exception(exc)

        if self.held:
            self._later.append(run)
        else:
            run()
            if done.exception() is not None:
                raise AssertionError("a worker broke") from done.exception()
        return done

    def release(self) -> None:
        """Do what was held."""
        self.held, later, self._later = False, self._later, []
        for run in later:
            run()


@dataclass
class Client(RefusingWriter):
    """Writes bindings down and answers them with `outcome`, or keeps them while it is `slow`."""

    bound: list[tuple[str, str]] = field(default_factory=list)
    outcome: Exception | None = None
    slow: bool = False
    waiting: list[Done] = field(default_factory=list)

    def bind(self, pod: Pod, node_name: str, done: Done) -> None:
        """See `bayplan.client.writer.Writer.bind`."""
        self.bound.append((pod.name, node_name))
        if self.slow:
            self.waiting.append(done)
        else:
            done(self.outcome)

    def answer(self, outcome: Exception | None = None) -> None:
        """Answer the bindings that wait."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(outcome)


@dataclass(frozen=True)
class Event:
    """An event as it was recorded."""

    pod: str
    type: str
    reason: str
    action: str
    note: str


class Recorder:
    """Keeps events, conditions and nominations."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.conditions: list[tuple[str, PodCondition]] = []
        self.nominated: list[tuple[str, str | None]] = []

    def event(
        self,
        regarding: Pod,
        related: Pod | None,
        type_: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
    ) -> None:
        """See `bayplan.framework.handle.EventRecorder`."""
        self.events.append(Event(regarding.name, type_, reason, action, note))

    def patch(self, pod: Pod, condition: PodCondition | None, nominated: str | None) -> None:
        """See `bayplan.attempt.report.StatusWriter`."""
        if condition is not None:
            self.conditions.append((pod.name, condition))
        self.nominated.append((pod.name, nominated))


def profile(
    *names: str, bare: bool = False, scheduler_name: str = PROFILE, args: Json | None = None
) -> Json:
    """A profile with these plugins beside the default ones, or (``bare``) almost alone."""
    enabled = ["PrioritySort", "DefaultBinder", *names] if bare else names
    multi_point: Json = {"enabled": [{"name": name} for name in enabled]}
    if bare:
        multi_point["disabled"] = [{"name": "*"}]
    return {
        "schedulerName": scheduler_name,
        "plugins": {"multiPoint": multi_point},
        "pluginConfig": [{"name": name, "args": value} for name, value in (args or {}).items()],
    }


def only(*names: str) -> Json:
    """A profile with just these plugins, in this order."""
    enabled = [{"name": name} for name in names]
    points = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    return {"schedulerName": PROFILE, "plugins": points}


class Cluster:
    """A scheduler and what it sees.

    Args:
        plugins: users' plugins; they run in the profile, too, unless ``profiles`` says otherwise.
        bare: whether no other plugins run than these, PrioritySort and DefaultBinder.
        profiles: the profiles of the configuration, see `profile`.
        extenders: they are asked.
        extender_config: what the configuration says of one.
        settings: more fields of the configuration.
    """

    def __init__(
        self,
        *plugins: type[Plugin],
        bare: bool = False,
        profiles: list[Json] | None = None,
        extenders: Extenders | None = None,
        extender_config: Json | None = None,
        **settings: Any,
    ) -> None:
        registry = Registry()
        for plugin in plugins:
            registry.add(plugin, "test")
        names = [plugin.name for plugin in plugins]
        config: Json = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": profiles or [profile(*names, bare=bare)],
            **settings,
        }
        if extender_config is not None:
            config["extenders"] = [extender_config]
        self.clock = Clock()
        self.client = Client()
        self.recorder = Recorder()
        self.metrics = Metrics()
        self.inbox = Inbox()
        self.pool = Inline()
        ports = Ports(
            events=self.recorder,
            writer=self.client,
            statuses=self.recorder,
            inbox=self.inbox,
            instrument=self.metrics,
            binding_workers=self.pool,
            extenders=extenders or Extenders(),
            tie_break=NameOrder(),
            clock=self.clock,
            now=self.clock,
        )
        effective = parse_config(msgspec.json.encode(config).decode(), registry.known)
        self.core = core = build(effective, registry, ports)
        self.ports = ports
        self.scheduler, world = core.scheduler, core.world
        self.queue, self.cache, self.handlers = world.queue, world.cache, world.handlers
        self.scheduler.active = True

    def plugin(self, cls: type[T]) -> T:
        """The instance of that plugin in the first profile that has it."""
        found = (p for f in self.core.profiles.values() for p in f.plugins.all)
        return next(p for p in found if isinstance(p, cls))

    # What the API server shows

    def tell(self, *messages: Message) -> None:
        """These messages come in."""
        self.inbox.post_all(messages)
        self.scheduler.take_in(wait=False)

    def add(self, *builders: PodBuilder | NodeBuilder) -> None:
        """These objects are new or have changed. Pods ask for this scheduler unless they say."""
        for builder in builders:
            self.tell(Changed(kind_of(builder), shown(builder)))

    def remove(self, *builders: PodBuilder | NodeBuilder) -> None:
        """These objects are gone."""
        for builder in builders:
            self.tell(Removed(kind_of(builder), shown(builder)))

    # What the scheduler does

    def cycle(self) -> None:
        """One scheduling cycle, and what comes of it at once."""
        queued = self.queue.pop()
        assert queued is not None, "no Pod is ready"
        self.scheduler.schedule_one(queued)
        self.scheduler.take_in(wait=False)

    def run(self) -> None:
        """Cycles until no Pod is ready."""
        while (queued := self.queue.pop()) is not None:
            self.scheduler.schedule_one(queued)
            self.scheduler.take_in(wait=False)

    def wait(self, seconds: float) -> None:
        """Let time pass; what is due then happens."""
        self.clock.time += seconds
        self.scheduler.take_in(wait=False)

    def take_in(self) -> None:
        """What other threads have handed over is seen to."""
        self.scheduler.take_in(wait=False)

    # What came of it

    @property
    def bound(self) -> list[tuple[str, str]]:
        """(Pod, node) of every binding that was sent."""
        return self.client.bound

    def place(self, builder: PodBuilder) -> Place:
        """Where the queue has that Pod."""
        queued = self.queue.get(uid_of(builder))
        return Place.OUTSIDE if queued is None else queued.place

    def rejectors(self, builder: PodBuilder) -> set[str]:
        """The plugins that the Pod waits for."""
        queued = self.queue.get(uid_of(builder))
        assert queued is not None
        return set(queued.rejectors)

    def node_of(self, builder: PodBuilder) -> str:
        """Where the Pod counts, "" for nowhere."""
        pod = self.cache.pod(uid_of(builder))
        return "" if pod is None else pod.node_name

    @property
    def notes(self) -> list[tuple[str, str]]:
        """(reason, note) of every event."""
        return [(event.reason, event.note) for event in self.recorder.events]

    @property
    def verdict(self) -> tuple[str, str]:
        """Reason and message of the condition that was written last."""
        condition = self.recorder.conditions[-1][1]
        return condition.reason, condition.message

    def metric(self, name: str, /, **labels: str) -> float:
        """The value of a metric, 0 when it was never counted."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def is_at_rest(self) -> bool:
        """Whether nothing is in flight, and what was counted is what there is."""
        statistics = self.queue.statistics()
        assert self.cache.nodes.recount() == {}
        return not (statistics.in_flight or statistics.in_flight_events or self.in_flight)

    @property
    def in_flight(self) -> int:
        """Binding cycles that have not come back."""
        return self.scheduler.in_flight


def uid_of(builder: PodBuilder | NodeBuilder) -> str:
    """metadata.uid of what it builds."""
    uid: str = builder.json["metadata"]["uid"]
    return uid


def kind_of(builder: PodBuilder | NodeBuilder) -> Kind[Any]:
    """The kind of what it builds."""
    return POD if isinstance(builder, PodBuilder) else NODE


def shown(builder: PodBuilder | NodeBuilder) -> Pod | Node:
    """The object as the API server shows it now: with a resourceVersion of its own."""
    builder.meta(resourceVersion=str(next(_versions)))
    if isinstance(builder, PodBuilder):
        builder.json["spec"].setdefault("schedulerName", PROFILE)
    return builder.obj()
