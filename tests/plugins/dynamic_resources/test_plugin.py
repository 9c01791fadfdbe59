from __future__ import annotations

from tests.builders import make_node, make_pod
from tests.plugins.harness import make, scored, table_of

from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import FilterFailure
from bayplan.framework.status import SKIP, Code, Status
from bayplan.plugins.dynamic_resources import DynamicResources

NODES = table_of(make_node("a"), make_node("b"))


def failure() -> FilterFailure:
    return FilterFailure(NODES, statuses=None, candidates=None)  # type: ignore[arg-type]


def test_a_pod_with_resource_claims_is_turned_down_with_a_message_that_says_so() -> None:
    pod = make_pod().spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]).obj()
    status = make(DynamicResources).pre_filter(CycleState(), pod, NODES)
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert "does not support resourceClaims" in status.message


def test_without_claims_filter_is_skipped_and_every_node_scores_0() -> None:
    plugin, pod = make(DynamicResources), make_pod().obj()
    assert plugin.pre_filter(CycleState(), pod, NODES) is SKIP
    assert scored(plugin, pod, NODES) == {"a": 0, "b": 0}


def test_post_filter_has_nothing_to_say_of_a_pod_without_claims() -> None:
    plugin, pod, state = make(DynamicResources), make_pod().obj(), CycleState()
    plugin.pre_filter(state, pod, NODES)
    result = plugin.post_filter(state, pod, failure())
    assert result.status == Status.unschedulable()
    assert result.nominated_node is None


def test_post_filter_fails_when_another_plugin_ended_the_cycle_before_pre_filter() -> None:
    result = make(DynamicResources).post_filter(CycleState(), make_pod().obj(), failure())
    assert result.status == Status.error("not found")


def test_no_event_makes_a_pod_with_claims_schedulable() -> None:
    assert make(DynamicResources).events_to_register() == []
