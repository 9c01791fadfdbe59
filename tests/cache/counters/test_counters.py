from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.plugins.clusters import (
    HOSTNAME,
    ZONE,
    add_random_terms,
    change_at_random,
    random_cluster,
    random_pod,
)
from tests.plugins.harness import PluginWorld

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.counters import (
    DomainCounter,
    DomainCounters,
    DomainSpec,
    DomainTable,
    PodSelection,
    SelectionCounter,
    TermMatches,
    selected_by_all,
    shape_terms,
    weighted_counts,
)
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.cache.shape_cache import ShapeCache
from bayplan.testing import NodeBuilder, PodBuilder, labels_are, make_node, make_pod

WEB = labels_are({"app": "web"})


def node(name: str, zone: str) -> NodeBuilder:
    return make_node(name).label(HOSTNAME, name).label(ZONE, zone)


def web(name: str = "p") -> PodBuilder:
    return make_pod(name).label("app", "web")


def near(key: str = ZONE, **scope: Any) -> PodSelection:
    """The Pods that a Pod with this affinity term would be near to."""
    pod = make_pod().pod_affinity(key, WEB, **scope).obj()
    return selected_by_all(pod.shape.memo(shape_terms).affinity)


def by_value(cluster: PluginWorld, counter: SelectionCounter) -> dict[str, int]:
    """Counts by label value, those above 0."""
    values = cluster.nodes.label(counter.topology_key).values
    counts = counter.by_domain().tolist()
    return {value: counts[code] for code, value in enumerate(values) if counts[code]}


def test_a_counter_begins_with_what_is_there_and_follows_every_change() -> None:
    cluster = PluginWorld(node("a1", "z1"), node("a2", "z1"), node("b1", "z2"))
    first = cluster.place(web("1"), "a1")
    counter = cluster.counters.acquire(near(), DomainSpec(ZONE))
    seen = [by_value(cluster, counter)]
    second = cluster.place(web("2"), "b1")
    cluster.place(make_pod("unrelated"), "b1")
    seen.append(by_value(cluster, counter))
    cluster.add(node("b1", "z3"))
    seen.append(by_value(cluster, counter))
    cluster.nodes.remove_pod(cluster.row("a1"), first)
    cluster.nodes.remove_node("b1")
    seen.append(by_value(cluster, counter))
    assert seen == [{"z1": 1}, {"z1": 1, "z2": 1}, {"z1": 1, "z3": 1}, {}]
    assert second not in [pod for _, pod in cluster.placed()]
    assert cluster.counters.recount() == {}


def test_counters_of_a_cluster_that_is_there_already_count_it() -> None:
    nodes = LiveNodeTable()
    row = nodes.set_node(node("a1", "z1").obj())
    carrier = web().pod_anti_affinity(ZONE, WEB).obj()
    nodes.add_pod(row, carrier)
    counters = DomainCounters(nodes, ObjectStore())
    found = counters.matching(carrier.shape, TermMatches())
    assert [counter.total for counter in found.anti] == [1]


def test_equal_selections_share_a_counter_until_the_last_is_released() -> None:
    cluster = PluginWorld(node("a1", "z1"))
    pod = cluster.place(web(), "a1")
    one = cluster.counters.acquire(near(), DomainSpec(ZONE))
    two = cluster.counters.acquire(near(), DomainSpec(ZONE))
    assert one is two
    assert cluster.counters.acquire(near(), DomainSpec(HOSTNAME)) is not one
    cluster.counters.release(one)
    assert cluster.counters.acquire(near(), DomainSpec(ZONE)) is one
    cluster.counters.release(one)
    cluster.counters.release(two)
    fresh = cluster.counters.acquire(near(), DomainSpec(ZONE))
    assert fresh is not one
    cluster.nodes.remove_pod(cluster.row("a1"), pod)
    assert (one.total, fresh.total) == (1, 0)


def test_a_selection_may_leave_terminating_pods_out() -> None:
    cluster = PluginWorld(node("a1", "z1"))
    cluster.place(web("1"), "a1")
    cluster.place(web("2").terminating(), "a1")
    alive = PodSelection("alive", None, lambda shape, _: True, terminating=False)
    every = PodSelection("every", None, lambda shape, _: True)
    totals = [cluster.counters.acquire(s, DomainSpec(ZONE)).total for s in (alive, every)]
    assert totals == [1, 2]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(DomainSpec(ZONE), ["z1", "z2", "z1", None, None], id="key"),
        pytest.param(DomainSpec(ZONE, (HOSTNAME,)), ["z1", "z2", None, None, None], id="two-keys"),
        pytest.param(
            DomainSpec(ZONE, absent_as="none"), ["z1", "z2", "z1", "none", None], id="absent-as"
        ),
        pytest.param(DomainSpec("nobody-has-it"), [None] * 5, id="no-such-key"),
    ],
)
def test_domains_divide_nodes_that_count(spec: DomainSpec, expected: list[str | None]) -> None:
    cluster = PluginWorld(
        node("a", "z1"), node("b", "z2"), make_node("c").label(ZONE, "z1"), make_node("d")
    )
    cluster.add(node("gone", "z9"))
    rows = [cluster.row(name) for name in ("a", "b", "c", "d", "gone")]
    cluster.nodes.remove_node("gone")
    domains = DomainTable(cluster.nodes).acquire(spec)
    values = cluster.nodes.label(spec.key or "").values
    found = [values[code] if code >= 0 else None for code in domains.codes[rows].tolist()]
    assert found == expected
    assert domains.count == len(set(expected) - {None})


def test_without_a_key_every_row_is_a_domain_also_in_a_part_of_the_table() -> None:
    cluster = PluginWorld(node("a1", "z1"), node("a2", "z1"))
    counter = cluster.counters.acquire(near(), DomainSpec(None))
    cluster.place(web("1"), "a2")
    cluster.nodes.reserve(1000)
    rows = np.array([cluster.row("a2"), cluster.row("a1")])
    assert counter.at(cluster.nodes)[rows].tolist() == [1, 0]
    assert counter.at(cluster.nodes.take(rows)).tolist() == [1, 0]
    cluster.add(node("late", "z2"))
    cluster.place(web("2"), "late")
    assert counter.at(cluster.nodes)[cluster.row("late")] == 1
    assert cluster.counters.recount() == {}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], 0),
        (["a1"], 1),
        (["a1", "a2"], 1),
        (["a1", "b1"], 2),
        (["keyless"], 0),
        (["a1", "a2", "b1"], 2),
        (["a1", "b1", "c1", "keyless"], 3),
        (["a1", "a2", "c1", "keyless"], 2),
        (["a1", "a2", "b1", "c1", "keyless"], 3),
    ],
    ids=str,
)
def test_domains_among_some_rows_are_those_that_have_one_of_them(
    names: list[str], expected: int
) -> None:
    nodes = LiveNodeTable()
    nodes.reserve(5)
    for each in (node("a1", "z1"), node("a2", "z1"), node("b1", "z2"), node("c1", "z3")):
        nodes.set_node(each.obj())
    nodes.set_node(make_node("keyless").obj())
    domains = DomainTable(nodes).acquire(DomainSpec(ZONE))
    mask = np.isin(np.array(nodes.names, object), names)
    assert domains.among(mask) == domains.among(np.append(mask, [False] * 20)) == expected


def test_counts_are_added_up_over_topologies_with_their_weights() -> None:
    cluster = PluginWorld(
        node("a1", "z1"), node("a2", "z1"), node("b1", "z2"), make_node("keyless")
    )
    zone = cluster.counters.acquire(near(), DomainSpec(ZONE))
    other = cluster.counters.acquire(near(namespaces=["default", "x"]), DomainSpec(ZONE))
    host = cluster.counters.acquire(near(HOSTNAME), DomainSpec(HOSTNAME))
    for name, where in (("1", "a1"), ("2", "a1"), ("3", "b1"), ("4", "keyless")):
        cluster.place(web(name), where)
    rows = [cluster.row(name) for name in ("a1", "a2", "b1", "keyless")]

    def summed(*weighted: tuple[int, DomainCounter]) -> list[int]:
        found: list[int] = weighted_counts(weighted, cluster.nodes)[rows].tolist()
        return found

    assert summed() == [0, 0, 0, 0]
    assert summed((3, zone), (-1, other), (10, host)) == [24, 4, 12, 0]
    assert summed((2**40, zone), (1, host)) == [2**41 + 2, 2**41, 2**40 + 1, 0]
    assert cluster.counters.recount() == {}


def test_whether_a_pod_on_a_node_has_a_lower_priority() -> None:
    cluster = PluginWorld(node("a", "z1"))
    low = cluster.place(web("low").priority(3), "a")
    cluster.place(web("high").priority(9), "a")
    assert [cluster.counters.any_below(priority) for priority in (3, 4, 9)] == [False, True, True]
    cluster.nodes.remove_pod(cluster.row("a"), low)
    assert [cluster.counters.any_below(priority) for priority in (9, 10)] == [False, True]


def test_counters_grow_with_the_table_and_its_domains() -> None:
    cluster = PluginWorld(node("first", "z1"))
    by_host = cluster.counters.acquire(near(HOSTNAME), DomainSpec(HOSTNAME))
    by_row = cluster.counters.acquire(near(), DomainSpec(None))
    for i in range(300):
        cluster.add(node(f"n{i}", "z1"))
        cluster.place(web(f"p{i}"), f"n{i}")
    assert by_host.at(cluster.nodes).sum() == by_row.at(cluster.nodes).sum() == 300
    assert by_host.domains.count == 301
    assert cluster.counters.recount() == {}


def test_a_heartbeat_of_a_node_leaves_its_domains_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = PluginWorld(node("a1", "z1"))
    cluster.counters.acquire(near(), DomainSpec(ZONE))
    changed: list[int] = []
    monkeypatch.setattr(DomainTable, "changed", lambda self, row: changed.append(row))
    cluster.add(node("a1", "z1").capacity(cpu="8"))
    assert changed == []
    cluster.add(node("a1", "z1").taint("k"))
    assert changed == [cluster.row("a1")]


def test_groups_without_pods_and_their_terms_are_forgotten_when_they_are_many() -> None:
    cluster = PluginWorld(node("a1", "z1"))
    kept = cluster.place(web("kept").pod_anti_affinity(ZONE, WEB), "a1")
    matches = cluster.counters.matching(kept.shape, TermMatches())
    for i in range(400):
        term = labels_are({"app": "web", "n": str(i)})
        built = make_pod(f"p{i}").namespace(f"n{i % 7}")
        pod = cluster.place(built.pod_anti_affinity(HOSTNAME, term), "a1")
        cluster.nodes.remove_pod(cluster.row("a1"), pod)
    assert len(cluster.counters) < 300
    cluster.place(make_pod().namespace("other"), "a1")
    again = cluster.counters.matching(kept.shape, matches)
    assert again is not matches
    assert [c.total for c in again.anti] == [1]
    assert cluster.counters.recount() == {}


def test_matches_are_brought_up_to_date_with_new_terms() -> None:
    cluster = PluginWorld(node("a1", "z1"))
    shape = web().obj().shape
    matches = cluster.counters.matching(shape, TermMatches())
    cluster.place(make_pod("1").pod_anti_affinity(ZONE, WEB), "a1")
    cluster.place(make_pod("2").pod_affinity(ZONE, WEB, namespaceSelector={}), "a1")
    cluster.place(make_pod("3").preferred_pod_anti_affinity(9, ZONE, WEB), "a1")
    cluster.place(make_pod("4").pod_anti_affinity(ZONE, labels_are({"app": "db"})), "a1")
    cluster.nodes.remove_pod(cluster.row("a1"), cluster.place(make_pod("5"), "a1"))
    assert cluster.counters.matching(shape, matches) is matches
    assert [len(matches.anti), len(matches.affinity)] == [1, 1]
    assert [counter.weight for counter in matches.preferred] == [-9]


@pytest.mark.parametrize("where", ["count", "total", "domain", "term"])
def test_recount_finds_what_is_wrong(where: str) -> None:
    cluster = PluginWorld(node("a1", "z1"))
    carrier = cluster.place(web().pod_anti_affinity(ZONE, WEB), "a1")
    counter = cluster.counters.acquire(near(), DomainSpec(ZONE))
    assert cluster.counters.recount() == {}
    match where:
        case "count":
            counter.counts[0] += 1
        case "total":
            counter.total += 1
        case "domain":
            counter.domains.rows[0] += 1
        case "term":
            cluster.counters.matching(carrier.shape, TermMatches()).anti[0].counts[0] = 0
    wrong = {"domain": "Domains", "term": "TermCounter"}.get(where, "SelectionCounter")
    assert cluster.counters.recount() == {wrong: 1}


def test_a_shape_cache_drops_what_was_not_used_for_longest() -> None:
    dropped: list[str] = []
    cache = ShapeCache[str](2, dropped.append)
    a, b, c = (make_pod().label("shape", s).obj().shape for s in "abc")
    cache.put(a, "a")
    cache.put(b, "b")
    assert cache.get(a) == "a"
    cache.put(c, "c")
    cache.put(a, "a2")
    assert dropped == ["b", "a"]
    assert [cache.get(shape) for shape in (a, b, c)] == ["a2", None, "c"]
    assert len(cache) == 2


class CountersMachine(RuleBasedStateMachine):
    """Pods, nodes, namespaces and counters come and go; every counter equals a recount."""

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = random_cluster(self.random, 0.2)
        self.held: list[SelectionCounter] = []
        self.known: dict[PodShape, TermMatches] = {}

    @rule()
    def change(self) -> None:
        change_at_random(self.random, self.cluster)

    @rule()
    def acquire(self) -> None:
        pod = self._pod(0.6)
        terms = pod.shape.memo(shape_terms)
        spec = self.random.choice(
            [
                DomainSpec(ZONE),
                DomainSpec(None),
                DomainSpec(ZONE, (HOSTNAME, ZONE)),
                DomainSpec("rack", absent_as=""),
            ]
        )
        for group in (terms.affinity, terms.anti):
            if group:
                self.held.append(self.cluster.counters.acquire(selected_by_all(group), spec))

    @rule()
    def release(self) -> None:
        if self.held:
            counter = self.held.pop(self.random.randrange(len(self.held)))
            self.cluster.counters.release(counter)

    @rule()
    def match(self) -> None:
        shape = self._pod(0.0).shape
        known = self.known.get(shape, TermMatches())
        kept = self.known[shape] = self.cluster.counters.matching(shape, known)
        fresh = self.cluster.counters.matching(shape, TermMatches())
        for kept_list, fresh_list in (
            (kept.anti, fresh.anti),
            (kept.affinity, fresh.affinity),
            (kept.preferred, fresh.preferred),
        ):
            assert {id(c) for c in kept_list} == {id(c) for c in fresh_list}

    @invariant()
    def equal_to_a_recount(self) -> None:
        if hasattr(self, "cluster"):
            assert self.cluster.counters.recount() == {}
            fresh = DomainCounters(self.cluster.nodes, self.cluster.objects)
            for counter in self.held:
                selection, spec = counter.selection, counter.domains.spec
                again = fresh.acquire(selection, spec)
                assert (
                    counter.at(self.cluster.nodes).tolist() == again.at(self.cluster.nodes).tolist()
                )

    def _pod(self, likely: float) -> Pod:
        return add_random_terms(self.random, random_pod(self.random, "any"), likely).obj()


TestCountersMachine = CountersMachine.TestCase


@given(st.integers(0, 2**32))
def test_counters_that_are_all_released_leave_nothing_behind(seed: int) -> None:
    random = Random(seed)
    cluster = random_cluster(random, 0.0)
    held = []
    for _ in range(5):
        terms = add_random_terms(random, random_pod(random, "p"), 0.5).obj().shape.memo(shape_terms)
        held += [
            cluster.counters.acquire(selected_by_all((term,)), DomainSpec(term.topology_key))
            for term in terms.anti
        ]
    for counter in held:
        cluster.counters.release(counter)
    assert len(cluster.counters) == 0
    assert list(cluster.counters._domains) == []
    groups = cluster.counters._groups.values()
    assert all(not group.selected for by_key in groups for group in by_key.values())
