"""Statuses, cycle state, cluster events, PreFilter results: small values with rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayplan.api.kinds import CSI_NODE, NODE, SERVICE
from bayplan.framework.cluster_events import Action, ClusterEvent, Resource
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.interface import Normalizer, PreFilterResult
from bayplan.framework.status import SUCCESS, Code, Status


@pytest.mark.parametrize(
    ("status", "name", "ok", "rejected"),
    [
        (Status(), "Success", True, False),
        (Status.error("x"), "Error", False, False),
        (Status.unschedulable("x"), "Unschedulable", False, True),
        (Status.unresolvable("x"), "UnschedulableAndUnresolvable", False, True),
        (Status.pending("x"), "Pending", False, True),
        (Status(Code.WAIT), "Wait", False, False),
        (Status(Code.SKIP), "Skip", False, False),
    ],
    ids=str,
)
def test_a_status_succeeds_rejects_or_is_something_else(
    status: Status, name: str, ok: bool, rejected: bool
) -> None:
    assert (str(status.code), status.ok, status.rejected) == (name, ok, rejected)


def test_the_first_plugin_named_stays() -> None:
    status = Status.unschedulable("a", "b").by("First")
    assert status.by("Second").plugin == "First"
    assert status.message == "a, b"
    assert SUCCESS.plugin == ""


class Deltas:
    """A plugin's state that knows how to be tried out."""

    def __init__(self, rows: Any = None) -> None:
        self.rows = rows

    def what_if(self, rows: Any) -> Deltas:
        """A copy for these rows."""
        return Deltas(rows)


def test_a_cycle_state_is_copied_as_deep_as_its_values_ask_for() -> None:
    state = CycleState()
    shared, deltas = object(), Deltas()
    state.write("a", shared)
    state.write("b", deltas)
    state.skip_filter.add("X")
    state.skip_score.add("Y")
    state.skip_pre_bind.add("Z")
    copy = state.what_if(np.array([3]))
    assert copy.read("a", object) is shared
    assert copy.read("b", object) is not deltas
    assert copy.read("b", Deltas).rows.tolist() == [3]
    assert (copy.skip_filter, copy.skip_score) == ({"X"}, {"Y"})
    copy.write("a", 1)
    copy.skip_filter.add("other")
    assert state.read("a", object) is shared
    assert state.skip_filter == {"X"}
    assert state.get("c", int) is None
    with pytest.raises(TypeError, match='"a" in cycleState is a object, not a int'):
        state.read("a", int)
    with pytest.raises(MissingStateError, match='error reading "c" from cycleState: not found'):
        state.read("c", int)


POD = Resource.ASSIGNED_POD
ANY = ClusterEvent(Resource.ANY, Action.ALL)


@pytest.mark.parametrize(
    ("pattern", "event", "matches"),
    [
        (ClusterEvent(NODE, Action.ADD), ClusterEvent(NODE, Action.ADD), True),
        (ClusterEvent(NODE, Action.ADD), ClusterEvent(NODE, Action.DELETE), False),
        (ClusterEvent(NODE, Action.ADD), ClusterEvent(POD, Action.ADD), False),
        (ClusterEvent(NODE, Action.UPDATE), ClusterEvent(NODE, Action.UPDATE_NODE_LABEL), True),
        (
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
            ClusterEvent(NODE, Action.UPDATE_NODE_TAINT),
            True,
        ),
        (ClusterEvent(Resource.ANY, Action.ADD), ClusterEvent(POD, Action.ADD), True),
        (ANY, ClusterEvent(POD, Action.UPDATE_POD_LABEL), True),
        (ANY, ANY, True),
        (ClusterEvent(NODE, Action.ALL), ANY, False),
        (
            ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE),
            ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL),
            False,
        ),
        (
            ClusterEvent(Resource.TARGET_POD, Action.UPDATE),
            ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
            False,
        ),
    ],
)
def test_a_pattern_matches_events(
    pattern: ClusterEvent, event: ClusterEvent, matches: bool
) -> None:
    assert pattern.matches(event) is matches


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ClusterEvent(NODE, Action.ADD), "NodeAdd"),
        (ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(POD, Action.DELETE), "AssignedPodDelete"),
        (ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_OTHER), "TargetPodUpdate"),
        (ClusterEvent(CSI_NODE, Action.ADD), "storage.k8s.io/CSINodeAdd"),
        (ClusterEvent(SERVICE, Action.UPDATE_OTHER), "ServiceUpdate"),
        (ClusterEvent(Resource.ANY, Action.ALL, "ForceActivate"), "ForceActivate"),
    ],
)
def test_events_have_the_names_that_metrics_use(event: ClusterEvent, label: str) -> None:
    assert event.label == label


@pytest.mark.parametrize("names", [["a", "b"], {"a", "b"}, ("b", "a"), frozenset({"a", "b"})])
def test_any_collection_names_the_nodes_of_a_pre_filter_result(names: Any) -> None:
    assert PreFilterResult(names).node_names == frozenset({"a", "b"})


def test_no_names_mean_all_nodes() -> None:
    assert PreFilterResult().node_names is None


@pytest.mark.parametrize(("reverse", "expected"), [(False, 0), (True, 100)])
def test_a_single_score_is_normalized_like_many(reverse: bool, expected: int) -> None:
    assert Normalizer(reverse=reverse)(np.asarray(0), 0).tolist() == expected
    assert Normalizer(reverse=reverse)(np.zeros(2, np.int64), 0).tolist() == [expected] * 2
