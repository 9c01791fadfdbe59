from __future__ import annotations

import pytest
from tests.plugins.harness import filtered, hint, make, normalized, scored, table_of

from bayplan.api.kinds import NODE
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.status import SUCCESS, Status
from bayplan.plugins.taint_toleration import TaintToleration
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

REPELLED = Status.unresolvable("node(s) had untolerated taint(s)")


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        pytest.param(make_pod(), make_node(), SUCCESS, id="no-taints"),
        pytest.param(make_pod(), make_node().taint("k"), REPELLED, id="no-tolerations"),
        pytest.param(
            make_pod(), make_node().taint("k", effect="NoExecute"), REPELLED, id="no-execute"
        ),
        pytest.param(
            make_pod(), make_node().taint("k", effect="PreferNoSchedule"), SUCCESS, id="prefer"
        ),
        pytest.param(
            make_pod().toleration(key="k", operator="Equal", value="v", effect="NoSchedule"),
            make_node().taint("k", "v"),
            SUCCESS,
            id="tolerated",
        ),
        pytest.param(
            make_pod().toleration(key="k", operator="Equal", value="w", effect="NoSchedule"),
            make_node().taint("k", "v"),
            REPELLED,
            id="other-value",
        ),
        pytest.param(
            make_pod().toleration(key="k", operator="Exists"),
            make_node().taint("k", "v").taint("j"),
            REPELLED,
            id="one-of-two-tolerated",
        ),
    ],
)
def test_nodes_repel_pods_that_do_not_tolerate_every_hard_taint(
    pod: PodBuilder, node: NodeBuilder, expected: Status
) -> None:
    assert filtered(make(TaintToleration), pod.obj(), table_of(node)) == {"n": expected}


def soft(name: str, *keys: str) -> NodeBuilder:
    node = make_node(name)
    for key in keys:
        node.taint(key, effect="PreferNoSchedule")
    return node


@pytest.mark.parametrize(
    ("pod", "raw", "scores"),
    [
        pytest.param(make_pod(), [0, 1, 2, 0], [100, 50, 0, 100], id="no-tolerations"),
        pytest.param(
            make_pod().toleration(key="a", operator="Exists", effect="PreferNoSchedule"),
            [0, 0, 1, 0],
            [100, 100, 0, 100],
            id="one-tolerated",
        ),
        pytest.param(
            make_pod().toleration(operator="Exists"),
            [0, 0, 0, 0],
            [100, 100, 100, 100],
            id="all-tolerated",
        ),
        pytest.param(
            make_pod().toleration(operator="Exists", effect="NoSchedule"),
            [0, 1, 2, 0],
            [100, 50, 0, 100],
            id="hard-effect-only",
        ),
    ],
)
def test_nodes_with_fewer_soft_taints_that_are_not_tolerated_score_higher(
    pod: PodBuilder, raw: list[int], scores: list[int]
) -> None:
    nodes = table_of(soft("0"), soft("1", "a"), soft("2", "a", "b"), make_node("3").taint("hard"))
    plugin = make(TaintToleration)
    names = ("0", "1", "2", "3")
    assert scored(plugin, pod.obj(), nodes) == dict(zip(names, raw, strict=True))
    assert normalized(plugin, pod.obj(), nodes) == dict(zip(names, scores, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, make_node(), Hint.QUEUE, id="new-node"),
        pytest.param(None, make_node().taint("k"), Hint.SKIP, id="new-tainted-node"),
        pytest.param(make_node().taint("k"), make_node(), Hint.QUEUE, id="taint-gone"),
        pytest.param(
            make_node().taint("k"), make_node().taint("j"), Hint.SKIP, id="still-repelling"
        ),
        pytest.param(make_node(), make_node(), Hint.SKIP, id="never-repelled"),
        pytest.param(
            make_node().taint("k"), make_node().taint("ok"), Hint.QUEUE, id="now-tolerated"
        ),
    ],
)
def test_a_pod_is_woken_by_a_node_that_stops_repelling_it(
    old: NodeBuilder | None, new: NodeBuilder, expected: Hint
) -> None:
    pod = make_pod().toleration(key="ok", operator="Exists").obj()
    before = old.obj() if old else None
    action = Action.UPDATE_NODE_TAINT if old else Action.ADD
    plugin = make(TaintToleration)
    assert hint(plugin, NODE, action, pod, before, new.obj()) is expected


def test_a_pod_is_woken_by_any_toleration_of_its_own() -> None:
    plugin, action = make(TaintToleration), Action.UPDATE_POD_TOLERATION
    pod = make_pod().obj()
    assert hint(plugin, Resource.TARGET_POD, action, pod, pod, pod) is Hint.QUEUE
    assert hint(plugin, Resource.ASSIGNED_POD, action, pod, pod, pod) is None
