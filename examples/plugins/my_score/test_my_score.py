from pathlib import Path

import pytest
from examples.plugins.support import load

from bayplan.testing import make_node, make_pod


@pytest.mark.parametrize(
    ("labels", "score"),
    [
        pytest.param({"example.com/score": "7"}, 7, id="a number"),
        pytest.param({"example.com/score": "high"}, 0, id="no number"),
        pytest.param({"example.com/score": "-7"}, 0, id="a negative number"),
        pytest.param({"something": "else"}, 0, id="no label"),
    ],
)
def test_the_score_is_the_number_in_the_label(labels, score):
    rig = load(Path(__file__).parent, [make_node("n").labels(labels).obj()])
    assert rig.plugin.score(None, make_pod().obj(), rig.node("n")) == score
