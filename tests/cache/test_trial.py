"""Trials: whatever is tried out on the live tables, afterwards everything is as it was."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.plugins.clusters import ZONE

from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.cache.counters import DomainCounters, DomainSpec, PodSelection
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.cache.trial import Trial
from bayplan.testing import make_node, make_pod


def cache_with(*names: str) -> Cache:
    cache = Cache()
    for name in names:
        cache.set_node(make_node(name).capacity(cpu="4", pods=10).obj())
    return cache


def pod(uid: str = "u", node: str = "", cpu: str = "1") -> Pod:
    builder = make_pod(uid).uid(uid).req(cpu=cpu).label("app", "web")
    return (builder.node(node) if node else builder).obj()


def cpu(cache: Cache, name: str = "n1") -> int:
    row = cache.nodes.row(name)
    assert row is not None
    return int(cache.nodes.requested("cpu")[row])


def test_what_is_tried_out_counts_until_the_trial_ends() -> None:
    cache = cache_with("n1")
    victim = pod("victim", "n1", "3")
    cache.add(victim)
    with cache.trial():
        cache.remove("victim")
        cache.assume(pod("taker"), "n1")
        assert cpu(cache) == 1000
        assert cache.is_assumed("taker")
    assert cpu(cache) == 3000
    assert cache.pod("victim") is victim
    assert cache.pod("taker") is None
    assert cache.counts() == {"nodes": 1, "pods": 1, "assumed_pods": 0}


def test_a_trial_that_is_kept_leaves_the_assumed_pods() -> None:
    cache = cache_with("n1")
    with cache.trial() as trial:
        assumed = cache.assume(pod(), "n1")
        trial.keep()
    assert cache.pod("u") is assumed
    assert cache.is_assumed("u")
    assert cpu(cache) == 1000


def test_a_trial_with_pods_removed_cannot_be_kept() -> None:
    cache = cache_with("n1")
    cache.add(pod("victim", "n1", "3"))

    def keep() -> None:
        with cache.trial() as trial:
            cache.remove("victim")
            cache.assume(pod("taker"), "n1")
            trial.keep()

    with pytest.raises(ValueError, match="1 Pods removed"):
        keep()
    assert cpu(cache) == 3000
    assert cache.pod("taker") is None


def test_a_body_that_raises_is_put_back_even_if_it_was_kept() -> None:
    cache = cache_with("n1")

    def breaks() -> None:
        with cache.trial() as trial:
            trial.keep()
            cache.assume(pod(), "n1")
            raise LookupError("a plugin broke")

    with pytest.raises(LookupError, match="a plugin broke"):
        breaks()
    assert cpu(cache) == 0
    assert cache.nodes.recount() == {}


@pytest.mark.parametrize("kept_inside", [False, True])
def test_an_inner_trial_that_is_kept_still_ends_with_the_outer_one(kept_inside: bool) -> None:
    cache = cache_with("n1", "n2")
    with cache.trial():
        cache.assume(pod("a"), "n1")
        with cache.trial() as inner:
            cache.assume(pod("b"), "n1")
            cache.forget("a")
            cache.assume(pod("a"), "n2")
            if kept_inside:
                inner.keep()
        expected = (1000, 1000) if kept_inside else (1000, 0)
        assert (cpu(cache, "n1"), cpu(cache, "n2")) == expected
    assert (cpu(cache, "n1"), cpu(cache, "n2")) == (0, 0)
    assert cache.counts()["pods"] == 0


def test_removed_in_an_inner_trial_and_put_back_there_does_not_hinder_the_outer_one() -> None:
    cache = cache_with("n1")
    cache.add(pod("victim", "n1"))
    with cache.trial() as outer:
        with cache.trial():
            cache.remove("victim")
        cache.assume(pod("taker"), "n1")
        outer.keep()
    assert cpu(cache) == 2000


def test_an_assumed_pod_that_was_tried_out_as_gone_is_assumed_again() -> None:
    cache = cache_with("n1")
    assumed = cache.assume(pod(), "n1")
    with cache.trial():
        cache.remove("u")
    assert cache.pod("u") is assumed
    assert cache.is_assumed("u")


@pytest.mark.parametrize(
    "message",
    [
        lambda cache: cache.set_node(make_node("n2").obj()),
        lambda cache: cache.remove_node("n1"),
        lambda cache: cache.add(pod("seen", "n1")),
    ],
    ids=["a node", "a node that is gone", "a Pod that is seen"],
)
def test_no_message_is_applied_during_a_trial(message: Any) -> None:
    cache = cache_with("n1")

    def apply() -> None:
        with cache.trial():
            message(cache)

    with pytest.raises(RuntimeError, match="during a trial"):
        apply()
    assert not cache.nodes.tentative


def test_who_is_put_back_has_the_same_place_among_the_pods_of_its_node() -> None:
    """Of Pods that are alike the last one yields first: a question must not change which it is."""
    cache = cache_with("n1")
    for uid in ("a", "b", "c"):
        cache.add(pod(uid, "n1"))
    with cache.trial():
        cache.remove("b")
        cache.remove("a")
    assert list(cache.nodes.pods[0]) == ["a", "b", "c"]


def test_listeners_can_tell_what_is_only_tried_out() -> None:
    cache = cache_with("n1")
    seen: list[tuple[str, bool]] = []

    class Listener:
        def pod_added(self, _row: int, pod: Pod) -> None:
            seen.append((f"+{pod.uid}", cache.nodes.tentative))

        def pod_removed(self, _row: int, pod: Pod) -> None:
            seen.append((f"-{pod.uid}", cache.nodes.tentative))

        def node_changed(self, row: int) -> None:
            """No node changes here."""

    listener = Listener()
    cache.nodes.listen(listener)
    cache.assume(pod("a"), "n1")
    with cache.trial():
        cache.remove("a")
    assert seen == [("+a", False), ("-a", True), ("+a", True)]


NODES = ["n0", "n1", "n2", "gone"]
UIDS = ["u0", "u1", "u2", "u3", "u4"]


class JournalReader:
    """Keeps a value per row, computed again for the rows that the journal names."""

    def __init__(self, nodes: LiveNodeTable) -> None:
        self._nodes = nodes
        self._position = nodes.pod_journal.position
        self.kept = self._actual()

    def _actual(self) -> IntArray:
        pods = [len(pods) for pods in self._nodes.pods]
        return np.asarray(self._nodes.requested("cpu") * 100 + pods)

    def is_right(self) -> bool:
        moved = self._nodes.pod_journal.since(self._position)
        assert moved is not None
        self._position = self._nodes.pod_journal.position
        actual = self._actual()
        self.kept[moved] = actual[moved]
        return np.array_equal(self.kept, actual)


class State(NamedTuple):
    """What there is to be put back."""

    pods: dict[str, Pod]
    assumed: frozenset[str]
    columns: dict[str, list[int]]
    by_zone: list[int]
    order: list[list[str]]
    version: object


class TrialMachine(RuleBasedStateMachine):
    """Trials in trials, kept, put back and broken, over a cache with counters."""

    @initialize()
    def start(self) -> None:
        self.cache = Cache()
        for index, name in enumerate(NODES[:3]):
            node = make_node(name).label(ZONE, "ab"[index % 2]).capacity(cpu="9", pods=9)
            self.cache.set_node(node.obj())
        self.counters = DomainCounters(self.cache.nodes, self.cache.objects)
        web = PodSelection(
            "web", frozenset({"default"}), lambda shape, _: shape.labels.get("app") == "web"
        )
        self.counter = self.counters.acquire(web, DomainSpec(ZONE))
        self.reader = JournalReader(self.cache.nodes)
        self.open: list[tuple[Any, Trial, State]] = []
        self.by_version: dict[object, object] = {}

    def _state(self) -> State:
        cache, nodes = self.cache, self.cache.nodes
        pods = {uid: pod for uid in UIDS if (pod := cache.pod(uid)) is not None}
        columns = {r: nodes.requested(r).tolist() for r in ("cpu", "memory")}
        columns["pods"] = nodes.pod_count.tolist()
        columns["ports"] = [sum(ports.values()) for ports in nodes.host_ports]
        assumed = frozenset(uid for uid in UIDS if cache.is_assumed(uid))
        order = [list(on_node) for on_node in nodes.pods]
        return State(
            pods, assumed, columns, self.counter.by_domain().tolist(), order, nodes.pods_version
        )

    def _pod(self, uid: str, amount: int, node: str = "") -> Pod:
        builder = make_pod(uid).uid(uid).req(cpu=str(amount), memory=f"{amount}Mi")
        builder.label("app", "web" if amount > 1 else "db").host_port(1000 + amount)
        return (builder.node(node) if node else builder).obj()

    @precondition(lambda self: not self.open)
    @rule(uid=st.sampled_from(UIDS), node=st.sampled_from(NODES), amount=st.integers(1, 3))
    def see(self, uid: str, node: str, amount: int) -> None:
        self.cache.add(self._pod(uid, amount, node))

    @rule(uid=st.sampled_from(UIDS), node=st.sampled_from(NODES), amount=st.integers(1, 3))
    def assume(self, uid: str, node: str, amount: int) -> None:
        if self.cache.pod(uid) is None:
            self.cache.assume(self._pod(uid, amount), node)

    @rule(uid=st.sampled_from(UIDS))
    def forget(self, uid: str) -> None:
        self.cache.forget(uid)

    @rule(uid=st.sampled_from(UIDS))
    def remove(self, uid: str) -> None:
        self.cache.remove(uid)

    @precondition(lambda self: len(self.open) < 3)
    @rule()
    def begin(self) -> None:
        state = self._state()
        manager = self.cache.trial()
        self.open.append((manager, manager.__enter__(), state))

    @precondition(lambda self: self.open)
    @rule(breaks=st.booleans(), kept=st.booleans())
    def put_back(self, breaks: bool, kept: bool) -> None:
        manager, trial, state = self.open.pop()
        if breaks:
            trial.kept = kept
            error = LookupError("broken")
            assert not manager.__exit__(LookupError, error, None)
        else:
            manager.__exit__(None, None, None)
        assert self._state() == state

    @precondition(lambda self: self.open)
    @rule()
    def keep(self) -> None:
        manager, trial, state = self.open.pop()
        now = self._state()
        trial.keep()
        lost = [uid for uid, pod in state.pods.items() if now.pods.get(uid) is not pod]
        if lost and not self.open:
            with pytest.raises(ValueError, match="cannot be kept"):
                manager.__exit__(None, None, None)
            assert self._state() == state
        else:
            manager.__exit__(None, None, None)
            assert self._state() == now

    @invariant()
    def everything_equals_a_recount(self) -> None:
        if hasattr(self, "cache"):
            assert self.cache.nodes.recount() == {}
            assert self.counters.recount() == {}
            assert self.reader.is_right()
            assert self.cache.nodes.tentative is bool(self.open)

    @invariant()
    def other_pods_on_nodes_are_another_version(self) -> None:
        if hasattr(self, "cache"):
            nodes = self.cache.nodes
            there = {
                (row, pod.uid): (pod.shape.id, pod.deleted)
                for row, pods in enumerate(nodes.pods)
                for pod in pods.values()
            }
            assert self.by_version.setdefault(nodes.pods_version, there) == there


TestTrialMachine = TrialMachine.TestCase
