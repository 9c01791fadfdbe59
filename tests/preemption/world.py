"""A cluster in which one Pod preempts, and every write waits until the test answers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.core_harness import Cluster, profile

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.handle import Done
from bayplan.framework.interface import FilterFailure, Plugin, PostFilterResult
from bayplan.inbox.messages import ActivatePods, EvictionFailed
from bayplan.plugins.default_preemption import DefaultPreemption
from bayplan.preemption.evaluator import Analysis
from bayplan.preemption.plugin import Remember
from bayplan.testing import (
    PROFILE,
    Json,
    NodeBuilder,
    PodBuilder,
    Writer,
    make_node,
    make_object,
    make_pod,
)

NOW = 1_800_000_000.0
PREEMPTED: Json = {"reason": "PreemptionByScheduler"}


class Client(Writer):
    """Keeps every call until the test answers it; bindings are never answered."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = True
        self.calls: list[tuple[str, Pod, Done]] = []
        self.conditions: dict[str, Condition] = {}

    def patch_pod_status(
        self, pod: Pod, condition: Condition | None, nominated: str | None, on_done: Done
    ) -> None:
        """A patch of a condition, or of the nominated node."""
        if condition is not None:
            self.conditions[pod.name] = condition
        self.calls.append(("mark" if condition else f"nominate {nominated!r}", pod, on_done))

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """A deletion."""
        self.calls.append(("delete", pod, on_done))

    @property
    def sent(self) -> list[tuple[str, str]]:
        """(verb, name of the Pod), in order."""
        return [(verb, pod.name) for verb, pod, _ in self.calls]

    def answer(self, outcome: Exception | None = None) -> None:
        """Answer all calls that are there now."""
        calls, self.calls = self.calls, []
        for _, _, on_done in calls:
            on_done(outcome)


class World(Cluster):
    """Nodes, Pods, budgets, and one profile.

    Args:
        nodes: of the cluster.
        plugin: runs beside the default ones.
        extenders: those that may preempt are asked.
        args: of DefaultPreemption.
    """

    def __init__(
        self,
        *nodes: NodeBuilder,
        plugin: type[Plugin] | None = None,
        extenders: Any = None,
        **args: int,
    ) -> None:
        self.client = Client()
        plugins = [plugin] if plugin else []
        own = profile(*(p.name for p in plugins), args={"DefaultPreemption": args})
        super().__init__(*plugins, profiles=[own], extenders=extenders, writer=self.client)
        self.clock.time = NOW
        self._activated: list[Pod] = []
        self.add(*nodes)

    @property
    def activated(self) -> list[Pod]:
        """The Pods that were to be tried at once, so far."""
        for message in self.inbox.drain():
            if isinstance(message, EvictionFailed):
                self.world.evictions.failed(message.pod)
            else:
                assert isinstance(message, ActivatePods)
                self._activated += message.pods
        return self._activated

    @property
    def preemption(self) -> DefaultPreemption:
        """DefaultPreemption, as the profile has it."""
        return self.plugin(DefaultPreemption)

    def put(self, node: str, *pods: PodBuilder) -> list[Pod]:
        """Add Pods that are on ``node``."""
        placed = [pod.node(node).spec(schedulerName=PROFILE).obj() for pod in pods]
        for pod in placed:
            self.cache.add(pod)
        return placed

    def budget(
        self, name: str, selector: Json | None, allowed: int, disrupted: Iterable[str] = ()
    ) -> None:
        """Set a PodDisruptionBudget in the namespace ``default``."""
        budget = make_object(POD_DISRUPTION_BUDGET, name)
        if selector is not None:
            budget.spec(selector=selector)
        pods = dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
        self.add(budget.status(disruptionsAllowed=allowed, disruptedPods=pods))

    def failed(self, pod: Pod) -> tuple[CycleState, FilterFailure]:
        """Try ``pod``, which must fit nowhere."""
        state = CycleState()
        selection = self.core.placers.selector.select(self.framework, state, pod)
        diagnosis = selection.diagnosis
        assert diagnosis is not None, f"{pod} fits on {selection.node_name}"
        rows = diagnosis.rows_with(unresolvable=False)
        return state, FilterFailure(self.cache.nodes, diagnosis, rows)

    def analyse(self, pod: PodBuilder | Pod) -> Analysis:
        """What preemption could do; the next search goes on from there, but nobody is evicted."""
        effect = self.ask(pod)[1][0]
        assert isinstance(effect, Remember)
        self.preemption._evaluator.remember(effect.pod, effect.analysis)
        return effect.analysis

    def ask(self, pod: PodBuilder | Pod) -> tuple[PostFilterResult, list[Effect]]:
        """What DefaultPreemption answers, and what it wants done."""
        preemptor = pod if isinstance(pod, Pod) else as_preemptor(pod)
        state, failure = self.failed(preemptor)
        return self.preemption.post_filter(state, preemptor, failure), state.effects

    def preempt(self, pod: PodBuilder | Pod) -> PostFilterResult:
        """Let DefaultPreemption make room."""
        result, effects = self.ask(pod)
        self.core.scheduler._effects.carry_out(self.framework, effects)
        return result


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
