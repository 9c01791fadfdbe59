from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.harness import (
    filtered,
    hint,
    make,
    normalized,
    pre_filtered,
    scored,
    table_of,
)

from bayplan.api.kinds import NODE
from bayplan.framework.cluster_events import Action, Hint
from bayplan.framework.interface import PreFilterResult
from bayplan.framework.status import SKIP, SUCCESS, Code, Status
from bayplan.plugins.node_affinity import NodeAffinity
from bayplan.testing import (
    NodeBuilder,
    PodBuilder,
    expressions,
    fields,
    make_node,
    make_pod,
    requirement,
)

UNMATCHED = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = Status.unresolvable("pod affinity terms conflict")

NODES = table_of(
    make_node("a").label("zone", "x"), make_node("b").label("zone", "y"), make_node("c")
)
ZONE_X = expressions(requirement("zone", "In", "x"))
ZONED = expressions(requirement("zone", "Exists"))


def added(**affinity: Any) -> NodeAffinity:
    return make(NodeAffinity, addedAffinity=affinity)


def named(*names: str) -> dict[str, Any]:
    return requirement("metadata.name", "In", *names)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(), SKIP, id="nothing-required"),
        pytest.param(make_pod().preferred_node_affinity(1, ZONED), SKIP, id="only-preferred"),
        pytest.param(make_pod().pod_affinity("zone", {}), SKIP, id="other-affinity"),
        pytest.param(make_pod().node_selector({"a": "b"}), PreFilterResult(None), id="selector"),
        pytest.param(make_pod().node_affinity(ZONED), PreFilterResult(None), id="labels-only"),
        pytest.param(make_pod().node_affinity(), PreFilterResult(None), id="no-terms"),
        pytest.param(
            make_pod().node_affinity(fields(named("a"))),
            PreFilterResult(frozenset({"a"})),
            id="one-name",
        ),
        pytest.param(
            make_pod().node_affinity(fields(named("a")), fields(named("b"), named("b", "c"))),
            PreFilterResult(frozenset({"a", "b"})),
            id="names-of-all-terms",
        ),
        pytest.param(
            make_pod().node_affinity(fields(named("a")), ZONED),
            PreFilterResult(None),
            id="one-term-without-names",
        ),
        pytest.param(
            make_pod().node_affinity(fields(requirement("metadata.name", "NotIn", "a"))),
            PreFilterResult(None),
            id="not-this-name",
        ),
        pytest.param(
            make_pod().node_affinity(fields(named("a"), named("b"))), CONFLICT, id="conflict"
        ),
        pytest.param(
            make_pod().node_affinity(fields(named("a"), named("b")), fields(named("c"))),
            PreFilterResult(frozenset({"c"})),
            id="conflict-in-one-term",
        ),
    ],
)
def test_pre_filter_names_the_nodes_that_affinity_names(
    pod: PodBuilder, expected: PreFilterResult | Status
) -> None:
    assert pre_filtered(make(NodeAffinity), pod.obj(), NODES) == expected


def test_with_added_affinity_no_pod_is_skipped() -> None:
    required = {"nodeSelectorTerms": [ZONED]}
    plugin = added(requiredDuringSchedulingIgnoredDuringExecution=required)
    assert pre_filtered(plugin, make_pod().obj(), NODES) == PreFilterResult(None)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(), [SUCCESS, SUCCESS, SUCCESS], id="nothing-required"),
        pytest.param(
            make_pod().node_selector({"zone": "x"}), [SUCCESS, UNMATCHED, UNMATCHED], id="selector"
        ),
        pytest.param(make_pod().node_affinity(ZONED), [SUCCESS, SUCCESS, UNMATCHED], id="affinity"),
        pytest.param(
            make_pod().node_affinity(expressions(requirement("zone", "Gt", "x"))),
            [UNMATCHED, UNMATCHED, UNMATCHED],
            id="faulty",
        ),
    ],
)
def test_nodes_must_match_selector_and_required_affinity(
    pod: PodBuilder, expected: list[Status]
) -> None:
    statuses = filtered(make(NodeAffinity), pod.obj(), NODES)
    assert statuses == dict(zip("abc", expected, strict=True))


def test_added_affinity_comes_first_among_the_reasons() -> None:
    required = {"nodeSelectorTerms": [ZONED]}
    plugin = added(requiredDuringSchedulingIgnoredDuringExecution=required)
    statuses = filtered(plugin, make_pod().node_affinity(ZONE_X).obj(), NODES)
    assert statuses == {"a": SUCCESS, "b": UNMATCHED, "c": ENFORCED}
    assert filtered(plugin, make_pod().obj(), NODES) == {"a": SUCCESS, "b": SUCCESS, "c": ENFORCED}


def test_without_preferences_score_is_skipped() -> None:
    pod = make_pod().node_affinity(ZONED).obj()
    assert scored(make(NodeAffinity), pod, NODES) is SKIP
    assert scored(make(NodeAffinity), make_pod().obj(), NODES) is SKIP


def test_nodes_score_by_the_weights_of_the_terms_that_match() -> None:
    pod = make_pod().preferred_node_affinity(3, ZONED).preferred_node_affinity(5, ZONE_X).obj()
    assert scored(make(NodeAffinity), pod, NODES) == {"a": 8, "b": 3, "c": 0}
    assert normalized(make(NodeAffinity), pod, NODES) == {"a": 100, "b": 37, "c": 0}


def test_added_preferences_count_beside_the_pods_own() -> None:
    terms = [{"weight": 2, "preference": ZONED}]
    plugin = added(preferredDuringSchedulingIgnoredDuringExecution=terms)
    assert scored(plugin, make_pod().obj(), NODES) == {"a": 2, "b": 2, "c": 0}
    pod = make_pod().preferred_node_affinity(5, ZONE_X).obj()
    assert scored(plugin, pod, NODES) == {"a": 7, "b": 2, "c": 0}


def test_a_faulty_preference_fails_the_attempt() -> None:
    pod = make_pod().preferred_node_affinity(1, expressions(requirement("zone", "Gt", "x"))).obj()
    status = scored(make(NodeAffinity), pod, NODES)
    assert isinstance(status, Status)
    assert status.code is Code.ERROR
    assert status.message == (
        "[0].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the "
        "value must be an integer"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, make_node().label("zone", "x"), Hint.QUEUE, id="new-match"),
        pytest.param(None, make_node().label("zone", "y"), Hint.SKIP, id="new-mismatch"),
        pytest.param(
            make_node().label("zone", "y"),
            make_node().label("zone", "x"),
            Hint.QUEUE,
            id="matches-now",
        ),
        pytest.param(
            make_node().label("zone", "x"),
            make_node().label("zone", "x").label("a", "b"),
            Hint.SKIP,
            id="matched-before",
        ),
        pytest.param(make_node().label("zone", "x"), make_node(), Hint.SKIP, id="matches-no-more"),
    ],
)
def test_a_pod_is_woken_by_a_node_that_matches_now(
    old: NodeBuilder | None, new: NodeBuilder, expected: Hint
) -> None:
    pod = make_pod().node_affinity(ZONE_X).obj()
    before = old.obj() if old else None
    action = Action.UPDATE_NODE_LABEL if old else Action.ADD
    assert hint(make(NodeAffinity), NODE, action, pod, before, new.obj()) is expected


def test_a_node_that_the_added_affinity_rules_out_wakes_nobody() -> None:
    required = {"nodeSelectorTerms": [expressions(requirement("ours", "Exists"))]}
    plugin = added(requiredDuringSchedulingIgnoredDuringExecution=required)
    pod, theirs = make_pod().obj(), make_node().obj()
    assert hint(plugin, NODE, Action.ADD, pod, None, theirs) is Hint.SKIP
    ours = make_node().label("ours").obj()
    assert hint(plugin, NODE, Action.ADD, pod, None, ours) is Hint.QUEUE
