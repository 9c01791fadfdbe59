from pathlib import Path

from examples.plugins.support import load

from bayplan.testing import make_node, make_pod

GPU = "nvidia.com/gpu"


def test_a_node_scores_by_its_free_gpus():
    nodes = [make_node(f"n{gpus}").capacity({GPU: gpus}).obj() for gpus in (0, 2, 8)]
    rig = load(Path(__file__).parent, nodes)
    rig.add(make_pod("busy").req({GPU: 7}).node("n8").obj())
    scores = rig.plugin.score_nodes(None, make_pod().obj(), rig.nodes)
    assert {name: scores[rig.nodes.row(name)] for name in ("n0", "n2", "n8")} == {
        "n0": 0,
        "n2": 2,
        "n8": 1,
    }
