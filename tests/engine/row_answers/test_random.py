"""Kept answers equal fresh ones: a scheduler that has seen everything decides like a new one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core_harness import Cluster
from tests.properties import length

from bayplan.api.pod import Pod
from bayplan.cache.node_table import NodeInfo, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.engine.row_answers import answer_cache, blocks, joined, load_groups
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends, Integers, Normalizer, Plugin, PodPart
from bayplan.framework.status import Status
from bayplan.testing import (
    PROFILE,
    NodeBuilder,
    PodBuilder,
    expressions,
    labels_are,
    make_node,
    make_pod,
    requirement,
)

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = labels_are({"app": "web"})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a few nodes were a million, and of each new size there were many."""
    monkeypatch.setattr(blocks, "BLOCK", 3)
    monkeypatch.setattr(joined, "MANY", 6)
    monkeypatch.setattr(answer_cache, "MANY", 2)
    monkeypatch.setattr(answer_cache, "_PATIENCE", 2)
    monkeypatch.setattr(load_groups, "_LEAST", 1)


def template(number: int, name: str) -> PodBuilder:
    """Pods that between them reach every row-local plugin, and some of the others."""
    pod = make_pod(name).label("app", "web" if number % 2 else "db")
    match number:
        case 0:
            pod.req(cpu="1", memory="1Gi")
        case 1:
            pod.req(cpu="500m").host_port(80).image("web:1")
        case 2:
            pod.req(cpu="1").node_selector({"disk": "ssd"}).toleration(operator="Exists")
        case 3:
            pod.req(cpu="250m").pod_anti_affinity(HOST, WEB)
        case 4:
            wants = expressions(requirement("disk", "In", "ssd"))
            pod.req(memory="2Gi").preferred_node_affinity(10, wants).image("db:1")
        case 5:
            pod.req(cpu="250m").spread(ZONE, WEB, when="ScheduleAnyway")
        case 6:
            pod.req(cpu="2").spread(ZONE, labels_are({"app": "db"}))
        case 7:
            pod.req(cpu="1", memory="1Gi").label("index", name)
        case _:
            pod.req(cpu=f"{100 * number + 50 * len(name)}m").node_selector({"disk": "ssd"})
    return pod


TEMPLATES = st.integers(0, 13)


class Crowds(Plugin):
    """A user's plugin that looks at labels, one node at a time: web Pods shun each other."""

    filter_depends = score_depends = Depends.NODE | Depends.PODS
    normalizer = Normalizer()

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        alike = sum(other.labels.get("app") == pod.labels.get("app") for other in node.pods)
        assert node.free("cpu") >= pod_requests(pod).amounts.get("cpu", 0), "asked in vain"
        return Status.unschedulable("crowded") if alike > 1 else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(node.pods) + ("index" in pod.labels)


def verdict(cluster: Cluster, number: int) -> Any:
    """Where a Pod of that template fits and how well, by node; or why nowhere."""
    pod = template(number, "asks").uid("asks").spec(schedulerName=PROFILE).obj()
    search, state = cluster.core.profiles[PROFILE].search, CycleState()
    fit = search.find(state, pod)
    if fit.count == 0:
        assert fit.diagnosis is not None
        return fit.diagnosis.message, sorted(fit.diagnosis.unschedulable_plugins)
    best, totals = search.best(state, pod, fit), search.score(state, pod, fit)
    listed = np.flatnonzero(totals == totals.max()).tolist()
    assert [best.row(index) for index in range(best.count)] == best.rows.tolist() == listed
    nodes = cluster.cache.nodes
    parts = {
        p.plugin: dict(zip(p.rows.tolist(), p.scores, strict=True))
        for p in search.score_parts(state, pod, fit)
    }
    for info in nodes:
        if fit.feasible[info.row]:
            assert totals[info.row] == sum(scores[info.row] for scores in parts.values())
        else:
            assert totals[info.row] == -1
    return {i.name: int(totals[i.row]) for i in nodes if fit.feasible[i.row]}


class AnswersMachine(RuleBasedStateMachine):
    """Random changes; after each of them, kept and fresh answers are compared."""

    plugins: tuple[type[Plugin], ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.kept = Cluster(*self.plugins)
        self.nodes: dict[str, NodeBuilder] = {}
        self.pods: dict[str, PodBuilder] = {}

    @initialize(count=st.integers(0, 12))
    def begin(self, count: int) -> None:
        for i in range(count):
            self.set_node(i, i % 3, i % 2 == 0, i % 4)

    @rule(i=st.integers(0, 15), zone=st.integers(0, 2), ssd=st.booleans(), kind=st.integers(0, 5))
    def set_node(self, i: int, zone: int, ssd: bool, kind: int) -> None:
        name = f"n{i}"
        node = make_node(name).label(ZONE, f"z{zone}").label(HOST, name)
        node.capacity(cpu="4", memory="8Gi", pods=6 - kind)
        if ssd:
            node.label("disk", "ssd").image(1 << 29, "web:1", "db:1")
        if kind == 1:
            node.taint("dedicated", effect="NoSchedule")
        if kind == 2:
            node.taint("soft", effect="PreferNoSchedule")
        if kind == 3:
            node.unschedulable()
        self.nodes[name] = node
        self.kept.add(node)

    @rule(i=st.integers(0, 15))
    def remove_node(self, i: int) -> None:
        node = self.nodes.pop(f"n{i}", None)
        if node is not None:
            self.kept.remove(node)

    @rule(i=st.integers(0, 9), number=TEMPLATES, node=st.integers(0, 15))
    def set_pod(self, i: int, number: int, node: int) -> None:
        self.remove_pod(i)
        pod = self.pods[f"p{i}"] = template(number, f"p{i}").node(f"n{node}")
        self.kept.add(pod)

    @rule(i=st.integers(0, 9))
    def remove_pod(self, i: int) -> None:
        pod = self.pods.pop(f"p{i}", None)
        if pod is not None:
            self.kept.remove(pod)

    @rule(numbers=st.lists(TEMPLATES, min_size=1, max_size=3))
    def ask(self, numbers: list[int]) -> None:
        fresh = Cluster(*self.plugins)
        fresh.add(*self.nodes.values(), *self.pods.values())
        for number in numbers:
            assert verdict(self.kept, number) == verdict(fresh, number)

    @invariant()
    def columns_and_counters_are_right(self) -> None:
        assert self.kept.cache.nodes.recount() == {}
        assert not self.kept.core.world.counters.recount()


TestAnswersMachine = AnswersMachine.TestCase
TestAnswersMachine.settings = length(25, steps=40)


class BothForms(Plugin):
    """A plugin that is asked about all nodes at once or about one, and looks at the Pods there."""

    filter_depends = score_depends = Depends.NODE | Depends.PODS
    normalizer = Normalizer()
    reads = PodPart.REQUESTS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        return np.array([self._crowded(pods) for pods in nodes.pods], np.int64)

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        return Status.unschedulable("crowded")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        crowded = self._crowded({pod.uid: pod for pod in node.pods})
        return self.reasons(state, pod, 1) if crowded else None

    def _crowded(self, pods: dict[str, Pod]) -> bool:
        return sum("index" in pod.labels for pod in pods.values()) > 1

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        return np.array([self._weigh(pods) for pods in nodes.pods], np.int64)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return self._weigh({pod.uid: pod for pod in node.pods})

    def _weigh(self, pods: dict[str, Pod]) -> int:
        return sum(150 if pod.labels["app"] == "web" else 7 for pod in pods.values())


class UserPluginMachine(AnswersMachine):
    """The same with a plugin that reads labels, and so has answers by shape."""

    plugins = (Crowds,)


class BothFormsMachine(AnswersMachine):
    """The same with a plugin of both forms."""

    plugins = (BothForms,)


TestBothFormsMachine = BothFormsMachine.TestCase
TestBothFormsMachine.settings = length(15, steps=30)

TestUserPluginMachine = UserPluginMachine.TestCase
TestUserPluginMachine.settings = length(15, steps=30)
