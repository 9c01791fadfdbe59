"""Scores by measured load, beside plain loops; and nodes whose load is not known.

Each seed is five nodes, so 200 are compared; with ``BAYPLAN_PROPERTIES=50`` 10,000.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.handles import make_handle
from tests.plugins import load_judge
from tests.plugins.harness import make, scored
from tests.plugins.load_judge import Data
from tests.plugins.normalizing import feasible_scores
from tests.properties import FACTOR

from bayplan.cache.node_load import NodeLoads, Readings
from bayplan.cache.node_table import LiveNodeTable
from bayplan.framework.interface import Plugin
from bayplan.plugins.load_variation_risk_balancing import LoadVariationRiskBalancing
from bayplan.plugins.low_risk_over_commitment import LowRiskOverCommitment
from bayplan.plugins.peaks import Peaks
from bayplan.plugins.shared.beta import incomplete_beta, is_possible, one_incomplete_beta
from bayplan.plugins.target_load_packing import TargetLoadPacking
from bayplan.testing import PodBuilder, make_node, make_pod

NOW = 1_700_000_000.0
SEEDS = 40 * FACTOR
MODELS = {"n0": (-91.5, -0.0719), "n1": (12.0, 0.031), "n2": (0.0, 0.02), "n3": (7.5, 0.011)}


# Clusters at random


def random_cluster(source: random.Random) -> list[Data]:
    return [random_node(source, f"n{i}") for i in range(5)]


def random_node(source: random.Random, name: str) -> Data:
    capacity = {"cpu": source.choice([0, 2000, 16_000, 63_500]), "memory": 1 << 34}
    allocatable = {
        r: amount * source.choice([100, 95, 80]) // 100 for r, amount in capacity.items()
    }
    known = [r for r in load_judge.RESOURCES if source.random() < 0.85]
    return {
        "name": name,
        "capacity": capacity,
        "allocatable": allocatable,
        "mean": {r: source.choice([0, 1, 1.2, source.random(), source.random()]) for r in known},
        "deviation": {
            r: source.choice([0, 1, source.random() / 5, source.random() / 50, 1e-4]) for r in known
        },
        "end": NOW - source.choice([0, 20, 200]),
        "pods": [random_pod(source, placed=True) for _ in range(source.randrange(4))],
    }


def random_pod(source: random.Random, *, placed: bool = False) -> Data:
    pod: Data = {"containers": [random_container(source) for _ in range(source.randrange(1, 3))]}
    if source.random() < 0.2:
        pod["init"] = [random_container(source)]
    if source.random() < 0.2:
        pod["overhead"] = {"cpu": 50, "memory": 1 << 20}
    if placed:
        ago = source.choice([None, 5, 59, 60, 61, 259, 260, 261, 4000])
        pod["start"] = None if ago is None else NOW - ago
    return pod


def random_container(source: random.Random) -> Data:
    container: Data = {"requests": {}, "limits": {}}
    for resource, amount in (("cpu", 8000), ("memory", 1 << 33)):
        if source.random() < 0.6:
            container["requests"][resource] = source.randrange(amount)
        if source.random() < 0.6:
            container["limits"][resource] = source.randrange(amount)
    return container


# The same as objects


def builder(pod: Data, name: str) -> PodBuilder:
    def container(data: Data) -> Data:
        kinds = {
            kind: {r: f"{a}m" if r == "cpu" else a for r, a in data[kind].items()}
            for kind in ("requests", "limits")
        }
        return {"name": "c", "resources": kinds}

    made = make_pod(name).spec(containers=[container(c) for c in pod["containers"]])
    if "init" in pod:
        made.spec(initContainers=[container(c) for c in pod["init"]])
    if "overhead" in pod:
        overhead = pod["overhead"]
        made.spec(overhead={"cpu": f"{overhead['cpu']}m", "memory": overhead["memory"]})
    if pod.get("start") is not None:
        made.status(startTime=datetime.fromtimestamp(pod["start"], UTC).isoformat())
    return made


def table_of(cluster: list[Data]) -> LiveNodeTable:
    nodes = LiveNodeTable()
    for data in cluster:
        amounts = {"cpu": f"{data['allocatable']['cpu']}m", "memory": data["allocatable"]["memory"]}
        capacity = {"cpu": f"{data['capacity']['cpu']}m", "memory": data["capacity"]["memory"]}
        node = make_node(data["name"]).capacity(amounts, pods=110).status(capacity=capacity)
        row = nodes.set_node(node.obj())
        for i, pod in enumerate(data["pods"]):
            placed = builder(pod, f"{data['name']}-{i}").obj().on_node(data["name"])
            nodes.add_pod(row, placed)
    return nodes


def measure(plugin: Any, nodes: LiveNodeTable, cluster: list[Data], now: float = NOW) -> None:
    """Let the plugin's source say what it knows."""

    def column(what: str, resource: str) -> Any:
        return np.array([data[what].get(resource, np.nan) for data in cluster])

    readings = Readings(
        [data["name"] for data in cluster],
        {r: column("mean", r) for r in load_judge.RESOURCES},
        {r: column("deviation", r) for r in load_judge.RESOURCES},
        np.array([data["end"] for data in cluster]),
    )
    (source,) = set(plugin.handle.services.load_sources)
    nodes.column(NodeLoads).write(source, readings, nodes, now)


def agree(scores: dict[str, int], exact: dict[str, float], tolerance: float = 1e-6) -> None:
    """Whether each score is the number rounded; either way where it lies in the middle."""
    for name, value in exact.items():
        allowed = {load_judge.half_up(value + shift) for shift in (-tolerance, 0, tolerance)}
        assert scores[name] in allowed, (name, scores[name], value)


Judge = Callable[[Data, Data], float | None]


def over_commitment_judge(**args: Any) -> Judge:
    return lambda node, pod: load_judge.over_commitment(node, pod, **args)[0]


CASES: list[Any] = [
    pytest.param(TargetLoadPacking, {}, load_judge.target_load_packing, id="packing"),
    pytest.param(
        TargetLoadPacking,
        {
            "targetUtilization": 70,
            "defaultRequests": {"cpu": "250m"},
            "defaultRequestsMultiplier": "2.25",
        },
        lambda node, pod: load_judge.target_load_packing(node, pod, 70, 2.25, 250),
        id="packing-with-args",
    ),
    pytest.param(LoadVariationRiskBalancing, {}, load_judge.balancing, id="balancing"),
    pytest.param(
        LoadVariationRiskBalancing,
        {"safeVarianceMargin": 2.5, "safeVarianceSensitivity": 0.5},
        lambda node, pod: load_judge.balancing(node, pod, 2.5, 0.5),
        id="balancing-with-args",
    ),
    pytest.param(
        LoadVariationRiskBalancing,
        {"safeVarianceSensitivity": 0},
        lambda node, pod: load_judge.balancing(node, pod, 1, 0),
        id="balancing-insensitive",
    ),
    pytest.param(LowRiskOverCommitment, {}, over_commitment_judge(), id="risk"),
    pytest.param(
        LowRiskOverCommitment,
        {"smoothingWindowSize": 1, "riskLimitWeights": {"cpu": 0.1, "memory": 0.9}},
        over_commitment_judge(window=1, weights={"cpu": 0.1, "memory": 0.9}),
        id="risk-with-args",
    ),
]


@pytest.mark.parametrize(("cls", "args", "judge"), CASES)
def test_scores_are_what_the_loops_say(cls: type[Plugin], args: Data, judge: Judge) -> None:
    for seed in range(SEEDS):
        source = random.Random(seed)
        cluster, pod = random_cluster(source), random_pod(source)
        nodes = table_of(cluster)
        ours, theirs = (
            make(cls, make_handle(nodes), **args, **more) for more in ({}, {"compat": "exact"})
        )
        measure(ours, nodes, cluster)
        measure(theirs, nodes, cluster)
        answers = {data["name"]: judge(data, pod) for data in cluster}
        known = {name: value for name, value in answers.items() if value is not None}
        placed = builder(pod, "placed").obj()
        scores = feasible_scores(ours, placed, nodes)
        agree(scores, known)
        agree(feasible_scores(theirs, placed, nodes), dict.fromkeys(answers, 0.0) | known)
        given: dict[str, int | None] = {n: scores[n] if n in known else None for n in answers}
        without = dict.fromkeys(answers, 0)
        if cls is LowRiskOverCommitment and not known:
            agree(scores, {d["name"]: load_judge.over_commitment(d, pod)[1] for d in cluster})
        else:
            assert scores == load_judge.with_median(given, without)


@pytest.mark.parametrize("exact", [False, True])
def test_power_is_what_the_loops_say(exact: bool) -> None:
    models = {name: {"k0": 1.0, "k1": k1, "k2": k2} for name, (k1, k2) in MODELS.items()}
    for seed in range(SEEDS):
        source = random.Random(seed)
        cluster, pod = random_cluster(source), random_pod(source)
        nodes = table_of(cluster)
        more = {"compat": "exact"} if exact else {}
        plugin = make(Peaks, make_handle(nodes), nodePowerModel=models, **more)
        measure(plugin, nodes, cluster)
        rises = {data["name"]: load_judge.rise(data, pod, MODELS) for data in cluster}
        scores = feasible_scores(plugin, builder(pod, "placed").obj(), nodes)
        expected = load_judge.peaks(rises, exact=exact)
        # Rounding of powers may move a score that is near a whole number.
        assert all(abs(scores[name] - expected[name]) <= 1 for name in scores), (scores, expected)
        measured = [name for name, value in rises.items() if isinstance(value, float)]
        assert sum(scores[name] != expected[name] for name in measured) <= 1


def test_the_risk_of_a_node_whose_pods_have_changed_is_what_a_new_plugin_says() -> None:
    source = random.Random(11)
    for _ in range(SEEDS):
        cluster = random_cluster(source)
        nodes, pod = table_of(cluster), builder(random_pod(source), "placed").obj()
        handle = make_handle(nodes)
        plugin = make(LowRiskOverCommitment, handle)
        measure(plugin, nodes, cluster)
        scored(plugin, pod, nodes)
        for row in range(len(cluster)):
            others = [random_pod(source, placed=True) for _ in range(source.randrange(3))]
            for i, other in enumerate(others):
                nodes.add_pod(row, builder(other, f"new-{row}-{i}").obj())
        assert scored(plugin, pod, nodes) == scored(make(LowRiskOverCommitment, handle), pod, nodes)


@pytest.mark.parametrize("several", [False, True], ids=["one-by-one", "as-arrays"])
def test_the_incomplete_beta_function_is_what_the_integral_says(several: bool) -> None:
    source = random.Random(7)
    rows = []
    for _ in range(150 * min(FACTOR, 4)):
        a, b = (10 ** source.uniform(-2, source.choice([1, 3.4, 6])) for _ in range(2))
        x = source.choice([source.random(), source.betavariate(a, b)])
        rows.append((x, a, b))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    if several:
        answers = incomplete_beta(*columns).tolist()
    else:
        answers = [one_incomplete_beta(*row) for row in rows]
        assert [answer > 0 for answer in answers] == [is_possible(*row) for row in rows]
    for answer, row in zip(answers, rows, strict=True):
        assert answer == pytest.approx(load_judge.beta_below(*row), abs=1e-6), row


# Nodes whose load is not known


LOAD_PLUGINS = [TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment, Peaks]


def lone_node(name: str, mean: float | None, **more: Any) -> Data:
    known = {} if mean is None else dict.fromkeys(load_judge.RESOURCES, mean)
    return {
        "name": name,
        "capacity": {"cpu": 10_000, "memory": 1 << 34},
        "allocatable": {"cpu": 10_000, "memory": 1 << 34},
        "mean": known,
        "deviation": dict.fromkeys(known, 0.05),
        "end": NOW,
        "pods": [],
        **more,
    }


def plugin_of(cls: type[Plugin], nodes: LiveNodeTable, **args: Any) -> Any:
    if cls is Peaks:
        model = {"k0": 1.0, "k1": 5.0, "k2": 0.03}
        args["nodePowerModel"] = {f"n{i}": model for i in range(9)}
    return make(cls, make_handle(nodes), **args)


SMALL = make_pod().req(cpu="100m", memory="1Gi")


@pytest.mark.parametrize("cls", LOAD_PLUGINS)
@pytest.mark.parametrize(
    "lie", [{}, {"mean": -0.2}, {"mean": float("inf")}, {"mean": 57.0}, {"end": NOW - 301},
            {"end": NOW - 3e7}, {"end": NOW + 301}, {"deviation": -1.0}],
    ids=["missing", "negative", "infinite", "percent", "stale", "a-year-old", "future", "spread"],
)  # fmt: skip
def test_a_node_without_a_sample_is_neither_best_nor_worst(cls: type[Plugin], lie: Data) -> None:
    container = {
        "requests": {"cpu": 4000, "memory": 1 << 32},
        "limits": {"cpu": 20_000, "memory": 1 << 35},
    }
    running = {"containers": [container], "start": NOW - 1000}
    cluster = [lone_node(f"n{i}", mean) for i, mean in enumerate((0.1, 0.39, 0.62, 0.9))]
    for data in cluster:
        data["pods"].append(running)
    odd = lone_node("n4", lie.get("mean", 0.01 if lie else None), end=lie.get("end", NOW))
    odd["pods"].append(running)
    odd["deviation"] = dict.fromkeys(odd["mean"], lie.get("deviation", 0.05))
    nodes = table_of([*cluster, odd])
    plugin = plugin_of(cls, nodes)
    measure(plugin, nodes, [*cluster, odd])
    scores = feasible_scores(plugin, SMALL.obj(), nodes)
    others = sorted(scores[f"n{i}"] for i in range(4))
    assert len(set(others)) > 2
    assert scores["n4"] == others[1]
    # Among the two best nodes it does not become the best by those that are not asked about.
    best = sorted((n for n in scores if n != "n4"), key=scores.__getitem__)[-2:]
    fewer = feasible_scores(plugin, SMALL.obj(), nodes, tuple(set(scores) - {"n4", *best}))
    assert fewer["n4"] == min(fewer[name] for name in best)


@pytest.mark.parametrize("cls", LOAD_PLUGINS)
def test_all_nodes_are_equal_where_none_has_a_sample(cls: type[Plugin]) -> None:
    cluster = [lone_node(f"n{i}", None) for i in range(3)]
    nodes = table_of(cluster)
    plugin = plugin_of(cls, nodes)
    before = feasible_scores(plugin, SMALL.obj(), nodes)
    measure(plugin, nodes, cluster)
    assert feasible_scores(plugin, SMALL.obj(), nodes) == before
    assert len(set(before.values())) == 1


def test_samples_grow_old_while_the_source_is_silent() -> None:
    cluster = [lone_node("n0", 0.4), lone_node("n1", 0.9)]
    nodes = table_of(cluster)
    plugin = plugin_of(TargetLoadPacking, nodes)
    measure(plugin, nodes, cluster)
    version = plugin.epoch(SMALL.obj())
    assert feasible_scores(plugin, SMALL.obj(), nodes)["n1"] > 0
    (source,) = set(plugin.handle.services.load_sources)
    load = nodes.column(NodeLoads)[source]
    load.forget_stale(NOW + 299)
    assert plugin.epoch(SMALL.obj()) == version
    load.forget_stale(NOW + 301)
    assert plugin.epoch(SMALL.obj()) > version
    assert feasible_scores(plugin, SMALL.obj(), nodes) == {"n0": 0, "n1": 0}


def test_pods_that_are_bound_count_until_a_sample_shows_them() -> None:
    cluster = [lone_node("n0", 0.1)]
    nodes = table_of(cluster)
    plugin = plugin_of(TargetLoadPacking, nodes, targetUtilization=50)
    measure(plugin, nodes, cluster)
    placed = make_pod("asked").req(cpu="1").obj()
    # 10 % measured and 15 % of the Pod; then 30 % of another one.
    assert scored(plugin, placed, nodes) == {"n0": 75}
    other = make_pod("other").req(cpu="2")
    nodes.add_pod(0, other.obj().on_node("n0"))
    assert scored(plugin, placed, nodes) == {"n0": 45}
    started = datetime.fromtimestamp(NOW + 1, UTC).isoformat()
    nodes.replace_pod(0, other.status(startTime=started).obj().on_node("n0"))
    later = [lone_node("n0", 0.3, end=NOW + 60)]
    measure(plugin, nodes, later, NOW + 60)
    assert scored(plugin, placed, nodes) == {"n0": 25}
    later = [lone_node("n0", 0.3, end=NOW + 61)]
    measure(plugin, nodes, later, NOW + 61)
    assert scored(plugin, placed, nodes) == {"n0": 95}


# The column


def test_rows_of_new_and_removed_nodes_are_not_known() -> None:
    cluster = [lone_node("n0", 0.4), lone_node("n1", 0.9)]
    nodes = table_of(cluster)
    plugin = plugin_of(LoadVariationRiskBalancing, nodes)
    measure(plugin, nodes, cluster)
    column, (source,) = nodes.column(NodeLoads), set(plugin.handle.services.load_sources)
    assert column.known(source) == 2
    nodes.remove_node("n0")
    nodes.set_node(make_node("n2").capacity(cpu="1", memory="1Gi").obj())
    assert column.known(source) == 1
    for i in range(100):
        nodes.set_node(make_node(f"m{i}").obj())
    assert column.known(source) == 1
    row = nodes.row("n1")
    assert row is not None
    assert column[source].mean["cpu"][row] == 0.9
    assert np.isnan(column[source].mean["cpu"][nodes.row("m99")])


def test_what_became_of_samples_is_told() -> None:
    cluster = [lone_node(f"n{i}", 0.5) for i in range(5)]
    nodes = table_of(cluster)
    plugin = plugin_of(TargetLoadPacking, nodes)
    readings = Readings(
        ["n0", "n1", "n2", "n3", "elsewhere"],
        {"cpu": np.array([0.5, -1, 0.5, np.nan, 0.5])},
        {"cpu": np.zeros(5)},
        np.array([NOW, NOW, NOW - 400, NOW, NOW]),
    )
    (source,) = set(plugin.handle.services.load_sources)
    written = nodes.column(NodeLoads).write(source, readings, nodes, NOW)
    assert written.counts == {"used": 1, "invalid": 1, "stale": 1, "unknown node": 1}
    assert written.examples == {
        "invalid": ["n1"],
        "stale": ["n2"],
        "unknown node": ["elsewhere"],
    }


def test_absolute_samples_are_shares_of_the_capacity() -> None:
    cluster = [lone_node("n0", None), lone_node("n1", None, capacity={"cpu": 0, "memory": 0})]
    nodes = table_of(cluster)
    plugin = plugin_of(TargetLoadPacking, nodes)
    readings = Readings(
        ["n0", "n1"],
        {"cpu": np.array([2500.0, 1.0]), "memory": np.array([float(1 << 33), 1.0])},
        {"cpu": np.zeros(2), "memory": np.zeros(2)},
        np.array([NOW, NOW]),
        absolute=True,
    )
    (source,) = set(plugin.handle.services.load_sources)
    nodes.column(NodeLoads).write(source, readings, nodes, NOW)
    load = nodes.column(NodeLoads)[source]
    assert (load.mean["cpu"][0], load.mean["memory"][0]) == (0.25, 0.5)
    assert np.isnan(load.mean["cpu"][1])


# Peaks' file


@pytest.fixture
def model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "power.json"
    monkeypatch.setenv("NODE_POWER_MODEL", str(path))
    return path


def test_power_models_come_from_the_file_where_the_arguments_have_none(model_file: Path) -> None:
    model_file.write_text(json.dumps({"n0": {"k0": 1, "k1": 5, "k2": 0.03}}))
    cluster = [lone_node("n0", 0.5), lone_node("n1", 0.5)]
    nodes = table_of(cluster)
    plugin = make(Peaks, make_handle(nodes), compat="exact")
    measure(plugin, nodes, cluster)
    raw = scored(plugin, SMALL.obj(), nodes)
    assert isinstance(raw, dict)
    assert raw["n0"] > 0
    assert raw["n1"] == 0


@pytest.mark.parametrize("text", [None, "[]", '{"n0": {"k1": "much"}}', '{"n0": {"k9": 1}}'])
def test_a_file_that_cannot_be_used_is_named(model_file: Path, text: str | None) -> None:
    if text is not None:
        model_file.write_text(text)
    with pytest.raises(ValueError, match=r"NODE_POWER_MODEL .*power\.json"):
        make(Peaks, make_handle(LiveNodeTable()))


def test_peaks_without_any_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_POWER_MODEL", raising=False)
    with pytest.raises(ValueError, match="nodePowerModel is required"):
        make(Peaks, make_handle(LiveNodeTable()))
