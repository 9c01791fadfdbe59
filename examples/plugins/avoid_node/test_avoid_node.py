from pathlib import Path

import pytest
from examples.plugins.support import load

from bayplan.testing import make_node, make_pod


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        pytest.param({"avoid": "true"}, "node(s) were to be avoided", id="to be avoided"),
        pytest.param({"avoid": "false"}, None, id="another value"),
        pytest.param({}, None, id="no label"),
    ],
)
def test_a_node_labelled_avoid_is_rejected(labels, message):
    rig = load(Path(__file__).parent, [make_node("n").labels(labels).obj()])
    status = rig.plugin.filter(None, make_pod().obj(), rig.node("n"))
    assert (status and status.message) == message
