from pathlib import Path

import pytest
from examples.plugins.my_score.my_score import MyScore

from bayplan.framework import CycleState
from bayplan.testing import Cluster, NodeBuilder, make_node, make_pod

HERE = Path(__file__).parent


def node(name: str) -> NodeBuilder:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods=110)


def test_the_pod_goes_to_the_highest_number() -> None:
    cluster = Cluster(config=HERE / "config.yaml", plugin_dir=HERE)
    cluster.add(node("a"), node("b").label("example.com/score", "1"))
    cluster.add(node("c").label("example.com/score", "9"))
    cluster.apply(HERE / "pod.yaml")
    cluster.run()
    assert cluster.node_of("scored") == "c"


@pytest.mark.parametrize(
    ("labels", "score"),
    [
        pytest.param({"example.com/score": "7"}, 7, id="a number"),
        pytest.param({"example.com/score": "high"}, 0, id="no number"),
        pytest.param({"example.com/score": "-7"}, 0, id="a negative number"),
        pytest.param({"something": "else"}, 0, id="no label"),
    ],
)
def test_the_score_is_the_number_in_the_label(labels: dict[str, str], score: int) -> None:
    cluster = Cluster(MyScore, args={"MyScore": {}})
    cluster.add(node("n").labels(labels))
    plugin = cluster.plugin(MyScore)
    assert plugin.score(CycleState(), make_pod().obj(), cluster.node("n")) == score
