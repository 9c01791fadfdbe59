from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.clusters import HOSTNAME, ZONE, filtered, scores
from tests.plugins.harness import PluginWorld, hint
from tests.plugins.inter_pod_affinity.reference import OK, REPELLED, RESISTED, UNMET

from bayplan.api.kinds import NAMESPACE, NODE
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.inter_pod_affinity import InterPodAffinity
from bayplan.testing import (
    NodeBuilder,
    PodBuilder,
    labels_are,
    make_node,
    make_object,
    make_pod,
    requirement,
)

WEB = labels_are({"app": "web"})
DB = labels_are({"app": "db"})


def node(name: str, zone: str = "") -> NodeBuilder:
    built = make_node(name).label(HOSTNAME, name)
    return built.label(ZONE, zone) if zone else built


def pod(app: str = "", name: str = "p") -> PodBuilder:
    return make_pod(name).label("app", app) if app else make_pod(name)


def cluster(*placed: tuple[PodBuilder, str]) -> PluginWorld:
    """Two nodes in zone z1, one in z2, one in no zone."""
    made = PluginWorld(node("a1", "z1"), node("a2", "z1"), node("b1", "z2"), node("c1"))
    for built, name in placed:
        made.place(built, name)
    return made


def verdicts(a1: Any, a2: Any, b1: Any, c1: Any) -> dict[str, tuple[str, str]]:
    return {"a1": a1, "a2": a2, "b1": b1, "c1": c1}


@pytest.mark.parametrize(
    ("incoming", "placed", "expected"),
    [
        pytest.param(pod(), [], None, id="no-terms-anywhere"),
        pytest.param(pod(), [(pod("web"), "a1")], None, id="no-terms-but-pods"),
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            [(pod("db"), "a1")],
            verdicts(OK, OK, UNMET, UNMET),
            id="affinity-holds-for-the-whole-domain",
        ),
        pytest.param(
            pod().pod_affinity(HOSTNAME, DB),
            [(pod("db").terminating(), "a1")],
            verdicts(OK, UNMET, UNMET, UNMET),
            id="terminating-pods-count",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            [],
            verdicts(UNMET, UNMET, UNMET, UNMET),
            id="nobody-to-be-near",
        ),
        pytest.param(
            pod("db").pod_affinity(ZONE, DB),
            [],
            verdicts(OK, OK, OK, UNMET),
            id="the-first-of-its-group-needs-only-the-label",
        ),
        pytest.param(
            pod("db").pod_affinity(ZONE, DB),
            [(pod("db"), "b1")],
            verdicts(UNMET, UNMET, OK, UNMET),
            id="the-second-of-its-group-follows",
        ),
        pytest.param(
            pod("db").pod_affinity(ZONE, DB),
            [(pod("db"), "c1")],
            verdicts(OK, OK, OK, UNMET),
            id="a-match-outside-all-domains-is-none",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB).pod_affinity(HOSTNAME, WEB),
            [(pod("db"), "a1"), (pod("web"), "a1")],
            verdicts(UNMET, UNMET, UNMET, UNMET),
            id="one-pod-must-meet-all-terms",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB).pod_affinity(HOSTNAME, labels_are({"tier": "x"})),
            [(pod("db").label("tier", "x"), "a1")],
            verdicts(OK, UNMET, UNMET, UNMET),
            id="one-pod-meets-all-terms",
        ),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB),
            [(pod("db"), "a1")],
            verdicts(REPELLED, REPELLED, OK, OK),
            id="anti-affinity-leaves-nodes-without-the-label",
        ),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB).pod_anti_affinity(ZONE, WEB),
            [(pod("db"), "a1"), (pod("web"), "b1")],
            verdicts(REPELLED, REPELLED, REPELLED, OK),
            id="any-anti-affinity-term-rejects",
        ),
        pytest.param(
            pod("web"),
            [(pod("db").pod_anti_affinity(ZONE, WEB), "a1")],
            verdicts(RESISTED, RESISTED, OK, OK),
            id="anti-affinity-of-a-pod-that-is-there",
        ),
        pytest.param(
            pod("web"),
            [(pod("db").pod_anti_affinity(ZONE, WEB), "c1")],
            None,
            id="anti-affinity-of-a-pod-outside-all-domains",
        ),
        pytest.param(
            pod("web").pod_anti_affinity(HOSTNAME, DB).pod_affinity(ZONE, DB),
            [(pod("db").pod_anti_affinity(ZONE, WEB), "a1")],
            verdicts(REPELLED, RESISTED, UNMET, UNMET),
            id="affinity-is-told-before-anti-affinity-before-existing-pods",
        ),
        pytest.param(
            pod().pod_affinity(HOSTNAME, None),
            [(pod("db"), "a1")],
            verdicts(UNMET, UNMET, UNMET, UNMET),
            id="no-selector-means-no-pod",
        ),
        pytest.param(
            pod("web").pod_anti_affinity(HOSTNAME, DB, namespaces=["other"]),
            [(pod("db"), "a1"), (pod("db").namespace("other"), "b1")],
            verdicts(OK, OK, REPELLED, OK),
            id="named-namespaces-replace-the-own",
        ),
        pytest.param(
            pod("web").pod_anti_affinity(HOSTNAME, DB, namespaceSelector={}),
            [(pod("db"), "a1"), (pod("db").namespace("other"), "b1")],
            verdicts(REPELLED, OK, REPELLED, OK),
            id="an-empty-namespace-selector-means-all",
        ),
    ],
)
def test_required_terms_decide_where_a_pod_may_go(
    incoming: PodBuilder, placed: list[tuple[PodBuilder, str]], expected: Any
) -> None:
    made = cluster(*placed)
    assert filtered(made.make(InterPodAffinity), incoming.obj(), made.nodes) == expected


TEAM = labels_are({"team": "t1"})
NOT_TEAM = labels_are(None, requirement("team", "NotIn", "t1"))


@pytest.mark.parametrize(
    ("selector", "own_term", "rejected"),
    [
        pytest.param(TEAM, True, True, id="own-term-selects-the-labels"),
        pytest.param(NOT_TEAM, True, False, id="own-term-goes-by-the-real-labels"),
        pytest.param(TEAM, False, True, id="existing-term-selects-the-labels"),
        pytest.param(NOT_TEAM, False, False, id="existing-term-goes-by-the-real-labels"),
    ],
)
def test_namespace_selectors_select_by_the_labels_of_the_namespace(
    selector: Any, own_term: bool, rejected: bool
) -> None:
    made = cluster()
    made.add(make_object(NAMESPACE, "there").label("team", "t1"))
    made.add(make_object(NAMESPACE, "here").label("team", "t1"))
    avoiding = pod("web").namespace("here")
    avoiding.pod_anti_affinity(HOSTNAME, labels_are(), namespaceSelector=selector)
    other = pod("db").namespace("there")
    made.place(other if own_term else avoiding, "a1")
    incoming = (avoiding if own_term else other).obj()
    found = filtered(made.make(InterPodAffinity), incoming, made.nodes)
    assert (found is not None and found["a1"] != OK) == rejected


def test_labels_of_a_namespace_may_change_at_any_time() -> None:
    made = cluster((pod("db").namespace("there"), "a1"))
    plugin = made.make(InterPodAffinity)
    incoming = pod().pod_anti_affinity(HOSTNAME, DB, namespaceSelector=TEAM).obj()
    resisting = pod("web").pod_anti_affinity(HOSTNAME, labels_are(), namespaceSelector=TEAM)
    made.place(resisting.namespace("elsewhere"), "b1")
    before = filtered(plugin, incoming, made.nodes)
    made.add(make_object(NAMESPACE, "there").label("team", "t1"))
    made.add(make_object(NAMESPACE, "default").label("team", "t1"))
    after = filtered(plugin, incoming, made.nodes)
    made.objects.remove(NAMESPACE, "there")
    made.objects.remove(NAMESPACE, "default")
    assert before == filtered(plugin, incoming, made.nodes) == verdicts(OK, OK, OK, OK)
    assert after == verdicts(REPELLED, OK, RESISTED, OK)


BAD = {"matchExpressions": [{"key": "k", "operator": "Like", "values": ["v"]}]}


def test_a_selector_that_cannot_be_read_rejects_the_pod() -> None:
    made = cluster()
    plugin = made.make(InterPodAffinity)
    one = pod().pod_affinity(ZONE, BAD).obj()
    status = plugin.pre_filter(CycleState(), one, made.nodes)
    why = '"Like" is not a valid label selector operator'
    assert status == Status.unresolvable(f"parsing pod: requiredAffinityTerms: {why}")
    two = pod().preferred_pod_affinity(1, ZONE, BAD).preferred_pod_anti_affinity(1, ZONE, BAD).obj()
    status = plugin.pre_score(CycleState(), two, made.nodes, made.nodes.exists)
    assert status == Status.error(
        f"failed to parse pod: [preferredAffinityTerms: {why}, preferredAntiAffinityTerms: {why}]"
    )


@pytest.mark.parametrize(
    ("incoming", "placed", "args", "expected"),
    [
        pytest.param(pod(), [], {}, None, id="nothing-anywhere"),
        pytest.param(pod().preferred_pod_affinity(5, ZONE, DB), [], {}, None, id="nobody-liked"),
        pytest.param(
            pod().preferred_pod_affinity(5, ZONE, DB),
            [(pod("db"), "c1")],
            {},
            None,
            id="only-outside-all-domains",
        ),
        pytest.param(
            pod().preferred_pod_affinity(5, ZONE, DB),
            [(pod("db"), "a1"), (pod("db"), "a2")],
            {},
            ([10, 10, 0, 0], [100, 100, 0, 0]),
            id="own-preference-counts-pods",
        ),
        pytest.param(
            pod().preferred_pod_anti_affinity(5, HOSTNAME, DB),
            [(pod("db"), "a1"), (pod("db").terminating(), "a1"), (pod("db"), "a2")],
            {},
            ([-10, -5, 0, 0], [0, 50, 100, 100]),
            id="own-dislike",
        ),
        pytest.param(
            pod("web"),
            [(pod("db").preferred_pod_affinity(7, ZONE, WEB), "a1")],
            {},
            ([7, 7, 0, 0], [100, 100, 0, 0]),
            id="an-existing-pod-likes-it",
        ),
        pytest.param(
            pod("web"),
            [(pod("db").preferred_pod_anti_affinity(7, ZONE, WEB), "a1")],
            {},
            ([-7, -7, 0, 0], [0, 0, 100, 100]),
            id="an-existing-pod-dislikes-it",
        ),
        pytest.param(
            pod("web"),
            [(pod("db").pod_affinity(ZONE, WEB), "b1")],
            {"hardPodAffinityWeight": 3},
            ([0, 0, 3, 0], [0, 0, 100, 0]),
            id="required-affinity-of-an-existing-pod-weighs",
        ),
        pytest.param(
            pod("web"),
            [(pod("db").pod_affinity(ZONE, WEB), "b1")],
            {"hardPodAffinityWeight": 0},
            None,
            id="unless-its-weight-is-zero",
        ),
        pytest.param(
            pod("web"),
            [(pod("db").preferred_pod_affinity(7, ZONE, WEB), "a1")],
            {"ignorePreferredTermsOfExistingPods": True},
            None,
            id="existing-preferences-ignored",
        ),
        pytest.param(
            pod("web").preferred_pod_affinity(1, HOSTNAME, DB),
            [(pod("db").preferred_pod_affinity(7, ZONE, WEB), "a1")],
            {"ignorePreferredTermsOfExistingPods": True},
            ([8, 7, 0, 0], [100, 87, 0, 0]),
            id="not-ignored-where-the-pod-has-its-own",
        ),
        pytest.param(
            pod("web"),
            [
                (
                    pod("db")
                    .preferred_pod_affinity(7, ZONE, WEB)
                    .preferred_pod_anti_affinity(7, ZONE, WEB),
                    "a1",
                )
            ],
            {},
            ([0, 0, 0, 0], [0, 0, 0, 0]),
            id="opposites-cancel-but-do-not-skip",
        ),
        pytest.param(
            pod("web"),
            [
                (
                    pod("db")
                    .preferred_pod_affinity(7, ZONE, WEB)
                    .preferred_pod_affinity(7, ZONE, WEB),
                    "a1",
                )
            ],
            {},
            ([14, 14, 0, 0], [100, 100, 0, 0]),
            id="a-term-given-twice-counts-twice",
        ),
    ],
)
def test_preferred_terms_of_both_sides_score(
    incoming: PodBuilder,
    placed: list[tuple[PodBuilder, str]],
    args: dict[str, Any],
    expected: tuple[list[int], list[int]] | None,
) -> None:
    made = cluster(*placed)
    found = scores(made.make(InterPodAffinity, **args), incoming.obj(), made.nodes)
    got = found and tuple([by_node[n] for n in ("a1", "a2", "b1", "c1")] for by_node in found)
    assert got == expected


def test_a_what_if_counts_pods_of_terms_that_nobody_carried_before() -> None:
    made = cluster((pod("db"), "b1"))
    plugin = made.make(InterPodAffinity)
    incoming = pod("web").pod_affinity(HOSTNAME, DB).obj()
    rows = np.array([made.row("b1"), made.row("c1")])
    state = CycleState()
    assert plugin.pre_filter(state, incoming, made.nodes) is None
    changed, table = state.what_if(rows), made.nodes.take(rows)
    plugin.add_pod(changed, incoming, pod("x").pod_anti_affinity(HOSTNAME, WEB).obj(), table, 0)
    plugin.add_pod(changed, incoming, pod("x").pod_anti_affinity(ZONE, WEB).obj(), table, 1)
    plugin.add_pod(changed, incoming, pod("db").obj(), table, 1)
    codes = plugin.filter_nodes(changed, incoming, table).tolist()
    found = [plugin.reasons(changed, incoming, code) if code else None for code in codes]
    assert found == [Status.unschedulable(RESISTED[1]), None]


def test_only_shapes_seen_lately_keep_their_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.plugins.inter_pod_affinity.SHAPES_KEPT", 2)
    made = cluster()
    plugin = made.make(InterPodAffinity)
    for app in "abcde":
        incoming = pod(app).pod_affinity(ZONE, labels_are({"app": app}))
        incoming.pod_anti_affinity(ZONE, DB).preferred_pod_affinity(1, ZONE, WEB)
        filtered(plugin, incoming.obj(), made.nodes)
    # Each of the two kept shapes has an affinity of its own; the other two counters are shared.
    assert len(made.counters) == 4


def placed_pod(built: PodBuilder, name: str = "a1") -> Any:
    return built.uid("other").node(name).obj()


@pytest.mark.parametrize(
    ("incoming", "action", "old", "new", "expected"),
    [
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            Action.ADD,
            None,
            placed_pod(pod("db")),
            Hint.QUEUE,
            id="a-wanted-pod-came",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            Action.ADD,
            None,
            placed_pod(pod("web")),
            Hint.SKIP,
            id="an-unwanted-pod-came",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            Action.ADD,
            None,
            pod("db").obj(),
            Hint.SKIP,
            id="a-wanted-pod-is-still-pending",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            Action.ADD,
            None,
            pod("db").nominated("a1").obj(),
            Hint.QUEUE,
            id="a-wanted-pod-is-nominated",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            Action.UPDATE_POD_LABEL,
            placed_pod(pod("web")),
            placed_pod(pod("db")),
            Hint.QUEUE,
            id="a-pod-became-a-wanted-one",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB),
            Action.UPDATE_POD_LABEL,
            placed_pod(pod("db")),
            placed_pod(pod("db").label("x", "y")),
            Hint.SKIP,
            id="a-wanted-pod-stays-one",
        ),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB),
            Action.UPDATE_POD_LABEL,
            placed_pod(pod("db")),
            placed_pod(pod("web")),
            Hint.QUEUE,
            id="a-hated-pod-became-another",
        ),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB),
            Action.DELETE,
            placed_pod(pod("db")),
            None,
            Hint.QUEUE,
            id="a-hated-pod-went",
        ),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB).pod_anti_affinity(ZONE, WEB),
            Action.DELETE,
            placed_pod(pod("db")),
            None,
            Hint.QUEUE,
            id="a-pod-that-one-of-two-terms-hates-went",
        ),
        pytest.param(
            pod("web"),
            Action.DELETE,
            placed_pod(pod("db").pod_anti_affinity(ZONE, WEB)),
            None,
            Hint.QUEUE,
            id="a-pod-that-hated-it-went",
        ),
        pytest.param(
            pod("web").pod_affinity(ZONE, DB),
            Action.DELETE,
            placed_pod(pod("db")),
            None,
            Hint.SKIP,
            id="a-wanted-pod-went",
        ),
        pytest.param(
            pod().pod_affinity(ZONE, BAD),
            Action.ADD,
            None,
            placed_pod(pod("db")),
            Hint.QUEUE,
            id="terms-that-cannot-be-read",
        ),
    ],
)
def test_pods_wake_those_that_they_may_help(
    incoming: PodBuilder, action: Action, old: Any, new: Any, expected: Hint
) -> None:
    plugin = cluster().make(InterPodAffinity)
    assert hint(plugin, Resource.ASSIGNED_POD, action, incoming.obj(), old, new) is expected


def test_a_pod_whose_own_labels_changed_is_tried_again() -> None:
    plugin = cluster().make(InterPodAffinity)
    old, new = pod("web").uid("u").obj(), pod("db").uid("u").obj()
    answer = hint(plugin, Resource.TARGET_POD, Action.UPDATE_POD_LABEL, new, old, new)
    assert answer is Hint.QUEUE


@pytest.mark.parametrize(
    ("incoming", "old", "new", "expected"),
    [
        pytest.param(pod().pod_affinity(ZONE, DB), None, node("n", "z1"), Hint.QUEUE, id="added"),
        pytest.param(pod().pod_affinity(ZONE, DB), None, node("n"), Hint.SKIP, id="without-key"),
        pytest.param(
            pod().pod_affinity(ZONE, DB), node("n"), node("n", "z1"), Hint.QUEUE, id="got-key"
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB), node("n", "z1"), node("n", "z2"), Hint.QUEUE, id="moved"
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB), node("n", "z1"), node("n", "z1"), Hint.SKIP, id="same"
        ),
        pytest.param(
            pod().pod_affinity(ZONE, DB), node("n", "z1"), node("n"), Hint.SKIP, id="lost-key"
        ),
        pytest.param(pod().pod_anti_affinity(ZONE, DB), None, node("n"), Hint.QUEUE, id="anti-add"),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB), node("n", "z1"), node("n"), Hint.QUEUE, id="anti-out"
        ),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB), node("n"), node("n", "z1"), Hint.SKIP, id="anti-in"
        ),
        pytest.param(
            pod().pod_anti_affinity(ZONE, DB),
            node("n", "z1"),
            node("n", "z2"),
            Hint.QUEUE,
            id="anti-moved",
        ),
        pytest.param(pod(), None, node("n", "z1"), Hint.SKIP, id="no-terms"),
    ],
)
def test_nodes_wake_those_that_they_may_help(
    incoming: PodBuilder, old: NodeBuilder | None, new: NodeBuilder, expected: Hint
) -> None:
    plugin = cluster().make(InterPodAffinity)
    action = Action.UPDATE_NODE_LABEL if old else Action.ADD
    before = old.obj() if old else None
    assert hint(plugin, NODE, action, incoming.obj(), before, new.obj()) is expected


def test_a_pod_that_no_term_is_about_is_skipped_at_both_points() -> None:
    made = cluster((pod("db").pod_anti_affinity(ZONE, WEB), "a1"))
    plugin, bystander = made.make(InterPodAffinity), pod("other").obj()
    assert plugin.pre_filter(CycleState(), bystander, made.nodes) == SKIP
    assert plugin.pre_score(CycleState(), bystander, made.nodes, made.nodes.exists) == SKIP
