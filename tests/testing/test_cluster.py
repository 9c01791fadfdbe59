"""The cluster of the test kit shows a plugin what a real one would."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bayplan.api.kinds import NAMESPACE, Kind
from bayplan.client.errors import ServerError
from bayplan.config import ConfigError
from bayplan.framework import (
    WAIT,
    CycleState,
    NodeInfo,
    Plugin,
    Pod,
    Status,
)
from bayplan.queue.states import QueueState
from bayplan.testing import Cluster, NodeBuilder, PodBuilder, make_node, make_object, make_pod


class Picky(Plugin):
    """Takes only nodes labelled good."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if "good" in node.labels else Status.unschedulable("node(s) were not good")


class Pause(Plugin):
    """Lets Pods wait for a minute, until somebody asks for them to go."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float] | None:
        return (WAIT, 60) if "slow" in pod.labels else None


@dataclass
class PinnedArgs:
    node: str


class Pinned(Plugin):
    """Sends every Pod to one node."""

    Args = PinnedArgs
    args: PinnedArgs

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if node.name == self.args.node else Status.unresolvable("another node")


def node(name: str) -> NodeBuilder:
    return make_node(name).capacity(cpu="2", memory="4Gi", pods=10)


def pod(name: str, cpu: str = "1") -> PodBuilder:
    return make_pod(name).req(cpu=cpu)


def test_a_pod_goes_where_plugins_let_it() -> None:
    cluster = Cluster(Picky)
    cluster.add(node("a"), node("b").label("good"), pod("p"))
    cluster.run()
    assert cluster.node_of("p") == cluster.node_of("default/p") == "b"
    assert cluster.writer.bound == [("p", "b")]
    assert [event.reason for event in cluster.events] == ["Scheduled"]


def test_a_pod_that_fits_nowhere_says_why_and_is_woken_by_an_event() -> None:
    cluster = Cluster(Picky)
    changing = node("a")
    cluster.add(changing, pod("p"))
    cluster.run()
    assert cluster.message("p") == (
        "0/1 nodes are available: 1 node(s) were not good. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert cluster.state("p") is QueueState.UNSCHEDULABLE
    cluster.add(changing.label("good"))
    cluster.run()
    assert cluster.node_of("p") == "a"


def test_a_bound_pod_can_change_and_go() -> None:
    cluster = Cluster()
    first = pod("first", cpu="2")
    cluster.add(node("a"), first)
    cluster.run()
    cluster.add(first.label("phase", "late"), pod("second", cpu="2"))
    cluster.run()
    assert (cluster.node_of("first"), cluster.node_of("second")) == ("a", "")
    cluster.remove(first)
    cluster.run()
    assert (cluster.node_of("first"), cluster.node_of("second")) == ("", "a")


def test_a_waiting_pod_is_rejected_when_its_time_is_up() -> None:
    cluster = Cluster(Pause)
    cluster.add(node("a"), pod("p").label("slow"))
    cluster.run()
    assert (cluster.waits_for("p"), cluster.node_of("p")) == (["Pause"], "")
    cluster.wait(61)
    assert cluster.waits_for("p") == []
    assert "timeout after waiting 1m0s at plugin Pause" in cluster.message("p")


def test_preemption_evicts_and_the_preemptor_gets_the_room() -> None:
    cluster = Cluster()
    cluster.add(node("a"), pod("low", cpu="2"))
    cluster.run()
    cluster.add(pod("high", cpu="2").priority(10))
    cluster.run()
    assert cluster.writer.deleted == ["low"]
    assert cluster.node_of("high") == "a"


def test_a_write_that_fails_is_an_error_of_the_pod() -> None:
    cluster = Cluster()
    cluster.writer.outcome = ServerError("etcd is down", status=500)
    cluster.add(node("a"), pod("p"))
    cluster.run()
    assert cluster.node_of("p") == ""
    assert "etcd is down" in cluster.message("p")
    cluster.writer.outcome = None
    cluster.wait(10)
    cluster.run()
    assert cluster.node_of("p") == "a"


def test_explain_names_every_node() -> None:
    cluster = Cluster(Picky)
    cluster.add(node("a"), node("b").label("good"))
    nodes = cluster.explain(pod("never added"))["nodes"]
    assert nodes["a"]["plugin"] == "Picky"
    assert nodes["b"]["code"] == "Success"


def test_a_plugin_is_called_as_the_scheduler_calls_it() -> None:
    cluster = Cluster(Picky)
    cluster.add(node("a").label("good"))
    plugin = cluster.plugin(Picky)
    assert plugin.filter(CycleState(), pod("p").obj(), cluster.node("a")) is None


def test_other_objects_reach_the_plugins() -> None:
    crd = Kind.generic("example.com/v1", "Quota", "quotas", namespaced=True)
    cluster = Cluster(Picky)
    cluster.add(make_object(NAMESPACE, "default").label("team", "a"))
    cluster.add(make_object(crd, "q").spec(limit=3))
    objects = cluster.plugin(Picky).handle.objects
    namespace, quota = objects.get(NAMESPACE, "default"), objects.get(crd, "default/q")
    assert namespace is not None
    assert namespace.metadata.labels == {"team": "a"}
    assert quota is not None
    cluster.remove(make_object(crd, "q"))
    assert objects.get(crd, "default/q") is None


def test_files_are_read_as_the_scheduler_reads_them(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(
        "from bayplan.framework import Plugin, Status\n\n\nclass Never(Plugin):\n"
        '    def filter(self, state, pod, node):\n        return Status.unresolvable("never")\n'
    )
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: never\n  plugins: {filter: {enabled: [{name: Never}]}}\n"
    )
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {schedulerName: never, containers: [{name: c, image: i}]}\n"
    )
    cluster = Cluster(config=config, plugin_dir=tmp_path)
    cluster.add(node("a"))
    cluster.apply(manifest)
    cluster.run()
    assert cluster.message("p").startswith("0/1 nodes are available: 1 never.")


def test_a_manifest_with_a_fault_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {nodeSelecter: {a: b}, containers: [{name: c, image: i}]}\n"
    )
    with pytest.raises(ValueError, match="nodeSelecter"):
        Cluster().apply(manifest)


def test_a_plugin_gets_its_arguments() -> None:
    cluster = Cluster(Pinned, args={"Pinned": {"node": "b"}})
    cluster.add(node("a"), node("b"), pod("p"))
    cluster.run()
    assert cluster.node_of("p") == "b"


def test_a_wrong_argument_is_named() -> None:
    with pytest.raises(ConfigError, match="colour"):
        Cluster(Pinned, args={"Pinned": {"node": "a", "colour": "red"}})


def test_time_is_what_the_test_says() -> None:
    cluster = Cluster(Pause)
    handle = cluster.plugin(Pause).handle
    before = handle.now()
    cluster.wait(3)
    assert (handle.now(), handle.monotonic()) == (before + 3, before + 3)
