"""A Pod that is to be evicted counts as terminating from the decision on."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET, PREEMPTED, Pod
from bayplan.cache.cache import Cache
from bayplan.cache.counters import DomainCounters
from bayplan.testing import PodBuilder, make_node, make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = Condition(type=DISRUPTION_TARGET, status="True", reason=PREEMPTED)


def victim(name: str = "v") -> PodBuilder:
    return make_pod(name).uid(name).req(cpu="1").label("app", "web").node("n1")


def cache_with(*pods: PodBuilder) -> Cache:
    cache = Cache()
    cache.set_node(make_node("n1").capacity(cpu="4", pods=10).obj())
    for pod in pods:
        cache.add(pod.obj())
    return cache


def shown(cache: Cache, uid: str = "v") -> Pod:
    pod = cache.pod(uid)
    assert pod is not None
    return pod


def test_a_victim_looks_as_the_api_server_will_show_it() -> None:
    cache = cache_with(victim().condition(DISRUPTION_TARGET, "False"))
    cache.evict("v", TARGET, NOW)
    pod = shown(cache)
    assert pod.deleted == NOW
    assert pod.is_preempted
    assert cache.nodes.pod_table().leaving.tolist() == [True]
    assert cache.nodes.requested("cpu")[0] == 1000, "its room is taken until it is gone"
    assert cache.is_eviction_assumed("v")


def test_news_of_a_victim_do_not_bring_it_back() -> None:
    cache = cache_with(victim())
    cache.evict("v", TARGET, NOW)
    cache.add(victim().start_time("2026-01-01T00:00:00Z").obj())
    assert shown(cache).is_preempted
    assert shown(cache).status.start_time is not None
    assert cache.is_eviction_assumed("v")


def test_the_eviction_is_assumed_until_its_deletion_is_seen() -> None:
    cache = cache_with(victim())
    cache.evict("v", TARGET, NOW)
    cache.add(victim().terminating().obj())
    assert not cache.is_eviction_assumed("v")
    assert shown(cache).deleted is not None


def test_a_pod_whose_eviction_failed_counts_as_before() -> None:
    cache = cache_with(victim())
    cache.evict("v", TARGET, NOW)
    started = victim().start_time("2026-01-01T00:00:00Z").obj()
    cache.add(started)
    cache.keep("v")
    assert shown(cache) is started
    assert cache.nodes.pod_table().leaving.tolist() == [False]


def test_a_pod_that_is_called_back_and_assumed_again_is_not_evicted() -> None:
    cache = cache_with()
    pod = victim().obj()
    cache.assume(pod, "n1")
    cache.evict("v", TARGET, NOW)
    assert shown(cache).is_preempted
    assert cache.is_assumed("v")
    cache.forget("v")
    cache.assume(pod, "n1")
    assert shown(cache).deleted is None


def test_a_victim_that_is_tried_out_as_gone_is_a_victim_afterwards() -> None:
    cache = cache_with(victim())
    cache.evict("v", TARGET, NOW)
    with cache.trial():
        cache.remove("v")
        assert cache.pod("v") is None
    assert shown(cache).is_preempted
    assert cache.is_eviction_assumed("v")


def test_nobody_is_evicted_during_a_trial() -> None:
    cache = cache_with(victim())
    with cache.trial(), pytest.raises(RuntimeError):
        cache.evict("v", TARGET, NOW)


def test_a_pod_that_becomes_terminating_keeps_its_place_on_its_node() -> None:
    cache = cache_with(*map(victim, "abc"))
    cache.evict("a", TARGET, NOW)
    cache.add(victim("b").terminating().obj())
    assert list(cache.nodes.pods[0]) == ["a", "b", "c"]


UIDS = st.sampled_from("abc")


class Evictions(RuleBasedStateMachine):
    """Columns and counters equal a recount, whatever becomes of evictions."""

    @initialize()
    def start(self) -> None:
        self.cache = cache_with()
        self.counters = DomainCounters(self.cache.nodes, self.cache.objects)
        self.assumed: set[str] = set()

    @rule(uid=UIDS, terminating=st.booleans(), started=st.booleans())
    def see(self, uid: str, terminating: bool, started: bool) -> None:
        pod = victim(uid)
        pod = pod.terminating() if terminating else pod
        pod = pod.start_time("2026-01-01T00:00:00Z") if started else pod
        self.cache.add(pod.obj())
        if terminating:
            self.assumed.discard(uid)

    @rule(uid=UIDS)
    def evict(self, uid: str) -> None:
        pod = self.cache.pod(uid)
        if pod is not None and pod.deleted is None:
            self.assumed.add(uid)
        self.cache.evict(uid, TARGET, NOW)

    @rule(uid=UIDS)
    def fail(self, uid: str) -> None:
        self.cache.keep(uid)
        if uid in self.assumed:
            self.assumed.discard(uid)
            assert shown(self.cache, uid).deleted is None

    @rule(uid=UIDS)
    def end(self, uid: str) -> None:
        self.cache.remove(uid)
        self.assumed.discard(uid)

    @rule(uid=UIDS)
    def try_without(self, uid: str) -> None:
        with self.cache.trial():
            self.cache.remove(uid)

    @rule()
    def lose_node(self) -> None:
        self.cache.remove_node("n1")

    @rule()
    def gain_node(self) -> None:
        self.cache.set_node(make_node("n1").capacity(cpu="4", pods=10).obj())

    @invariant()
    def counts(self) -> None:
        assert self.cache.nodes.recount() == self.counters.recount() == {}
        for uid in "abc":
            assert self.cache.is_eviction_assumed(uid) == (uid in self.assumed)
            assert uid not in self.assumed or shown(self.cache, uid).is_preempted


TestEvictions = Evictions.TestCase
