"""For plugins that look at other Pods: what they answer, and clusters made at random."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from tests.plugins.harness import PluginWorld

from bayplan.api.kinds import NAMESPACE
from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, LiveNodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import NodeTable
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.testing import (
    Json,
    NodeBuilder,
    PodBuilder,
    labels_are,
    make_node,
    make_object,
    make_pod,
    requirement,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NAMESPACES = ("n1", "n2", "n3")


Answers = dict[str, tuple[str, str]]
"""By node: the code of the status and its message."""


def answers(plugin: Any, state: CycleState, pod: Pod, nodes: NodeTable) -> Answers:
    """The Filter statuses of ``nodes``."""
    codes = plugin.filter_nodes(state, pod, nodes)
    assert codes.dtype.kind == "i"
    statuses: dict[str, Status] = {
        info.name: plugin.reasons(state, pod, int(codes[info.row])) if codes[info.row] else SUCCESS
        for info in nodes
    }
    return {name: (str(status.code), status.message) for name, status in statuses.items()}


def filtered(plugin: Any, pod: Pod, nodes: LiveNodeTable) -> Answers | None:
    """The Filter statuses after PreFilter; None when that skips."""
    state = CycleState()
    status = plugin.pre_filter(state, pod, nodes)
    if status is not None and status.code is Code.SKIP:
        return None
    assert status is None, status
    return answers(plugin, state, pod, nodes)


def scores(
    plugin: Any, pod: Pod, nodes: LiveNodeTable, feasible: BoolArray | None = None
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalized scores of feasible nodes; None when PreScore skips."""
    state = CycleState()
    feasible = nodes.exists if feasible is None else feasible
    status = plugin.pre_score(state, pod, nodes, feasible)
    if status is not None and status.code is Code.SKIP:
        return None
    assert status is None, status
    found: Any = state.read(f"PreScore{plugin.name}", object)
    raw = (found.raw(nodes) * getattr(found, "scored", feasible))[feasible]
    normalized = plugin.score_nodes(state, pod, nodes)[feasible]
    assert raw.dtype.kind == normalized.dtype.kind == "i"
    names = [nodes.names[row] or "" for row in np.flatnonzero(feasible)]
    return (
        dict(zip(names, raw.tolist(), strict=True)),
        dict(zip(names, normalized.tolist(), strict=True)),
    )


# At random


def random_selector(random: Random) -> Json | None:
    """Any label selector over the labels of random Pods."""
    return random.choice(
        [
            None,
            {},
            labels_are({"app": random.choice("ab")}),
            labels_are({"app": random.choice("ab"), "tier": random.choice("xy")}),
            labels_are(None, requirement("tier", "Exists")),
            labels_are(None, requirement("tier", "DoesNotExist")),
            labels_are(None, requirement("app", "In", "a", "b")),
            labels_are(None, requirement("tier", "NotIn", "x")),
        ]
    )


def random_node(random: Random, name: str) -> NodeBuilder:
    """A node with some topology labels, perhaps a taint."""
    node = make_node(name).label("name", name)
    if random.random() < 0.9:
        node.label(HOSTNAME, name)
    if random.random() < 0.85:
        node.label(ZONE, random.choice(["z1", "z2", "z3", ""]))
    if random.random() < 0.7:
        node.label("rack", random.choice(["r1", "r2"]))
    if random.random() < 0.3:
        node.label("disk", "ssd")
    if random.random() < 0.25:
        node.taint("dedicated", "x", random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"]))
    return node


def random_pod(random: Random, name: str) -> PodBuilder:
    """A Pod with some labels, perhaps terminating; without terms."""
    pod = make_pod(name).namespace(random.choice(NAMESPACES)).label("app", random.choice("ab"))
    if random.random() < 0.5:
        pod.label("tier", random.choice("xy"))
    if random.random() < 0.15:
        pod.terminating()
    if random.random() < 0.3:
        pod.toleration(key="dedicated", operator="Exists")
    if random.random() < 0.2:
        pod.node_selector({"disk": "ssd"})
    return pod


def add_random_terms(random: Random, pod: PodBuilder, likely: float) -> PodBuilder:
    """Give ``pod`` each kind of affinity term with this probability, sometimes twice."""
    for method in (pod.pod_affinity, pod.pod_anti_affinity):
        while random.random() < likely:
            method(*_random_term(random), **_random_scope(random))
    for prefer in (pod.preferred_pod_affinity, pod.preferred_pod_anti_affinity):
        while random.random() < likely:
            weight = random.choice([1, 7, 100])
            prefer(weight, *_random_term(random), **_random_scope(random))
    return pod


def _random_term(random: Random) -> tuple[str, Json | None]:
    return random.choice([HOSTNAME, ZONE, "rack"]), random_selector(random)


def _random_scope(random: Random) -> Json:
    scope: Json = {}
    if random.random() < 0.3:
        scope["namespaces"] = random.sample(NAMESPACES, random.choice([1, 2]))
    if random.random() < 0.3:
        scope["namespaceSelector"] = random.choice(
            [
                {},
                labels_are({"team": "t1"}),
                labels_are(None, requirement("team", "NotIn", "t1")),
                labels_are(None, requirement("team", "Exists")),
            ]
        )
    return scope


def random_cluster(random: Random, likely_terms: float = 0.15) -> PluginWorld:
    """A few nodes and Pods; Pods have affinity terms with this probability."""
    cluster = PluginWorld()
    for name in NAMESPACES:
        if random.random() < 0.8:
            labels = random.choice([{}, {"team": "t1"}, {"team": "t2"}])
            cluster.add(make_object(NAMESPACE, name).labels(labels))
    names = [f"node{i}" for i in range(random.randint(1, 8))]
    for name in names:
        cluster.add(random_node(random, name))
    for i in range(random.randint(0, 14)):
        pod = add_random_terms(random, random_pod(random, f"pod{i}"), likely_terms)
        cluster.place(pod, random.choice(names))
    return cluster


def change_at_random(random: Random, cluster: PluginWorld) -> None:
    """Let one thing happen to the cluster: a Pod, a node or a namespace comes, goes or changes."""
    names = [info.name for info in cluster.nodes]
    placed = cluster.placed()
    match random.randrange(6):
        case 0 if placed:
            node, pod = random.choice(placed)
            cluster.nodes.remove_pod(cluster.row(node), pod)
        case 1:
            cluster.add(random_node(random, random.choice(names)))
        case 2:
            cluster.add(random_node(random, f"node{random.randint(8, 11)}"))
        case 3 if len(names) > 1:
            cluster.nodes.remove_node(random.choice(names))
        case 4:
            labels = random.choice([{}, {"team": "t1"}, {"team": "t2"}])
            cluster.add(make_object(NAMESPACE, random.choice(NAMESPACES)).labels(labels))
        case _:
            pod_builder = add_random_terms(random, random_pod(random, f"new{len(placed)}"), 0.15)
            cluster.place(pod_builder, random.choice(names))
