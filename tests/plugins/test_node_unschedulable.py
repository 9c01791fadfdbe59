from __future__ import annotations

import pytest
from tests.plugins.harness import filtered, hint, make, table_of

from bayplan.api.kinds import NODE
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.status import SUCCESS, Status
from bayplan.plugins.node_unschedulable import NodeUnschedulable
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

CORDONED = Status.unresolvable("node(s) were unschedulable")
KEY = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(), CORDONED, id="no-toleration"),
        pytest.param(
            make_pod().toleration(key=KEY, operator="Exists", effect="NoSchedule"),
            SUCCESS,
            id="tolerates-the-taint",
        ),
        pytest.param(make_pod().toleration(operator="Exists"), SUCCESS, id="tolerates-all"),
        pytest.param(
            make_pod().toleration(key=KEY, operator="Exists", effect="NoExecute"),
            CORDONED,
            id="tolerates-another-effect",
        ),
    ],
)
def test_a_cordoned_node_takes_only_pods_that_tolerate_the_cordon(
    pod: PodBuilder, expected: Status
) -> None:
    nodes = table_of(make_node("open"), make_node("cordoned").unschedulable())
    statuses = filtered(make(NodeUnschedulable), pod.obj(), nodes)
    assert statuses == {"open": SUCCESS, "cordoned": expected}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, make_node(), Hint.QUEUE, id="new-node"),
        pytest.param(None, make_node().unschedulable(), Hint.SKIP, id="new-cordoned-node"),
        pytest.param(make_node().unschedulable(), make_node(), Hint.QUEUE, id="uncordoned"),
        pytest.param(make_node(), make_node().unschedulable(), Hint.SKIP, id="just-cordoned"),
        pytest.param(make_node(), make_node().taint("a"), Hint.SKIP, id="was-open"),
        pytest.param(
            make_node().unschedulable(), make_node().unschedulable(), Hint.SKIP, id="still-cordoned"
        ),
    ],
)
def test_a_pod_is_woken_by_a_node_that_is_open_now(
    old: NodeBuilder | None, new: NodeBuilder, expected: Hint
) -> None:
    before = old.obj() if old else None
    plugin, pod = make(NodeUnschedulable), make_pod().obj()
    action = Action.UPDATE_NODE_TAINT if old else Action.ADD
    assert hint(plugin, NODE, action, pod, before, new.obj()) is expected


@pytest.mark.parametrize(("key", "expected"), [(KEY, Hint.QUEUE), ("other", Hint.SKIP)])
def test_a_pod_is_woken_by_a_toleration_of_its_own_for_the_cordon(key: str, expected: Hint) -> None:
    pod = make_pod().obj()
    new = make_pod().toleration(key=key, operator="Exists").obj()
    plugin, action = make(NodeUnschedulable), Action.UPDATE_POD_TOLERATION
    assert hint(plugin, Resource.TARGET_POD, action, pod, pod, new) is expected
