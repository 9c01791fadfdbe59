"""The plugins of examples/plugins, each with its own configuration and manifests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.cluster import NAME, SOON, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = pytest.mark.e2e

PLUGINS = ROOT / "examples" / "plugins"


@pytest.fixture
def run(start) -> Callable[[str], object]:
    return lambda name: start(PLUGINS / name / "config.yaml", PLUGINS / name)


def convoy_member(name, size="2", **more):
    labels = {"convoy": "c", "convoy-size": size}
    return pod(name, scheduler="convoy", labels=labels, **more)


def wait_waiting(cluster, name):
    """A Pod that waits in Permit is nominated to the node that it was given."""
    wait_until(lambda: cluster.pod(name)["status"].get("nominatedNodeName"), SOON, f"{name} waits")


def test_hello_world_waits_for_its_node_while_that_is_cordoned(cluster, run):
    cluster.nodes(NodeSpec("k8s-node1", unschedulable=True), NodeSpec("k8s-node2"))
    run("hello_world")
    cluster.apply(PLUGINS / "hello_world" / "pod.yaml")
    message = cluster.wait_condition("pod1")
    assert "1 node(s) were unschedulable" in message
    assert "1 node(s) didn't satisfy plugin(s) [HelloWorld]" in message
    cluster.patch_node("k8s-node1", unschedulable=None)
    assert cluster.wait_bound("pod1") == {"pod1": "k8s-node1"}
    note = f"Successfully assigned {cluster.namespace}/pod1 to k8s-node1"
    cluster.wait_event("pod1", "Scheduled", note)


def test_my_score_prefers_the_highest_number(cluster, run):
    scores = {"low": "1", "high": "9", "none": ""}
    labels = {name: {"example.com/score": score} if score else {} for name, score in scores.items()}
    cluster.nodes(*(NodeSpec(name, labels=found) for name, found in labels.items()))
    run("my_score")
    cluster.apply(PLUGINS / "my_score" / "pod.yaml")
    assert cluster.wait_bound("scored") == {"scored": "high"}


def test_avoid_node_wakes_its_pod_when_the_label_goes(cluster, run):
    cluster.nodes(NodeSpec("shunned", labels={"avoid": "true"}))
    run("avoid_node")
    cluster.apply(PLUGINS / "avoid_node" / "pod.yaml")
    cluster.wait_condition("careful", text="1 node(s) were to be avoided")
    cluster.kubectl("label", "node", "shunned", "avoid-")
    cluster.wait_bound("careful")


def test_gpu_priority_takes_the_node_with_most_free_gpus(cluster, run):
    cluster.nodes(*(NodeSpec(f"gpus-{gpus}", gpus=gpus) for gpus in (0, 3, 4)))
    run("gpu_priority")
    cluster.apply(PLUGINS / "gpu_priority" / "pods.yaml")
    assert cluster.wait_bound("training-1", "training-2") == {
        "training-1": "gpus-4",
        "training-2": "gpus-3",
    }


def test_a_convoy_is_bound_when_all_its_pods_have_nodes(cluster, run):
    cluster.nodes(NodeSpec("n1", cpu="1"), NodeSpec("n2", cpu="1"))
    run("convoy")
    first, second = yaml.safe_load_all((PLUGINS / "convoy" / "pods.yaml").read_text())
    cluster.create(first)
    wait_waiting(cluster, "worker-1")
    assert cluster.node_of("worker-1") == ""
    cluster.create(second)
    nodes = cluster.wait_bound("worker-1", "worker-2")
    assert sorted(nodes.values()) == ["n1", "n2"]


def test_a_convoy_whose_last_pod_never_comes_times_out_and_gives_its_nodes_back(cluster, start):
    profile = {
        "schedulerName": "convoy",
        "plugins": {"multiPoint": {"enabled": [{"name": "Convoy"}]}},
        "pluginConfig": [{"name": "Convoy", "args": {"seconds": 1}}],
    }
    cluster.nodes(NodeSpec("only", cpu="1"))
    start(cluster.config(profiles=[profile]), PLUGINS / "convoy")
    cluster.create(convoy_member("alone", cpu="1"))
    text = "rejected due to timeout after waiting 1s at plugin Convoy"
    cluster.wait_condition("alone", text=text)
    cluster.create(pod("other", scheduler="convoy", cpu="1"))
    cluster.wait_bound("other")


def test_a_convoy_gives_up_together_when_one_of_it_is_deleted(cluster, run):
    cluster.nodes(NodeSpec("n1"))
    run("convoy")
    cluster.create(convoy_member("a", "3"), convoy_member("b", "3"))
    wait_waiting(cluster, "a")
    wait_waiting(cluster, "b")
    cluster.delete("a")
    cluster.wait_condition("b", text="another Pod of the convoy gave up")


def test_a_permit_plugin_turns_a_pod_down(cluster, run):
    cluster.nodes(NodeSpec("n1"))
    run("convoy")
    cluster.create(convoy_member("p", "many"))
    message = cluster.wait_condition("p")
    assert "label convoy-size is no number: 'many'" in message


BROKEN = """
from bayplan.framework import Plugin


class Broken(Plugin):
    def filter(self, state, pod, node):
        return pod.labels["tier"] / 0 if "tier" in pod.labels else None
"""


def test_an_exception_in_a_plugin_costs_its_pod_the_attempt_and_nothing_else(
    cluster, start, tmp_path: Path
):
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
