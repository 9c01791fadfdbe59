from __future__ import annotations

import pytest
from tests.plugins.harness import filtered, hint, make, pre_filtered, table_of

from bayplan.api.kinds import NODE
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.status import SKIP, SUCCESS, Status
from bayplan.plugins.node_declared_features import NodeDeclaredFeatures
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

LACKING = Status.unresolvable("node(s) didn't match Pod's required features")
RESTARTS = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


def restarting() -> PodBuilder:
    return make_pod().container(restartPolicyRules=[RULE])


def host_users() -> PodBuilder:
    return make_pod().spec(hostNetwork=True, hostUsers=False)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(), id="plain"),
        pytest.param(make_pod().spec(hostNetwork=True), id="host-network-alone"),
        pytest.param(make_pod().spec(hostUsers=False), id="user-namespace-alone"),
        pytest.param(make_pod().spec(hostNetwork=True, hostUsers=True), id="host-users"),
        pytest.param(
            make_pod().container(restartPolicyRules=[{"action": "Restart"}]), id="restarts-itself"
        ),
    ],
)
def test_a_pod_that_needs_no_feature_skips_the_filter(pod: PodBuilder) -> None:
    assert pre_filtered(make(NodeDeclaredFeatures), pod.obj(), table_of(make_node())) is SKIP


@pytest.mark.parametrize(
    ("pod", "fitting"),
    [
        pytest.param(restarting(), {"restarts", "both"}, id="container-rule"),
        pytest.param(
            make_pod().init_container(restartPolicyRules=[RULE]),
            {"restarts", "both"},
            id="init-container-rule",
        ),
        pytest.param(host_users(), {"users", "both"}, id="user-namespace-on-host-network"),
        pytest.param(
            host_users().container(restartPolicyRules=[RULE]), {"both"}, id="two-features"
        ),
    ],
)
def test_a_pod_goes_where_every_feature_it_needs_is_declared(
    pod: PodBuilder, fitting: set[str]
) -> None:
    nodes = table_of(
        make_node("none"),
        make_node("restarts").features(RESTARTS, "Another"),
        make_node("users").features(USERS),
        make_node("both").features(USERS, RESTARTS),
    )
    statuses = filtered(make(NodeDeclaredFeatures), pod.obj(), nodes)
    assert {name for name, status in statuses.items() if status == SUCCESS} == fitting
    assert set(statuses.values()) == {SUCCESS, LACKING}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, make_node(), Hint.QUEUE, id="new-node"),
        pytest.param(make_node(), make_node().features(USERS), Hint.QUEUE, id="declares-more"),
        pytest.param(
            make_node().features(USERS), make_node().features(USERS), Hint.SKIP, id="the-same"
        ),
    ],
)
def test_a_pod_is_woken_by_a_node_that_declares_other_features(
    old: NodeBuilder | None, new: NodeBuilder, expected: Hint
) -> None:
    before = old.obj() if old else None
    action = Action.UPDATE_NODE_DECLARED_FEATURE if old else Action.ADD
    plugin, pod = make(NodeDeclaredFeatures), restarting().obj()
    assert hint(plugin, NODE, action, pod, before, new.obj()) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(restarting(), make_pod(), Hint.QUEUE, id="needs-less"),
        pytest.param(restarting(), restarting().label("a", "b"), Hint.SKIP, id="needs-the-same"),
    ],
)
def test_a_pod_is_woken_when_its_own_needs_change(
    old: PodBuilder, new: PodBuilder, expected: Hint
) -> None:
    plugin, action = make(NodeDeclaredFeatures), Action.UPDATE_POD_LABEL
    pod, changed = old.uid("mine").obj(), new.uid("mine").obj()
    assert hint(plugin, Resource.TARGET_POD, action, pod, pod, changed) is expected
