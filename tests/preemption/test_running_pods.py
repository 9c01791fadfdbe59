"""The columns of running Pods say of each Pod what it says of itself."""

from __future__ import annotations

from tests.plugins.harness import table_of

from bayplan.cache.node_table.pod_table import NOT_STARTED, start
from bayplan.preemption.running_pods import RunningPods
from bayplan.testing import make_node, make_pod

TIMES = ["2026-01-02T03:04:05Z", "", "2025-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000001Z"]


def test_columns_equal_what_each_pod_says() -> None:
    nodes = table_of(*(make_node(f"n{i}") for i in range(3)))
    for i, time in enumerate(TIMES * 3):
        pod = make_pod(f"p{i}").uid(f"u{i}").label("app", f"a{i % 4}").priority(i % 2 * 5)
        pod = pod.start_time(time) if time else pod
        pod = pod.terminating() if i in (3, 7) else pod
        nodes.add_pod(i % 3, pod.obj())
    running = RunningPods(nodes)
    assert len(running) == len(TIMES) * 3
    assert running.starts.tolist() == [start(pod) for pod in running.pods]
    assert set(running.starts.tolist()) >= {NOT_STARTED, 1}
    assert [running.shapes[code] for code in running.codes] == [p.shape for p in running.pods]
    assert [pod.shape for pod in running.examples] == running.shapes
    assert running.priorities.tolist() == [pod.priority for pod in running.pods]
    assert running.leaving.tolist() == [pod.uid in ("u3", "u7") for pod in running.pods]
    assert all(
        pod.uid in nodes.pods[row] for row, pod in zip(running.rows, running.pods, strict=True)
    )


def test_there_may_be_no_pod() -> None:
    running = RunningPods(table_of(make_node("n")))
    assert len(running) == 0
    assert running.starts.tolist() == running.leaving.tolist() == running.codes.tolist() == []
    assert running.examples == []
