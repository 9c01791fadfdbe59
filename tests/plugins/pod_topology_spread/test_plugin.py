from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.clusters import HOSTNAME, ZONE, answers, filtered, scores
from tests.plugins.harness import PluginWorld, hint
from tests.plugins.pod_topology_spread.reference import NO_LABEL, OK, UNEVEN

from bayplan.api.kinds import KINDS, NODE, SERVICE
from bayplan.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status
from bayplan.plugins.pod_topology_spread import PodTopologySpread
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
SOFT = "ScheduleAnyway"
NAMES = ("a1", "a2", "b1", "c1")


def node(name: str, zone: str = "") -> NodeBuilder:
    built = make_node(name).label(HOSTNAME, name)
    return built.label(ZONE, zone) if zone else built


def web(name: str = "p") -> PodBuilder:
    return make_pod(name).label("app", "web")


def cluster(**pods: int) -> PluginWorld:
    """Two nodes in zone z1, one tainted SSD node in z2, one in no zone; so many Pods on each."""
    b1 = node("b1", "z2").label("disk", "ssd").taint("dedicated")
    made = PluginWorld(node("a1", "z1"), node("a2", "z1"), b1, node("c1"))
    for name, count in pods.items():
        for i in range(count):
            made.place(web(f"{name}-{i}"), name)
    return made


def verdicts(*statuses: tuple[str, str]) -> dict[str, tuple[str, str]]:
    return dict(zip(NAMES, statuses, strict=True))


@pytest.mark.parametrize(
    ("incoming", "pods", "expected"),
    [
        pytest.param(web(), {"a1": 3}, None, id="no-constraints"),
        pytest.param(web().spread(ZONE, WEB, when=SOFT), {"a1": 3}, None, id="soft-ones-only"),
        pytest.param(
            web().spread(ZONE, WEB),
            {"a1": 1},
            verdicts(UNEVEN, UNEVEN, OK, NO_LABEL),
            id="skew-of-the-zone",
        ),
        pytest.param(
            web().spread(ZONE, WEB, max_skew=2),
            {"a1": 1, "a2": 1, "b1": 1},
            verdicts(OK, OK, OK, NO_LABEL),
            id="larger-skew",
        ),
        pytest.param(
            make_pod().spread(ZONE, WEB),
            {"a1": 1},
            verdicts(OK, OK, OK, NO_LABEL),
            id="a-pod-that-does-not-match-itself",
        ),
        pytest.param(
            web().spread(ZONE, WEB),
            {"c1": 5},
            verdicts(OK, OK, OK, NO_LABEL),
            id="nodes-without-the-key-hold-no-pods",
        ),
        pytest.param(
            web().spread(ZONE, WEB).spread(HOSTNAME, WEB),
            {"a1": 1, "b1": 1},
            verdicts(UNEVEN, OK, UNEVEN, NO_LABEL),
            id="two-constraints",
        ),
        pytest.param(
            web().spread(HOSTNAME, WEB).spread(ZONE, WEB),
            {"a1": 1, "b1": 1, "c1": 1},
            verdicts(UNEVEN, OK, UNEVEN, NO_LABEL),
            id="skew-before-a-missing-label-of-the-next-constraint",
        ),
        pytest.param(
            web().spread("rack", WEB),
            {},
            verdicts(NO_LABEL, NO_LABEL, NO_LABEL, NO_LABEL),
            id="nobody-has-the-key",
        ),
        pytest.param(
            web().spread(ZONE, WEB, minDomains=2),
            {"a1": 1, "b1": 1},
            verdicts(OK, OK, OK, NO_LABEL),
            id="enough-domains",
        ),
        pytest.param(
            web().spread(ZONE, WEB, minDomains=3),
            {"a1": 1, "b1": 1},
            verdicts(UNEVEN, UNEVEN, UNEVEN, NO_LABEL),
            id="too-few-domains-compare-with-zero",
        ),
        pytest.param(
            web().spread(ZONE, WEB).node_selector({"disk": "ssd"}),
            {"a1": 4, "b1": 1},
            verdicts(OK, OK, OK, NO_LABEL),
            id="node-selector-leaves-nodes-out",
        ),
        pytest.param(
            web().spread(ZONE, WEB, nodeAffinityPolicy="Ignore").node_selector({"disk": "ssd"}),
            {"a1": 4, "b1": 1},
            verdicts(UNEVEN, UNEVEN, OK, NO_LABEL),
            id="node-selector-ignored",
        ),
        pytest.param(
            web().spread(ZONE, WEB, nodeTaintsPolicy="Honor"),
            {"a1": 1},
            verdicts(OK, OK, OK, NO_LABEL),
            id="tainted-nodes-left-out",
        ),
        pytest.param(
            web()
            .spread(ZONE, WEB, nodeTaintsPolicy="Honor")
            .toleration(key="dedicated", operator="Exists"),
            {"a1": 1},
            verdicts(UNEVEN, UNEVEN, OK, NO_LABEL),
            id="tolerated-taints",
        ),
        pytest.param(
            web().spread(ZONE, {}),
            {"a1": 4},
            verdicts(OK, OK, OK, NO_LABEL),
            id="an-empty-selector-counts-no-pods",
        ),
        pytest.param(
            web().spread(ZONE, None, matchLabelKeys=["app"]),
            {"a1": 4},
            verdicts(OK, OK, OK, NO_LABEL),
            id="no-selector-matches-nothing",
        ),
        pytest.param(
            web().spread(ZONE, {}, matchLabelKeys=["app", "nope"]),
            {"a1": 1},
            verdicts(UNEVEN, UNEVEN, OK, NO_LABEL),
            id="match-label-keys",
        ),
        pytest.param(
            web().label("rev", "2").spread(ZONE, WEB, matchLabelKeys=["rev"]),
            {"a1": 1},
            verdicts(OK, OK, OK, NO_LABEL),
            id="match-label-keys-narrow-the-selector",
        ),
    ],
)
def test_hard_constraints_decide_where_a_pod_may_go(
    incoming: PodBuilder, pods: dict[str, int], expected: Any
) -> None:
    made = cluster(**pods)
    assert filtered(made.make(PodTopologySpread), incoming.obj(), made.nodes) == expected


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    made = cluster()
    made.place(web().terminating(), "a1")
    made.place(web().namespace("other"), "a1")
    found = filtered(made.make(PodTopologySpread), web().spread(ZONE, WEB).obj(), made.nodes)
    assert found == verdicts(OK, OK, OK, NO_LABEL)


def what_if(made: PluginWorld, incoming: Any, names: list[str]) -> tuple[Any, CycleState, Any]:
    plugin, state = made.make(PodTopologySpread), CycleState()
    assert plugin.pre_filter(state, incoming, made.nodes) is None
    rows = np.array([made.row(name) for name in names])
    return plugin, state.what_if(rows), made.nodes.take(rows)


def test_a_domain_that_falls_below_all_others_lowers_the_least_count() -> None:
    made = cluster(a1=1, b1=2)
    incoming = web().spread(ZONE, WEB).obj()
    plugin, state, table = what_if(made, incoming, ["b1", "a1", "c1"])
    victims = [pod for name, pod in made.placed() if name == "b1"]
    assert answers(plugin, state, incoming, table)["b1"] == UNEVEN
    plugin.remove_pod(state, incoming, victims[0], table, 0)
    assert answers(plugin, state, incoming, table) == {"a1": OK, "b1": OK, "c1": NO_LABEL}
    plugin.remove_pod(state, incoming, victims[1], table, 0)
    plugin.add_pod(state, incoming, victims[0], table, 1)
    plugin.add_pod(state, incoming, victims[0], table, 2)
    assert answers(plugin, state, incoming, table) == {"a1": OK, "b1": OK, "c1": NO_LABEL}
    plugin.add_pod(state, incoming, victims[0], table, 1)
    assert answers(plugin, state, incoming, table)["a1"] == UNEVEN


def test_a_what_if_also_takes_away_pods_that_were_not_counted() -> None:
    # kube-scheduler asks neither for a deletion timestamp nor for an empty selector there.
    made = cluster(b1=1)
    gone = made.place(web().terminating(), "a1")
    incoming = web().spread(ZONE, WEB).obj()
    plugin, state, table = what_if(made, incoming, ["a1"])
    plugin.remove_pod(state, incoming, gone, table, 0)
    plugin.add_pod(state, incoming, web().namespace("other").obj(), table, 0)
    assert answers(plugin, state, incoming, table) == {"a1": OK}
    plugin.add_pod(state, incoming, web().obj(), table, 0)
    assert answers(plugin, state, incoming, table) == {"a1": OK}
    anything = web().spread(ZONE, {}).obj()
    plugin, state, table = what_if(made, anything, ["a1"])
    plugin.add_pod(state, anything, make_pod().obj(), table, 0)
    assert answers(plugin, state, anything, table) == {"a1": UNEVEN}


BAD = labels_are(None, requirement("k", "Like", "v"))
WHY = '"Like" is not a valid label selector operator'


def test_a_selector_that_cannot_be_read_is_an_error_where_it_is_needed() -> None:
    made = cluster()
    plugin = made.make(PodTopologySpread)
    hard, soft = web().spread(ZONE, BAD).obj(), web().spread(ZONE, BAD, when=SOFT).obj()
    assert plugin.pre_filter(CycleState(), hard, made.nodes) == Status.error(
        f"get constraints from pod: obtaining pod's hard topology spread constraints: {WHY}"
    )
    assert plugin.pre_score(CycleState(), soft, made.nodes, made.nodes.exists) == Status.error(
        f"calculating preScoreState: obtaining pod's soft topology spread constraints: {WHY}"
    )
    assert filtered(plugin, soft, made.nodes) is None
    assert scores(plugin, hard, made.nodes) is None


@pytest.mark.parametrize(
    ("incoming", "pods", "feasible", "expected"),
    [
        pytest.param(web(), {"a1": 1}, NAMES, None, id="no-constraints"),
        pytest.param(
            web().spread(HOSTNAME, WEB, when=SOFT),
            {},
            NAMES,
            ([0, 0, 0, 0], [100, 100, 100, 100]),
            id="no-pods",
        ),
        pytest.param(
            web().spread(HOSTNAME, WEB, when=SOFT),
            {"a1": 2, "a2": 1},
            NAMES,
            # ln(4 + 2) = 1.79 a Pod
            ([4, 2, 0, 0], [0, 50, 100, 100]),
            id="hosts",
        ),
        pytest.param(
            web().spread(HOSTNAME, WEB, when=SOFT, nodeTaintsPolicy="Honor"),
            {"b1": 1},
            NAMES,
            ([0, 0, 2, 0], [100, 100, 0, 100]),
            id="hosts-whatever-the-policies-say",
        ),
        pytest.param(
            web().spread(ZONE, WEB, when=SOFT),
            {"a1": 2, "b1": 1, "c1": 9},
            NAMES,
            # ln(2 + 2) = 1.39 a Pod; c1 lacks the label
            ([3, 3, 1, 0], [33, 33, 100, 0]),
            id="zones-and-a-node-without",
        ),
        pytest.param(
            web().spread(ZONE, WEB, when=SOFT, nodeTaintsPolicy="Honor"),
            {"a1": 2, "b1": 1},
            NAMES,
            ([3, 3, 0, 0], [0, 0, 100, 0]),
            id="zones-by-the-policies",
        ),
        pytest.param(
            web().spread(ZONE, WEB, max_skew=4, when=SOFT).spread(HOSTNAME, WEB, 2, when=SOFT),
            {"a1": 2, "b1": 1},
            NAMES,
            # zone: 1.39 a Pod + 3; host: ln(3 + 2) = 1.61 a Pod + 1
            ([10, 7, 7, 0], [70, 100, 100, 0]),
            id="skews-water-the-differences-down",
        ),
        pytest.param(
            web().spread(ZONE, WEB, when=SOFT),
            {"a1": 2, "a2": 5, "b1": 1},
            ("a1", "c1"),
            # one zone is left: ln(1 + 2) = 1.10 a Pod, Pods on nodes that are not feasible count
            ([8, 0], [100, 0]),
            id="only-feasible-nodes-make-domains",
        ),
        pytest.param(
            web()
            .spread(ZONE, WEB, max_skew=2**31 - 1, when=SOFT)
            .spread(HOSTNAME, WEB, max_skew=2**31 - 1, when=SOFT),
            {"a1": 2, "b1": 1},
            NAMES,
            # as above, but 2**31 - 2 twice where that had 3 and 1
            ([2**32 + 2, 2**32 - 1, 2**32 - 1, 0], [99, 100, 100, 0]),
            id="more-than-32-bits",
        ),
        pytest.param(
            web().spread("rack", WEB, when=SOFT),
            {"a1": 2},
            NAMES,
            ([0, 0, 0, 0], [0, 0, 0, 0]),
            id="nobody-has-the-key",
        ),
    ],
)
def test_soft_constraints_prefer_domains_with_few_matching_pods(
    incoming: PodBuilder,
    pods: dict[str, int],
    feasible: tuple[str, ...],
    expected: tuple[list[int], list[int]] | None,
) -> None:
    made = cluster(**pods)
    mask = np.zeros(len(made.nodes), np.bool_)
    mask[[made.row(name) for name in feasible]] = True
    found = scores(made.make(PodTopologySpread), incoming.obj(), made.nodes, mask)
    assert (found and tuple([by[n] for n in feasible] for by in found)) == expected


def add_service(made: PluginWorld, **selector: str) -> None:
    made.add(make_object(SERVICE, "s").spec(selector=selector))


def add_owner(made: PluginWorld, kind: type, selector: Any) -> None:
    made.add(make_object(KINDS[kind.__name__], "o").spec(selector=selector))


@pytest.mark.parametrize(
    ("kind", "selector", "api_version", "spread"),
    [
        pytest.param(ReplicaSet, WEB, "apps/v1", True, id="replica-set"),
        pytest.param(StatefulSet, WEB, "apps/v1", True, id="stateful-set"),
        pytest.param(ReplicationController, {"app": "web"}, "v1", True, id="controller"),
        pytest.param(ReplicaSet, WEB, "other/v1", False, id="unknown-owner"),
        pytest.param(ReplicaSet, BAD, "apps/v1", False, id="bad-selector"),
        pytest.param(ReplicaSet, None, "apps/v1", False, id="no-selector"),
        pytest.param(ReplicaSet, {}, "apps/v1", False, id="empty-selector"),
    ],
)
def test_owners_give_default_constraints_their_selector(
    kind: type, selector: Any, api_version: str, spread: bool
) -> None:
    made = cluster(a1=2)
    add_owner(made, kind, selector)
    incoming = web().owner(kind.__name__, "o", api_version).obj()
    found = scores(made.make(PodTopologySpread), incoming, made.nodes)
    assert (found is not None and found[1]["a1"] < found[1]["c1"]) == spread


def test_an_owner_that_is_not_there_gives_no_selector() -> None:
    made = cluster(a1=2)
    incoming = web().owner("ReplicaSet", "gone").obj()
    assert scores(made.make(PodTopologySpread), incoming, made.nodes) is None


def test_services_and_the_owner_are_asked_together() -> None:
    made = cluster(a1=2)
    made.place(web().label("rev", "2"), "b1")
    add_service(made, app="web")
    add_owner(made, ReplicaSet, labels_are({"rev": "2"}))
    incoming = web().label("rev", "2").owner("ReplicaSet", "o").obj()
    found = scores(made.make(PodTopologySpread), incoming, made.nodes)
    # host: ln(4 + 2) = 1.79 a Pod + 2; zone: ln(3 + 2) = 1.61 a Pod + 4; two Pods match only one
    assert found is not None
    assert found[0] == {"a1": 6, "a2": 6, "b1": 9, "c1": 2}


def test_default_constraints_follow_services_as_they_come_and_go() -> None:
    made = cluster(a1=2)
    plugin, incoming = made.make(PodTopologySpread), web().obj()
    seen = [scores(plugin, incoming, made.nodes)]
    for selector in ({"app": "db"}, {"app": "web"}, {"app": "web"}, {}):
        add_service(made, **selector)
        seen.append(scores(plugin, incoming, made.nodes))
    add_service(made, app="web")
    seen.append(scores(plugin, incoming, made.nodes))
    made.objects.remove(SERVICE, "default/s")
    seen.append(scores(plugin, incoming, made.nodes))
    assert [found is not None for found in seen] == [False, False, True, True, False, True, False]
    # Views of other versions gave their counters back.
    assert len(made.counters) == 0


def test_a_system_default_scores_nodes_without_a_zone_by_host() -> None:
    made = cluster(a1=2, c1=1)
    add_service(made, app="web")
    found = scores(made.make(PodTopologySpread), web().obj(), made.nodes)
    # host: ln(4 + 2) = 1.79 a Pod + 2; zone: ln(3 + 2) = 1.61 a Pod + 4, "no zone" is one of three
    assert found is not None
    assert found[0] == {"a1": 13, "a2": 9, "b1": 6, "c1": 4}


def test_listed_default_constraints_can_be_hard() -> None:
    made = cluster(a1=1)
    add_service(made, app="web")
    listed = [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    plugin = made.make(PodTopologySpread, defaultingType="List", defaultConstraints=listed)
    expected = verdicts(UNEVEN, UNEVEN, OK, NO_LABEL)
    assert filtered(plugin, web().obj(), made.nodes) == expected
    assert filtered(plugin, web().namespace("other").obj(), made.nodes) is None


def test_an_empty_list_turns_default_constraints_off() -> None:
    made = cluster(a1=1)
    add_service(made, app="web")
    plugin = made.make(PodTopologySpread, defaultingType="List")
    assert scores(plugin, web().obj(), made.nodes) is None


def elsewhere(built: PodBuilder) -> Any:
    return built.uid("other").node("a1").obj()


HARD = web().spread(ZONE, WEB)


@pytest.mark.parametrize(
    ("incoming", "action", "old", "new", "expected"),
    [
        pytest.param(HARD, Action.ADD, None, elsewhere(web()), Hint.QUEUE, id="match-came"),
        pytest.param(HARD, Action.ADD, None, elsewhere(make_pod()), Hint.SKIP, id="other-came"),
        pytest.param(HARD, Action.ADD, None, web().obj(), Hint.SKIP, id="match-still-pending"),
        pytest.param(
            HARD, Action.ADD, None, web().nominated("a1").obj(), Hint.QUEUE, id="match-nominated"
        ),
        pytest.param(
            HARD,
            Action.ADD,
            None,
            elsewhere(web().namespace("other")),
            Hint.SKIP,
            id="other-namespace",
        ),
        pytest.param(HARD, Action.DELETE, elsewhere(web()), None, Hint.QUEUE, id="match-went"),
        pytest.param(
            HARD,
            Action.UPDATE_POD_LABEL,
            elsewhere(web()),
            elsewhere(make_pod()),
            Hint.QUEUE,
            id="match-became-another",
        ),
        pytest.param(
            HARD,
            Action.UPDATE_POD_LABEL,
            elsewhere(web()),
            elsewhere(web().label("x")),
            Hint.SKIP,
            id="match-stays-one",
        ),
        pytest.param(
            web().spread(ZONE, BAD),
            Action.ADD,
            None,
            elsewhere(web()),
            Hint.QUEUE,
            id="constraints-that-cannot-be-read",
        ),
    ],
)
def test_pods_wake_those_that_they_may_help(
    incoming: PodBuilder, action: Action, old: Any, new: Any, expected: Hint
) -> None:
    plugin = cluster().make(PodTopologySpread)
    assert hint(plugin, Resource.ASSIGNED_POD, action, incoming.obj(), old, new) is expected


@pytest.mark.parametrize(
    ("incoming", "action", "new", "expected"),
    [
        pytest.param(
            web().spread(ZONE, WEB, nodeTaintsPolicy="Honor"),
            Action.UPDATE_POD_TOLERATION,
            web().toleration(key="k"),
            Hint.QUEUE,
            id="toleration-with-taints-honoured",
        ),
        pytest.param(
            HARD,
            Action.UPDATE_POD_TOLERATION,
            web().toleration(key="k"),
            Hint.SKIP,
            id="toleration-with-taints-ignored",
        ),
        pytest.param(
            HARD, Action.UPDATE_POD_LABEL, make_pod(), Hint.QUEUE, id="not-selected-any-more"
        ),
        pytest.param(HARD, Action.UPDATE_POD_LABEL, web().label("a"), Hint.SKIP, id="other-label"),
        pytest.param(
            web().spread(ZONE, BAD),
            Action.UPDATE_POD_TOLERATION,
            web().toleration(key="k"),
            Hint.QUEUE,
            id="constraints-that-cannot-be-read",
        ),
    ],
)
def test_a_pod_is_woken_by_changes_of_its_own(
    incoming: PodBuilder, action: Action, new: PodBuilder, expected: Hint
) -> None:
    plugin = cluster().make(PodTopologySpread)
    answer = hint(plugin, Resource.TARGET_POD, action, incoming.obj(), incoming.obj(), new.obj())
    assert answer is expected


@pytest.mark.parametrize(
    ("incoming", "old", "new", "expected"),
    [
        pytest.param(HARD, None, node("n", "z1"), Hint.QUEUE, id="added"),
        pytest.param(HARD, None, node("n"), Hint.SKIP, id="added-without-key"),
        pytest.param(HARD, node("n", "z1"), None, Hint.QUEUE, id="deleted"),
        pytest.param(HARD, node("n"), None, Hint.SKIP, id="deleted-without-key"),
        pytest.param(HARD, node("n"), node("n", "z1"), Hint.QUEUE, id="got-key"),
        pytest.param(HARD, node("n", "z1"), node("n", "z2"), Hint.QUEUE, id="moved"),
        pytest.param(
            HARD, node("n", "z1"), node("n", "z1").taint("k"), Hint.QUEUE, id="other-taints"
        ),
        pytest.param(HARD, node("n", "z1"), node("n", "z1").label("x"), Hint.SKIP, id="same"),
        pytest.param(HARD, node("n"), node("n").taint("k"), Hint.SKIP, id="never-had-key"),
        pytest.param(web().spread(ZONE, BAD), None, node("n"), Hint.QUEUE, id="cannot-be-read"),
    ],
)
def test_nodes_wake_those_that_they_may_help(
    incoming: PodBuilder, old: NodeBuilder | None, new: NodeBuilder | None, expected: Hint
) -> None:
    plugin = cluster().make(PodTopologySpread)
    before, after = (built.obj() if built else None for built in (old, new))
    action = Action.UPDATE_NODE_LABEL if old and new else Action.ADD if new else Action.DELETE
    assert hint(plugin, NODE, action, incoming.obj(), before, after) is expected
