from __future__ import annotations

import pytest

from bayplan.api.kinds import CSI_NODE, NODE, SERVICE
from bayplan.framework.cluster_events import Action, ClusterEvent, Resource
from bayplan.queue.update_events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    node_update_events,
    pod_update_events,
)
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod


def base_pod() -> PodBuilder:
    return make_pod("p").uid("p").label("a", "1").req(cpu="1", memory="1Gi")


GATED = {"schedulingGates": [{"name": "g"}]}
TWO_GATES = {"schedulingGates": [{"name": "g"}, {"name": "h"}]}
TOLERATION = {"tolerations": [{"key": "k", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        pytest.param(base_pod(), base_pod(), [Action.UPDATE_POD_OTHER], id="nothing that matters"),
        pytest.param(
            base_pod(), base_pod().phase("Running"), [Action.UPDATE_POD_OTHER], id="status"
        ),
        pytest.param(
            base_pod(), base_pod().label("b", "2"), [Action.UPDATE_POD_LABEL], id="label added"
        ),
        pytest.param(
            base_pod(), base_pod().label("a", "2"), [Action.UPDATE_POD_LABEL], id="label changed"
        ),
        pytest.param(
            make_pod("p").req(cpu="2"),
            make_pod("p").req(cpu="1"),
            [Action.UPDATE_POD_SCALE_DOWN],
            id="request lowered",
        ),
        pytest.param(
            make_pod("p").req(cpu="1"),
            make_pod("p").req(cpu="2"),
            [Action.UPDATE_POD_SCALE_UP],
            id="request raised",
        ),
        pytest.param(
            make_pod("p").req(cpu="1", memory="1Gi"),
            make_pod("p").req(cpu="1"),
            [Action.UPDATE_POD_SCALE_DOWN],
            id="request removed",
        ),
        pytest.param(
            base_pod().spec(**GATED),
            base_pod(),
            [Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED],
            id="last gate removed",
        ),
        pytest.param(
            base_pod().spec(**TWO_GATES),
            base_pod().spec(**GATED),
            [Action.UPDATE_POD_OTHER],
            id="one of two gates removed",
        ),
        pytest.param(
            base_pod(),
            base_pod().spec(**TOLERATION),
            [Action.UPDATE_POD_TOLERATION],
            id="tolerates",
        ),
        pytest.param(
            base_pod().spec(**GATED),
            base_pod().label("a", "2").spec(**TOLERATION),
            [
                Action.UPDATE_POD_LABEL,
                Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                Action.UPDATE_POD_TOLERATION,
            ],
            id="several at once",
        ),
    ],
)
def test_an_update_of_a_waiting_pod_says_what_changed(
    old: PodBuilder, new: PodBuilder, actions: list[Action]
) -> None:
    found = pod_update_events(old.obj(), new.obj())
    assert [e.action for e in found] == actions
    assert {e.resource for e in found} == {Resource.TARGET_POD}


def test_a_pod_resized_in_place_on_its_node_frees_what_the_kubelet_has_given_back() -> None:
    def resized(cpu: str) -> PodBuilder:
        granted = {"name": "c1", "resources": {"requests": {"cpu": cpu}}}
        return make_pod("p").req(cpu="1").spec(nodeName="n").status(containerStatuses=[granted])

    (event,) = pod_update_events(resized("2").obj(), resized("1").obj())
    assert event == ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)


def base_node() -> NodeBuilder:
    return make_node("n").uid("n").capacity(cpu="4", memory="8Gi").label("zone", "a")


TAINTED = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        pytest.param(base_node(), base_node(), [], id="nothing"),
        pytest.param(
            base_node(),
            base_node().capacity(cpu="4000m", memory="8192Mi"),
            [],
            id="same amounts in other notations",
        ),
        pytest.param(
            base_node(),
            base_node().capacity(cpu="8", memory="8Gi"),
            [Action.UPDATE_NODE_ALLOCATABLE],
            id="allocatable",
        ),
        pytest.param(
            base_node(), base_node().label("zone", "b"), [Action.UPDATE_NODE_LABEL], id="label"
        ),
        pytest.param(
            base_node().spec(**TAINTED), base_node(), [Action.UPDATE_NODE_TAINT], id="taint"
        ),
        pytest.param(
            base_node().spec(unschedulable=True),
            base_node(),
            [Action.UPDATE_NODE_TAINT],
            id="uncordoned",
        ),
        pytest.param(base_node(), base_node().spec(unschedulable=True), [], id="cordoned"),
        pytest.param(
            base_node().spec(unschedulable=True, **TAINTED),
            base_node(),
            [Action.UPDATE_NODE_TAINT],
            id="uncordoned and its taint lifted is one event",
        ),
        pytest.param(
            base_node(),
            base_node().status(conditions=[READY]),
            [Action.UPDATE_NODE_CONDITION],
            id="condition",
        ),
        pytest.param(
            base_node().status(conditions=[READY]),
            base_node().status(conditions=[READY | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]),
            [],
            id="condition repeated",
        ),
        pytest.param(
            base_node(),
            base_node().annotation("k", "v"),
            [Action.UPDATE_NODE_ANNOTATION],
            id="annotation",
        ),
        pytest.param(
            base_node(),
            base_node().status(declaredFeatures=["f"]),
            [Action.UPDATE_NODE_DECLARED_FEATURE],
            id="declared feature",
        ),
    ],
)
def test_an_update_of_a_node_says_what_changed(
    old: NodeBuilder, new: NodeBuilder, actions: list[Action]
) -> None:
    found = node_update_events(old.obj(), new.obj())
    assert [e.action for e in found] == actions
    assert all(e.resource is NODE for e in found)


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ClusterEvent(NODE, Action.ADD), "NodeAdd"),
        (ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), "AssignedPodDelete"),
        (ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_OTHER), "AssignedPodUpdate"),
        (ClusterEvent(CSI_NODE, Action.UPDATE_OTHER), "storage.k8s.io/CSINodeUpdate"),
        (
            ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "TargetPodUpdatePodSchedulingGatesEliminated",
        ),
        (UNSCHEDULED_POD_ADD, "UnscheduledPodAdd"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (FORCE_ACTIVATE, "ForceActivate"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_events_are_called_what_kube_scheduler_calls_them(event: ClusterEvent, label: str) -> None:
    assert event.label == label


ANY = ClusterEvent(Resource.ANY, Action.ALL)


@pytest.mark.parametrize(
    ("pattern", "event", "matches"),
    [
        pytest.param(
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEvent(NODE, Action.UPDATE_NODE_LABEL),
            True,
            id="one of the actions",
        ),
        pytest.param(
            ClusterEvent(NODE, Action.ADD),
            ClusterEvent(NODE, Action.DELETE),
            False,
            id="another action",
        ),
        pytest.param(
            ClusterEvent(NODE, Action.ADD),
            ClusterEvent(SERVICE, Action.ADD),
            False,
            id="another resource",
        ),
        pytest.param(
            ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE),
            ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_OTHER),
            True,
            id="any update includes those that have no name",
        ),
        pytest.param(
            ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL),
            ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_OTHER),
            False,
            id="a certain update is not any update",
        ),
        pytest.param(
            ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
            ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL),
            False,
            id="the Pod itself is not one of the others",
        ),
        pytest.param(
            ClusterEvent(Resource.TARGET_POD, Action.ADD),
            ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD),
            False,
            id="another unscheduled Pod is not the Pod itself",
        ),
        pytest.param(ANY, ClusterEvent(NODE, Action.ADD), True, id="everything"),
        pytest.param(ANY, FORCE_ACTIVATE, True, id="everything on everything"),
        pytest.param(ClusterEvent(NODE, Action.ALL), FORCE_ACTIVATE, False, id="wildcard is apart"),
    ],
)
def test_a_pattern_matches_the_events_that_it_names(
    pattern: ClusterEvent, event: ClusterEvent, matches: bool
) -> None:
    assert pattern.matches(event) is matches
