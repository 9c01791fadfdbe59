"""`bench.packing`: the protocol on small traces, and what it is told."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from bench.packing import PackingWorld, Run, Window, compact, pack, sizes_of, wait
from bench.packing_trace import (
    Trace,
    TraceError,
    TraceNode,
    TracePod,
    arrivals,
    read,
    synthetic,
    whole,
)

NODES = [TraceNode(f"n{i}", 32_000, 131_072, 4, "T4" if i % 2 else "P100") for i in range(6)]
PODS = [
    TracePod(f"p{i}", 2_000, 4_096, 1, (1000, 470, 810)[i % 3], ("T4",) if i % 5 == 0 else (), 60.0)
    for i in range(24)
]
SMALL = Trace(NODES, {"default": PODS})


def test_the_synthetic_trace_has_the_marginals_of_openb() -> None:
    """As counted in the README of the trace."""
    trace = synthetic(1)
    assert (len(trace.nodes), trace.capacity) == (1_213, 6_212_000)
    assert {name: len(pods) for name, pods in trace.pods.items()} == {
        "default": 8_152,
        "gpuspec33": 8_152,
    }
    pods = trace.pods["default"]
    sizes = Counter(pod.gpus for pod in pods)
    assert sizes == {1: 6_989, 0: 1_088, 8: 44, 2: 16, 4: 15}
    assert sum(pod.gpus == 1 and pod.part < 1000 for pod in pods) == 3_078
    assert sum(bool(pod.models) for pod in trace.pods["gpuspec33"]) == 7_064 - 4_676


def test_arrivals_end_before_130_percent() -> None:
    coming = list(arrivals(PODS, SMALL.capacity, 42))
    assert sorted(pod.name for pod in coming[: len(PODS)]) == sorted(pod.name for pod in PODS)
    assert len({pod.name for pod in coming}) == len(coming)
    demand = sum(pod.demand for pod in coming)
    assert 1.3 * SMALL.capacity - 1000 < demand <= 1.3 * SMALL.capacity
    assert coming == list(arrivals(PODS, SMALL.capacity, 42))
    assert coming != list(arrivals(PODS, SMALL.capacity, 43))


def test_a_trace_is_read_from_its_folder(tmp_path: Path) -> None:
    pods = POD_HEAD + "p0,1000,1024,1,460,T4|P100,5,65\np1,1000,1024,0,0,,5,5\n"
    trace = read(written(tmp_path, NODE_HEAD + "n0,64000,262144,2,P100\n", pods))
    assert trace.nodes == [TraceNode("n0", 64000, 262144, 2, "P100")]
    assert trace.pods["x"] == [
        TracePod("p0", 1000, 1024, 1, 460, ("T4", "P100"), 60.0),
        TracePod("p1", 1000, 1024, 0, 0, (), 1.0),
    ]


NODE_HEAD = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"


def written(folder: Path, nodes: str, pods: str) -> Path:
    """A folder with these lists."""
    (folder / "a_node_list.csv").write_text(nodes)
    (folder / "a_pod_list_x.csv").write_text(pods)
    return folder


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("p0,1000,1024,1,1460,,5,65", "column gpu_milli: 1460 is not in 1 to 1000"),
        ("p0,1000,1024,1,0,,5,65", "column gpu_milli: 0 is not in 1 to 1000"),
        ("p0,many,1024,1,460,,5,65", 'column cpu_milli: "many" is no number'),
        ("p0,1000,,1,460,,5,65", 'column memory_mib: "" is no number'),
        ("p0,1000,nan,1,460,,5,65", "column memory_mib: nan is not a number of at least 0"),
        ("p0,1000,1024,-1,460,,5,65", "column num_gpu: -1 is not a number of at least 0"),
        ("p0,1000,1024,1.5,460,,5,65", "column num_gpu: 1.5 is not whole"),
        ("p0,1000,1024,1,460,,5,late", 'column deletion_time: "late" is no number'),
        (",1000,1024,1,460,,5,65", "column name: there is no name"),
        ("first,1000,1024,1,460,,5,65", "column name: first is in line 2 as well"),
        ("p0,1000,1024,1,460,,5,65,7", "there are more values than columns"),
    ],
)
def test_a_line_that_is_no_pod_is_named_with_its_column(
    tmp_path: Path, line: str, text: str
) -> None:
    nodes, first = NODE_HEAD + "n0,64000,262144,2,P100\n", "first,1000,1024,1,460,,5,65\n"
    folder = written(tmp_path, nodes, POD_HEAD + first + line + "\n")
    with pytest.raises(TraceError, match=f"a_pod_list_x.csv, line 3.*{re.escape(text)}"):
        read(folder)


@pytest.mark.parametrize(
    ("nodes", "pods", "text"),
    [
        ("sn,cpu_milli,gpu,model\n", POD_HEAD, "line 1: there is no column memory_mib"),
        ("", POD_HEAD, "line 1: there is no column sn"),
        (NODE_HEAD, POD_HEAD, "a_node_list.csv: there is nothing in it"),
        (NODE_HEAD + "n0,1,1,0,\n", POD_HEAD + "p,1,1,1,460,,,\n", "gpu: no node has a GPU"),
        (NODE_HEAD + "n0,1,1,1,\n", POD_HEAD + "p,1,1,0,,,,\n", "num_gpu: no Pod asks for a GPU"),
    ],
)
def test_a_trace_without_what_it_needs_is_refused(
    tmp_path: Path, nodes: str, pods: str, text: str
) -> None:
    with pytest.raises(TraceError, match=re.escape(text)):
        read(written(tmp_path, nodes, pods))


def test_a_trace_needs_a_list_of_nodes_and_one_of_pods(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="at least one"):
        read(tmp_path)


def test_another_clusters_trace_with_few_columns_and_odd_nodes_is_packed(tmp_path: Path) -> None:
    """Nodes without GPUs and with ten, models of another name, fractions, and three GPUs a Pod."""
    nodes = NODE_HEAD + "a,64000.5,1e5,10,MI300\nb,32000,65536,0,\nc,64000,100000,3,H200\n"
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000.2,10,1,333.3\np1,500,10,0,\n"
    trace = read(written(tmp_path, nodes, pods + "p2,2000,10,3,1000\n"))
    assert trace.nodes[0] == TraceNode("a", 64_000, 100_000, 10, "MI300")
    assert trace.pods["x"][0] == TracePod("p0", 1_001, 10, 1, 334, (), 1.0)
    assert sizes_of(trace.pods["x"]) == ["cpu", "shared", "3 GPU"]
    for shares in (True, False):
        listed = trace.pods["x"] if shares else whole(trace.pods["x"])
        run = pack(trace, listed, "LeastFragmentation", 42, shares=shares, window=Window())
        assert run.given[1] > 70
    assert wait(trace, whole(listed), "Random", 42, shares=False, load=0.5).of("3 GPU")


@pytest.mark.parametrize("ahead", [1, 5, 1000])
def test_the_largest_of_the_pods_that_wait_are_decided_about_first(ahead: int) -> None:
    coming = [TracePod(f"p{i}", 100, 1, i % 4 + 1, 1000, (), 1.0) for i in range(12)]
    ordered = Window(ahead, largest_first=True).ordered(coming)
    assert Window(ahead).ordered(coming) == coming
    for first in range(0, 12, ahead):
        some = ordered[first : first + ahead]
        assert sorted(p.name for p in some) == sorted(p.name for p in coming[first : first + ahead])
        assert [p.gpus for p in some] == sorted((p.gpus for p in some), reverse=True)


@pytest.mark.parametrize("policy", ["LeastFragmentation", "BestFit", "MostAllocated", "Random"])
@pytest.mark.parametrize("shares", [True, False], ids=["shares", "whole"])
def test_a_run_gives_out_what_fits(policy: str, shares: bool) -> None:
    pods = PODS if shares else whole(PODS)
    run = pack(SMALL, pods, policy, 42, shares=shares, window=Window())
    assert isinstance(run, Run)
    at_100, at_130 = run.given
    assert 60 < at_100 <= at_130 <= 100
    assert run.left_out.total() > 0
    if not shares:
        assert at_130 == 100.0


def test_the_ledger_agrees_with_the_scheduler() -> None:
    world = PackingWorld(NODES, PODS, "LeastFragmentation", shares=True)
    world.arrive(PODS)
    placed = []
    while (decided := world.decide()) is not None:
        if decided[1]:
            placed.append(decided[0])
    assert placed
    table = world.core.world.cache.nodes
    rows = [row for node in NODES if (row := table.row(node.name)) is not None]
    free = (table.allocatable("cpu") - table.requested("cpu"))[rows]
    assert world.ledger.cpu.tolist() == free.tolist()
    taken = sum(pod.demand for pod in placed) / 1000
    assert world.ledger.left.sum() == pytest.approx(24 - taken)
    for pod in placed:
        world.end(pod)
    assert np.allclose(world.ledger.left, 1.0)


def test_pods_that_end_make_room_for_those_that_wait() -> None:
    nodes = [TraceNode(f"n{i}", 32_000, 131_072, 4, "T4") for i in range(10)]
    trace = Trace(nodes, {"default": PODS})
    waits = wait(trace, whole(PODS), "Random", 42, shares=False, load=2.0)
    all_waits = waits.of("1 GPU")
    assert max(all_waits) > 0.0
    idle = wait(trace, whole(PODS), "Random", 42, shares=False, load=0.2)
    assert sum(idle.of("1 GPU")) < sum(all_waits)


def test_nodes_that_nobody_needs_may_go() -> None:
    """24 Pods of a GPU need all six nodes, 12 need three."""
    pods = [TracePod(f"p{i}", 1_000, 1_024, 1, 1000, (), 60.0) for i in range(24)]
    for number, gone in ((24, 0.0), (12, 50.0)):
        trace = Trace(NODES, {"default": pods[:number]})
        assert compact(trace, pods[:number], "Random", 42, shares=False) == pytest.approx(gone)
