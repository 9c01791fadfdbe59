from pathlib import Path

import pytest

from bayplan.testing import Cluster, NodeBuilder, make_node

HERE = Path(__file__).parent


def node(name: str) -> NodeBuilder:
    labelled = make_node(name).label("kubernetes.io/hostname", name)
    return labelled.capacity(cpu="4", memory="8Gi", pods=110)


@pytest.mark.parametrize(
    ("avoid", "goes_to"),
    [
        pytest.param("true", "node-a2", id="to be avoided"),
        pytest.param("false", "node-a1", id="another value"),
        pytest.param(None, "node-a1", id="no label"),
    ],
)
def test_the_pod_takes_the_node_it_prefers_unless_that_is_to_be_avoided(
    avoid: str | None, goes_to: str
) -> None:
    cluster = Cluster(config=HERE / "config.yaml", plugin_dir=HERE)
    preferred = node("node-a1")
    cluster.add(preferred.label("avoid", avoid) if avoid else preferred, node("node-a2"))
    cluster.apply(HERE / "pod.yaml")
    cluster.run()
    assert cluster.node_of("careful") == goes_to


def test_a_pod_that_found_no_node_is_woken_when_the_label_goes() -> None:
    cluster = Cluster(config=HERE / "config.yaml", plugin_dir=HERE)
    only = node("node-a1").label("avoid", "true")
    cluster.add(only)
    cluster.apply(HERE / "pod.yaml")
    cluster.run()
    assert cluster.message("careful").startswith(
        "0/1 nodes are available: 1 node(s) were to be avoided."
    )
    cluster.add(only.label("avoid", "false"))
    cluster.run()
    assert cluster.node_of("careful") == "node-a1"
