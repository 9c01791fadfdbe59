from pathlib import Path

from bayplan.testing import Cluster, NodeBuilder, make_node, make_pod

HERE = Path(__file__).parent
GPU = "nvidia.com/gpu"


def node(name: str, gpus: int) -> NodeBuilder:
    return make_node(name).capacity({GPU: gpus}, cpu="4", memory="8Gi", pods=110)


def test_pods_go_where_most_gpus_are_free() -> None:
    cluster = Cluster(config=HERE / "config.yaml", plugin_dir=HERE)
    cluster.add(node("n0", 0), node("n3", 3), node("n4", 4))
    cluster.apply(HERE / "pods.yaml")
    cluster.run()
    assert (cluster.node_of("training-1"), cluster.node_of("training-2")) == ("n4", "n3")


def test_a_node_scores_by_its_free_gpus() -> None:
    cluster = Cluster(config=HERE / "config.yaml", plugin_dir=HERE)
    cluster.add(node("n0", 0), node("n2", 2), node("n8", 8))
    cluster.add(make_pod("busy").req({GPU: 7}).node("n8"))
    scores = cluster.explain(make_pod("p"))["scores"]
    assert [scores[name]["GPUPriority"] for name in ("n0", "n2", "n8")] == [0, 10000, 5000]
