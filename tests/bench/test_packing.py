"""`bench.packing`: the protocol on small traces, and what it is told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from bench.packing import PackingWorld, Run, compact, pack, wait
from bench.packing_trace import (
    Trace,
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
    (tmp_path / "a_node_list.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n"
    )
    lists = tmp_path / "a_pod_list_x.csv"
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    lists.write_text(head + "p0,1000,1024,1,460,T4|P100,5,65\np1,1000,1024,0,0,,5,5\n")
    trace = read(tmp_path)
    assert trace.nodes == [TraceNode("n0", 64000, 262144, 2, "P100")]
    assert trace.pods["x"] == [
        TracePod("p0", 1000, 1024, 1, 460, ("T4", "P100"), 60.0),
        TracePod("p1", 1000, 1024, 0, 0, (), 1.0),
    ]
    lists.write_text(head + "p0,1000,1024,1,1460,,5,65\n")
    with pytest.raises(ValueError, match=r"a_pod_list_x.csv, line 2: .*gpu_milli 1460"):
        read(tmp_path)
    lists.unlink()
    with pytest.raises(ValueError, match="at least one"):
        read(tmp_path)


@pytest.mark.parametrize("policy", ["LeastFragmentation", "BestFit", "MostAllocated", "Random"])
@pytest.mark.parametrize("shares", [True, False], ids=["shares", "whole"])
def test_a_run_gives_out_what_fits(policy: str, shares: bool) -> None:
    pods = PODS if shares else whole(PODS)
    run = pack(SMALL, pods, policy, 42, shares=shares, known=False)
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
