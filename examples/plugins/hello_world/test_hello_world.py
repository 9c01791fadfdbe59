from pathlib import Path

import pytest
from examples.plugins.hello_world.hello_world import HelloWorld

from bayplan.framework import Code, CycleState
from bayplan.testing import Cluster, NodeBuilder, make_node, make_pod

HERE = Path(__file__).parent


def node(name: str) -> NodeBuilder:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods=110)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(config=HERE / "config.yaml", plugin_dir=HERE)


def test_the_pod_goes_to_the_node_of_the_args(cluster: Cluster) -> None:
    cluster.add(node("a"), node("k8s-node1"), node("other"))
    cluster.apply(HERE / "pod.yaml")
    cluster.run()
    assert cluster.node_of("pod1") == "k8s-node1"


def test_it_waits_until_there_is_that_node(cluster: Cluster) -> None:
    cluster.add(node("other"))
    cluster.apply(HERE / "pod.yaml")
    cluster.run()
    assert cluster.node_of("pod1") == ""
    cluster.add(node("k8s-node1"))
    cluster.run()
    assert cluster.node_of("pod1") == "k8s-node1"


def test_any_other_node_is_rejected_for_good() -> None:
    """A method can be called by itself, too."""
    cluster = Cluster(HelloWorld, args={"HelloWorld": {"node": "k8s-node1"}})
    cluster.add(node("other"))
    plugin = cluster.plugin(HelloWorld)
    status = plugin.filter(CycleState(), make_pod().obj(), cluster.node("other"))
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "node(s) were not k8s-node1"
