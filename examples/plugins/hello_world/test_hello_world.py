from pathlib import Path

import pytest
from examples.plugins.support import load

from bayplan.framework import Code
from bayplan.testing import make_node, make_pod


@pytest.fixture
def rig():
    return load(Path(__file__).parent, [make_node("k8s-node1").obj(), make_node("other").obj()])


def test_only_the_node_of_the_args_is_looked_at(rig):
    assert rig.plugin.pre_filter(None, make_pod().obj(), rig.nodes).node_names == {"k8s-node1"}


def test_the_node_of_the_args_passes(rig):
    assert rig.plugin.filter(None, make_pod().obj(), rig.node("k8s-node1")) is None


def test_any_other_node_is_rejected_for_good(rig):
    status = rig.plugin.filter(None, make_pod().obj(), rig.node("other"))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "node(s) were not k8s-node1"
