"""The plugins of examples/plugins, each with its own configuration and manifests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster import NAME, SOON, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = pytest.mark.e2e

PLUGINS = ROOT / "examples" / "plugins"


@pytest.fixture
def run(start: Callable[..., Bayplan]) -> Callable[[str], object]:
    return lambda name: start(PLUGINS / name / "config.yaml", PLUGINS / name)


def test_hello_world_waits_for_its_node_while_that_is_cordoned(
    cluster: Cluster, run: Callable[[str], object]
) -> None:
    cluster.nodes(NodeSpec("k8s-node1", unschedulable=True), NodeSpec("k8s-node2"))
    run("hello_world")
    cluster.apply(PLUGINS / "hello_world" / "pod.yaml")
    cluster.wait_condition("pod1", text="1 node(s) were unschedulable")
    cluster.wait_condition("pod1", text="1 node(s) didn't satisfy plugin(s) [HelloWorld]")
    cluster.patch_node("k8s-node1", unschedulable=None)
    assert cluster.wait_bound("pod1") == {"pod1": "k8s-node1"}
    note = f"Successfully assigned {cluster.namespace}/pod1 to k8s-node1"
    cluster.wait_event("pod1", "Scheduled", note)


def test_my_score_prefers_the_highest_number(
    cluster: Cluster, run: Callable[[str], object]
) -> None:
    scores = {"low": "1", "high": "9", "none": ""}
    labels = {name: {"example.com/score": score} if score else {} for name, score in scores.items()}
    cluster.nodes(*(NodeSpec(name, labels=found) for name, found in labels.items()))
    run("my_score")
    cluster.apply(PLUGINS / "my_score" / "pod.yaml")
    assert cluster.wait_bound("scored") == {"scored": "high"}


def test_avoid_node_wakes_its_pod_when_the_label_goes(
    cluster: Cluster, run: Callable[[str], object]
) -> None:
    cluster.nodes(NodeSpec("node-a1", labels={"avoid": "true"}))
    run("avoid_node")
    cluster.apply(PLUGINS / "avoid_node" / "pod.yaml")
    cluster.wait_condition("careful", text="1 node(s) were to be avoided")
    cluster.kubectl("label", "node", "node-a1", "avoid-")
    cluster.wait_bound("careful")


def test_gpu_priority_takes_the_node_with_most_free_gpus(
    cluster: Cluster, run: Callable[[str], object]
) -> None:
    cluster.nodes(*(NodeSpec(f"gpus-{gpus}", gpus=gpus) for gpus in (0, 3, 4)))
    run("gpu_priority")
    cluster.apply(PLUGINS / "gpu_priority" / "pods.yaml")
    assert cluster.wait_bound("training-1", "training-2") == {
        "training-1": "gpus-4",
        "training-2": "gpus-3",
    }


def test_team_quota_lets_two_run_where_two_may(
    cluster: Cluster, run: Callable[[str], object]
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    run("team_quota")
    names = cluster.create(*(pod(f"p{i}", "team-quota", {"team": "red"}) for i in range(5)))
    wait_until(lambda: sum(bool(cluster.node_of(n)) for n in names) >= 2, SOON, "two run")
    waiting = [name for name in names if not cluster.node_of(name)]
    for name in waiting:
        cluster.wait_condition(name, text="team red has 2 Pods already")
    first = next(name for name in names if name not in waiting)
    cluster.delete(first)
    wait_until(lambda: any(cluster.node_of(n) for n in waiting), SOON, "the next one runs")
    assert sum(bool(cluster.node_of(name)) for name in waiting) == 1


BROKEN = """
from bayplan.framework import Plugin


class Broken(Plugin):
    def filter(self, state, pod, node):
        return pod.labels["tier"] / 0 if "tier" in pod.labels else None
"""


def test_an_exception_in_a_plugin_costs_its_pod_the_attempt_and_nothing_else(
    cluster: Cluster, start: Callable[..., Bayplan], tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    plugins = {"filter": {"enabled": [{"name": "Broken"}]}}
    config = cluster.config(profiles=[{"schedulerName": NAME + "-broken", "plugins": plugins}])
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    bayplan = start(config, tmp_path)
    cluster.create(pod("bad", scheduler=NAME + "-broken", labels={"tier": "web"}))
    message = cluster.wait_condition("bad", "SchedulerError")
    assert "Broken" in message
    assert "Traceback" not in message
    cluster.create(pod("good", scheduler=NAME + "-broken"))
    cluster.wait_bound("good")
    assert "TypeError" in bayplan.log.read_text()
    assert bayplan.metric("bayplan_plugin_failures_total", plugin="Broken") >= 1
