"""A whole scheduler core around a small cluster, with a client that writes down what it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.handles import RefusingWriter

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.api.workloads import PodDisruptionBudget
from bayplan.app.assembly import Ports, build
from bayplan.client.errors import ApiError
from bayplan.client.writer import Done
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.extenders.extenders import Extenders
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.interface import FilterFailure, PostFilterResult
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import ActivatePods, EvictionFailed
from bayplan.plugins.default_preemption import DefaultPreemption
from bayplan.preemption.evaluator import Analysis
from bayplan.preemption.plugin import Remember
from bayplan.telemetry.metrics import Metrics
from bayplan.testing import Json, NodeBuilder, PodBuilder, make_node, make_pod

PROFILE = "bayplan"
NOW = 1_800_000_000.0
PREEMPTED: Json = {"reason": "PreemptionByScheduler"}


@dataclass
class Client(RefusingWriter):
    """Keeps every call until the test answers it; ``kinds`` of calls in `refuse` fail at once."""

    calls: list[tuple[str, Pod, Done]] = field(default_factory=list)
    conditions: dict[str, Condition] = field(default_factory=dict)
    bound: list[tuple[str, str]] = field(default_factory=list)

    def patch_pod_status(
        self, pod: Pod, condition: Condition | None, nominated: str | None, on_done: Done
    ) -> None:
        """A patch of a condition, or of the nominated node."""
        if condition is not None:
            self.conditions[pod.name] = condition
        self.calls.append(("mark" if condition else f"nominate {nominated!r}", pod, on_done))

    def bind(self, pod: Pod, node_name: str, on_done: Done) -> None:
        """A binding; it is never answered."""
        self.bound.append((pod.name, node_name))

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """A deletion."""
        self.calls.append(("delete", pod, on_done))

    @property
    def sent(self) -> list[tuple[str, str]]:
        """(verb, name of the Pod), in order."""
        return [(verb, pod.name) for verb, pod, _ in self.calls]

    def answer(self, error: ApiError | None = None) -> None:
        """Answer all calls that are there now."""
        calls, self.calls = self.calls, []
        for _, _, on_done in calls:
            on_done(error)


@dataclass
class Events:
    """Keeps every event."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def event(self, *event: Any) -> None:
        """See `bayplan.framework.handle.EventRecorder`."""
        self.told.append(event)


class Patches:
    """Keeps nominations."""

    def __init__(self) -> None:
        self.nominated: list[tuple[str, str | None]] = []

    def patch(self, pod: Pod, condition: object, nominated: str | None) -> None:
        """See `bayplan.report.pods.StatusWriter`."""
        self.nominated.append((pod.name, nominated))


class World:
    """Nodes, Pods, budgets, and one profile."""

    def __init__(
        self,
        *nodes: NodeBuilder,
        extenders: Any = None,
        registry: Registry | None = None,
        plugins: str = "",
        exhaustive: bool = False,
        **args: int,
    ) -> None:
        self.client = Client()
        self.events = Events()
        self.patches = Patches()
        self.inbox = Inbox()
        self._activated: list[Pod] = []
        self.metrics = Metrics()
        self.time = NOW
        registry = registry or Registry()
        ports = Ports(
            events=self.events,
            writer=self.client,
            statuses=self.patches,
            inbox=self.inbox,
            instrument=self.metrics,
            extenders=extenders or Extenders(),
            exhaustive=exhaustive,
            clock=lambda: self.time,
            now=lambda: self.time,
        )
        config = parse_config(_config(plugins, args), registry.known)
        self.core = build(config, registry, ports)
        self.framework = self.core.profiles[PROFILE]
        for node in nodes:
            self.core.world.cache.set_node(node.obj())

    @property
    def activated(self) -> list[Pod]:
        """The Pods that were to be tried at once, so far."""
        for message in self.inbox.drain():
            if isinstance(message, EvictionFailed):
                self.core.world.evictions.failed(message.pod)
            else:
                assert isinstance(message, ActivatePods)
                self._activated += message.pods
        return self._activated

    @property
    def plugin(self) -> DefaultPreemption:
        """DefaultPreemption, as the profile has it."""
        plugins = self.framework.plugins.post_filter
        return next(p for p in plugins if isinstance(p, DefaultPreemption))

    def put(self, node: str, *pods: PodBuilder) -> list[Pod]:
        """Add Pods that are on ``node``."""
        placed = [pod.node(node).spec(schedulerName=PROFILE).obj() for pod in pods]
        for pod in placed:
            self.core.world.cache.add(pod)
        return placed

    def budget(
        self, name: str, selector: Json | None, allowed: int, disrupted: Iterable[str] = ()
    ) -> None:
        """Set a PodDisruptionBudget in the namespace ``default``."""
        budget = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": selector} if selector is not None else {},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        }
        self.core.world.cache.objects.set(
            POD_DISRUPTION_BUDGET, msgspec.convert(budget, PodDisruptionBudget)
        )

    def failed(self, pod: Pod) -> tuple[CycleState, FilterFailure]:
        """Try ``pod``, which must fit nowhere."""
        state = CycleState()
        selection = self.core.placers.selector.select(self.framework, state, pod)
        diagnosis = selection.diagnosis
        assert diagnosis is not None, f"{pod} fits on {selection.node_name}"
        rows = diagnosis.rows_with(unresolvable=False)
        return state, FilterFailure(self.core.world.cache.nodes, diagnosis, rows)

    def analyse(self, pod: PodBuilder | Pod) -> Analysis:
        """What preemption could do; the next search goes on from there, but nobody is evicted."""
        effect = self.ask(pod)[1][0]
        assert isinstance(effect, Remember)
        self.plugin._evaluator.remember(effect.pod, effect.analysis)
        return effect.analysis

    def ask(self, pod: PodBuilder | Pod) -> tuple[PostFilterResult, list[Effect]]:
        """What DefaultPreemption answers, and what it wants done."""
        preemptor = pod if isinstance(pod, Pod) else as_preemptor(pod)
        state, failure = self.failed(preemptor)
        return self.plugin.post_filter(state, preemptor, failure), state.effects

    def preempt(self, pod: PodBuilder | Pod) -> PostFilterResult:
        """Let DefaultPreemption make room."""
        result, effects = self.ask(pod)
        self.core.scheduler._effects.carry_out(self.framework, effects)
        return result

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        return self.metrics.registry.get_sample_value(name) or 0.0


def _config(plugins: str, args: dict[str, int]) -> str:
    lines = [
        "apiVersion: kubescheduler.config.k8s.io/v1",
        "kind: KubeSchedulerConfiguration",
        "profiles:",
        f"- schedulerName: {PROFILE}",
    ]
    if plugins:
        lines += [f"  plugins: {plugins}"]
    if args:
        lines += ["  pluginConfig:", "  - name: DefaultPreemption", "    args:"]
        lines += [f"      {key}: {value}" for key, value in args.items()]
    return "\n".join(lines)


def as_preemptor(pod: PodBuilder) -> Pod:
    """The Pod, of this profile."""
    return pod.spec(schedulerName=PROFILE).obj()


def node(name: str, cpu: int = 4, **amounts: Any) -> NodeBuilder:
    """A node with ``cpu`` CPUs, room for many Pods, and a hostname label."""
    labelled = make_node(name).label("kubernetes.io/hostname", name)
    return labelled.capacity(cpu=str(cpu), pods=110, **amounts)


def victim(name: str, cpu: int = 1, priority: int = 0, started: int | None = 0) -> PodBuilder:
    """A Pod that has run since second ``started`` of a certain hour (None: not started yet)."""
    pod = make_pod(name).req(cpu=str(cpu)).priority(priority)
    if started is not None:
        pod.start_time(f"2026-01-01T00:{started // 60:02}:{started % 60:02}Z")
    return pod


def preemptor(cpu: int = 4, priority: int = 1000) -> PodBuilder:
    """A Pod that wants ``cpu`` CPUs."""
    return make_pod("preemptor").req(cpu=str(cpu)).priority(priority)


def candidates(analysis: Analysis) -> dict[str, tuple[list[str], int]]:
    """By node: names of the victims, and how many of them are protected."""
    return {c.node_name: ([p.name for p in c.victims], c.violations) for c in analysis.candidates}


def tied(analysis: Analysis) -> list[str]:
    """The nodes between which nothing decides."""
    return [c.node_name for c in analysis.tied]
