"""What a reader of one namespace is told never has the name of a node or of others' objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, shown
from tests.groups import members, pod_group
from tests.properties import length
from tests.queues import name_space, queue, queues_profile
from tests.scripted import scripted

from bayplan.api.kinds import POD
from bayplan.explain import plan as planning
from bayplan.explain import status
from bayplan.explain.names import Names
from bayplan.explain.why import Why
from bayplan.framework import Status
from bayplan.testing import make_node, make_pod

NODES = ("node-zq-1", "node-zq.rack.example")
FOREIGN = ("node-zq", "blue", "green")
"""In all names that nobody else is to see: of nodes, and of namespaces and what is in them."""
MENTIONS = st.sampled_from(
    [
        *NODES,
        f"{NODES[0]}.internal",
        f"gpu.example.com/{NODES[0]}/gpu-0",
        f"kubernetes.io/hostname={NODES[1]}",
        "blue/blue-0",
        "green/green-1",
        "blue/blue-team",
        "green/some-claim",
        "Pods of queue blue-queue",
        "the queue 'green-queue' lent it",
        "mine/mine-0",
        "nvidia.com/gpu",
        "0/2 nodes are available",
    ]
)
BETWEEN = st.sampled_from(
    [" ", ", ", ",", ": ", ". ", "'", '"', "(", ") ", "[", "=", "_", "\n", ";"]
)
TEXTS = st.lists(st.tuples(MENTIONS, BETWEEN), min_size=1, max_size=6).map(
    lambda parts: "".join(f"{between}{mention}{between}" for mention, between in parts)
)
PODS = st.lists(
    st.tuples(
        st.sampled_from(["mine", "blue", "green"]),
        st.booleans(),
        st.integers(0, 2),
        st.integers(0, 9),
    ),
    max_size=8,
)


def cluster_of_three(reason: str, where: str) -> Cluster:
    """Tenants mine, blue and green on two nodes; a plugin says ``reason`` of every Pod."""
    status = Status.unschedulable(reason or "no")
    plugin = scripted("Tells", **{where: status})
    made = Cluster(plugin, profiles=[queues_profile("Coscheduling", "Tells")])
    for node in NODES:
        made.add(make_node(node).capacity(cpu="4", memory="8Gi", pods=10))
    for name in ("mine", "blue", "green"):
        name_space(made, name)
        made.add(queue(f"{name}-queue", name, guaranteed={"cpu": 2}, limit={"cpu": 6}))
        group = pod_group("team" if name == "mine" else f"{name}-team", minMember=2).namespace(name)
        made.add(group)
    return made


@given(TEXTS, st.sampled_from(["filter", "pre_enqueue", "permit", "reserve"]), PODS, st.booleans())
@length(60)
def test_no_answer_to_a_namespace_user_has_a_foreign_name(
    reason: str, where: str, pods: list[tuple[str, bool, int, int]], grouped: bool
) -> None:
    made = cluster_of_three(reason, where)
    for number, (namespace, placed, cpu, priority) in enumerate(pods):
        pod = make_pod(f"{namespace}-{number}").namespace(namespace).req(cpu=str(1 + 2 * cpu))
        made.add(pod.node(NODES[number % 2]) if placed else pod.priority(priority))
    made.add(make_pod("waits").namespace("mine").req(cpu="3"))
    if grouped:
        made.add(*(pod.namespace("mine").req(cpu="3") for pod in members("team", 3)))
    made.run()
    core = made.core
    who = Why(core.world, core.profiles, core.placers, core.records, names=False)
    mine = [pod for pod in core.world.handlers.pods.values() if pod.namespace == "mine"]
    answers: list[Any] = [who.of_pod("mine", pod.name) for pod in mine]
    answers.append(who.of_group("mine", "team"))
    planned = make_pod("planned").namespace("mine").req(cpu="4").priority(5)
    parts = core.world, core.profiles, core.placers, [(POD, shown(planned))]
    answers.append(planning.plan(*parts, names=False))
    answers.append(status.waiting(core.world, core.records, 0.0, "mine"))
    answers.append(status.in_flight(core.world, core.scheduler.in_flight, 0.0, "mine"))
    waiting = planning.plan_waiting(*parts[:3], names=False, only="mine")
    answers.append(waiting)
    for answer in answers:
        data = msgspec.json.encode(answer).decode()
        assert not [name for name in FOREIGN if name in data], data


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2 fit: node-zq-1,node-zq.rack.example.", "2 fit: NODE,NODE."),
        ("node-zq-1_7f3a, node-zq-1.internal", "NODE_7f3a, NODE.internal"),
        ("gpu.example.com/node-zq-1/gpu-0", "gpu.example.com/NODE/gpu-0"),
        ("for blue/blue-0: of 'blue/train'", "for POD: of 'OBJECT'"),
        ("mine/node-zq-1 is my own Pod", "mine/node-zq-1 is my own Pod"),
        ("limit of cpu of queue mine-queue", "limit of cpu of queue mine-queue"),
        ("2 Pods of queue blue-queue", "2 Pods of queue QUEUE"),
        ("Insufficient blue-queue", "Insufficient blue-queue"),
        ("0/2 nodes are available: nvidia.com/gpu", "0/2 nodes are available: nvidia.com/gpu"),
    ],
    ids=str,
)
def test_of_a_text_only_the_names_go(text: str, told: str) -> None:
    made = cluster_of_three("", "filter")
    made.add(make_pod("blue-0").namespace("blue"), make_pod("mine-0").namespace("mine"))
    assert Names(made.core.world, ("mine",)).hidden(text) == told


def test_lists_and_what_is_in_them_are_looked_at_too() -> None:
    names = Names(cluster_of_three("", "filter").core.world, ("mine",))
    value = {"rejected": [{"plugin": "node-zq-1", "reasons": ["on node-zq-1"], "nodes": 2}]}
    told = {"rejected": [{"plugin": "node-zq-1", "reasons": ["on NODE"], "nodes": 2}]}
    assert names.hide(value) == told
