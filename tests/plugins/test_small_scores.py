"""NodeMetadata, PodState and NodeResourcesAllocatable beside plain loops made from the rules."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.core_harness import profile
from tests.handles import make_handle
from tests.plugins.harness import make, table_of
from tests.plugins.normalizing import feasible_scores

from bayplan.api.pod import Pod
from bayplan.plugins.node_metadata import NodeMetadata
from bayplan.plugins.node_resources_allocatable import NodeResourcesAllocatable
from bayplan.plugins.pod_state import PodState
from bayplan.queue.nominator import Nominator
from bayplan.testing import Cluster, NodeBuilder, make_node, make_pod

NOW = 1_700_000_000.9


def between(raw: dict[str, int], low: int = 0) -> dict[str, int]:
    """The judge of a span: integers from ``low`` to 100, all ``low`` if all are equal."""
    least, most = min(raw.values()), max(raw.values())
    answer = {}
    for name, value in raw.items():
        if most == least:
            answer[name] = low
        else:
            answer[name] = (value - least) * (100 - low) // (most - least) + low
    return answer


# NodeResourcesAllocatable


def allocatable_judge(
    nodes: list[tuple[str, int, int]], weights: dict[str, int], sign: int
) -> dict[str, int]:
    raw = {}
    for name, milli, memory in nodes:
        total = 0
        for resource, weight in weights.items():
            amount = milli if resource == "cpu" else memory if resource == "memory" else 0
            total += amount * weight
        raw[name] = sign * (total // sum(weights.values()))
    return between(raw)


@pytest.mark.parametrize("mode", ["Least", "Most", None])
@pytest.mark.parametrize("seed", range(40))
def test_allocatable_is_what_the_loops_say(mode: str | None, seed: int) -> None:
    source = random.Random(seed)
    sizes = [
        (f"n{i}", source.choice([250, 4000, 64_000]), source.randrange(1, 1 << 38))
        for i in range(source.randrange(1, 6))
    ]
    weights = {"cpu": 1 << 20, "memory": 1}
    args: dict[str, Any] = {"mode": mode} if mode else {}
    if source.random() < 0.5:
        weights = {"memory": source.randrange(1, 9), "cpu": source.randrange(1, 9), "gpu": 2}
        args["resources"] = [{"name": n, "weight": w} for n, w in weights.items()]
    nodes = table_of(*(make_node(n).capacity(cpu=f"{c}m", memory=m) for n, c, m in sizes))
    plugin = make(NodeResourcesAllocatable, make_handle(nodes), **args)
    sign = 1 if mode == "Most" else -1
    expected = allocatable_judge(sizes, weights, sign)
    assert feasible_scores(plugin, make_pod().obj(), nodes) == expected


def test_nodes_that_do_not_fit_do_not_count() -> None:
    nodes = table_of(*(make_node(f"n{c}").capacity(cpu=c, memory=0) for c in (1, 2, 3)))
    plugin = make(NodeResourcesAllocatable, make_handle(nodes), mode="Most")
    scores = feasible_scores(plugin, make_pod().obj(), nodes, infeasible=("n3",))
    assert scores == {"n1": 0, "n2": 100}


# NodeMetadata


def metadata_judge(texts: dict[str, str | None], kind: str, strategy: str) -> dict[str, int]:
    raw = {}
    for name, text in texts.items():
        try:
            if kind == "Number":
                value = int(float(text or "none"))
            else:
                time = datetime.fromisoformat(text or "none")
                value = int(NOW - time.timestamp())
        except ValueError:
            continue
        raw[name] = -value if strategy in ("Lowest", "Newest") else value
    scores = dict.fromkeys(texts, 0)
    return scores | between(raw, 1) if raw else scores


NUMBERS = ["1", "0.1", "0.9", "-7.5", "1e3", "12345678", "many", "", None]
TIMES = [
    "2023-11-14T22:13:20Z",
    "2023-11-14T22:13:20.5Z",
    "2023-11-14T22:13:21+00:00",
    "2020-02-29T00:00:00+02:00",
    "yesterday",
    None,
]


@pytest.mark.parametrize("source", ["Label", "Annotation"])
@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        ("Number", "Highest"),
        ("Number", "Lowest"),
        ("Timestamp", "Newest"),
        ("Timestamp", "Oldest"),
    ],
)
@pytest.mark.parametrize("seed", range(15))
def test_metadata_is_what_the_loops_say(source: str, kind: str, strategy: str, seed: int) -> None:
    chance = random.Random(seed)
    values = NUMBERS if kind == "Number" else TIMES
    texts = {f"n{i}": chance.choice(values) for i in range(chance.randrange(1, 7))}
    nodes = table_of(*(with_text(name, source, text) for name, text in texts.items()))
    plugin = make(
        NodeMetadata,
        make_handle(nodes, now=lambda: NOW),
        metadataKey="example.com/rank",
        metadataSource=source,
        metadataType=kind,
        scoringStrategy=strategy,
    )
    scores = feasible_scores(plugin, make_pod().obj(), nodes)
    assert scores == metadata_judge(texts, kind, strategy)


def with_text(name: str, source: str, text: str | None) -> NodeBuilder:
    node = make_node(name)
    if text is not None and source == "Label":
        node.label("example.com/rank", text)
    elif text is not None:
        node.meta(annotations={"example.com/rank": text})
    return node


@pytest.mark.parametrize("text", ["1_000", " 5", "inf", "nan", "1e999"])
def test_what_is_no_finite_number_of_go_counts_as_missing(text: str) -> None:
    nodes = table_of(with_text("a", "Label", text), with_text("b", "Label", "-5"))
    plugin = make(
        NodeMetadata,
        make_handle(nodes),
        metadataKey="example.com/rank",
        metadataSource="Label",
        metadataType="Number",
        scoringStrategy="Highest",
    )
    assert feasible_scores(plugin, make_pod().obj(), nodes) == {"a": 0, "b": 1}


def test_a_new_label_counts_at_once() -> None:
    args = {
        "metadataKey": "example.com/rank",
        "metadataSource": "Label",
        "metadataType": "Timestamp",
        "scoringStrategy": "Newest",
        "timestampFormat": "02 Jan 2006",
    }
    nodes = table_of(with_text("a", "Label", "02 Jan 2020"), with_text("b", "Label", "03 Jan 2020"))
    handle = make_handle(nodes, now=lambda: datetime(2024, 1, 1, tzinfo=UTC).timestamp())
    plugin = make(NodeMetadata, handle, **args)
    assert feasible_scores(plugin, make_pod().obj(), nodes) == {"a": 1, "b": 100}
    nodes.set_node(with_text("a", "Label", "04 Jan 2020").obj())
    assert feasible_scores(plugin, make_pod().obj(), nodes) == {"a": 100, "b": 1}


# PodState


@pytest.mark.parametrize("seed", range(40))
def test_pod_state_is_what_the_loops_say(seed: int) -> None:
    source = random.Random(seed)
    names = [f"n{i}" for i in range(source.randrange(1, 6))]
    nodes, nominator = table_of(*map(make_node, names)), Nominator()
    plugin = make(PodState, make_handle(nodes, nominator=nominator))
    running: list[tuple[str, Pod]] = []
    nominated: list[str] = []
    for i in range(20):
        name, chance = source.choice(names), source.random()
        row = nodes.row(name)
        assert row is not None
        if chance < 0.5:
            pod = make_pod(f"p{i}")
            running.append((name, (pod.terminating() if chance < 0.3 else pod).obj()))
            nodes.add_pod(row, running[-1][1])
        elif chance < 0.8:
            nominator.nominate(make_pod(f"w{i}").obj(), name)
            nominated.append(name)
        elif running:
            where, gone = running.pop()
            at = nodes.row(where)
            assert at is not None
            nodes.remove_pod(at, gone)
    raw = {
        name: sum(1 for where, pod in running if where == name and pod.deleted is not None)
        - sum(1 for where in nominated if where == name)
        for name in names
    }
    assert feasible_scores(plugin, make_pod().obj(), nodes) == between(raw)
    assert not any(nodes.recount().values())


# In a scheduler


@pytest.mark.parametrize(
    ("plugin", "args", "best"),
    [
        pytest.param(NodeResourcesAllocatable, {"mode": "Most"}, "large", id="large nodes"),
        pytest.param(NodeResourcesAllocatable, {}, "small", id="small nodes"),
        pytest.param(
            NodeMetadata,
            {
                "metadataKey": "rank",
                "metadataSource": "Label",
                "metadataType": "Number",
                "scoringStrategy": "Lowest",
            },
            "middle",
            id="by a label",
        ),
    ],
)
def test_the_scheduler_scores_by_it(plugin: type, args: dict[str, Any], best: str) -> None:
    name = plugin.__name__
    chosen = profile("NodeResourcesFit", name, bare=True, args={name: args})
    cluster = Cluster(config={"profiles": [chosen]})
    for node_name, cpu, rank in (("large", 8, 7), ("middle", 4, -3), ("small", 2, 0)):
        node = make_node(node_name).capacity(cpu=cpu, memory="8Gi", pods=110)
        cluster.add(node.label("rank", str(rank)))
    for i in range(3):
        cluster.add(make_pod(f"p{i}").req(cpu=f"{i + 1}m"))
        cluster.run()
        assert cluster.node_of(f"p{i}") == best
