"""The cache's states: a Pod counts on one node, whatever is assumed, seen, forgotten or removed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.testing import make_node, make_pod


def cache_with(*names: str) -> Cache:
    cache = Cache()
    for name in names:
        cache.set_node(make_node(name).capacity(cpu="4", pods=10).obj())
    return cache


def cpu(cache: Cache, name: str) -> int:
    row = cache.nodes.row(name)
    assert row is not None
    return int(cache.nodes.requested("cpu")[row])


def pod(node: str = "", amount: str = "1", **meta: Any) -> Pod:
    builder = make_pod("p").uid("u").req(cpu=amount).meta(**meta)
    return (builder.node(node) if node else builder).obj()


def test_an_assumed_pod_counts_until_it_is_forgotten() -> None:
    cache = cache_with("n1")
    assumed = cache.assume(pod(), "n1")
    assert assumed.node_name == "n1"
    assert cache.pod("u") is assumed
    assert cache.is_assumed("u")
    assert cpu(cache, "n1") == 1000
    assert cache.counts() == {"nodes": 1, "pods": 1, "assumed_pods": 1}
    assert cache.forget("u") is assumed
    assert cpu(cache, "n1") == 0
    assert cache.pod("u") is None
    assert cache.forget("u") is None


def test_a_pod_cannot_be_assumed_twice() -> None:
    cache = cache_with("n1")
    cache.assume(pod(), "n1")
    with pytest.raises(ValueError, match=r"default/p \(u\) is in the cache"):
        cache.assume(pod(), "n1")


def test_a_pod_that_was_seen_is_not_forgotten() -> None:
    cache = cache_with("n1")
    cache.assume(pod(), "n1")
    cache.add(pod("n1"))
    assert not cache.is_assumed("u")
    assert cache.forget("u") is None
    assert cpu(cache, "n1") == 1000


def test_what_the_api_server_says_wins() -> None:
    cache = cache_with("n1", "n2")
    cache.assume(pod(), "n1")
    cache.add(pod("n2"))
    assert (cpu(cache, "n1"), cpu(cache, "n2")) == (0, 1000)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"labels": {"a": "b"}}, id="labels"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="deletion"),
    ],
)
def test_a_change_that_counts_moves_the_row(change: dict[str, Any]) -> None:
    cache = cache_with("n1")
    cache.add(pod("n1"))
    position = cache.nodes.pod_journal.position
    changed = pod("n1", **change)
    cache.add(changed)
    assert cache.nodes.pod_journal.position > position
    assert cache.nodes.info(0).pods == [changed]


def test_only_preemption_is_told_of_a_start_time() -> None:
    cache = cache_with("n1")
    cache.add(pod("n1"))
    pods, starts = cache.nodes.pod_journal.position, cache.nodes.start_journal.position
    builder = make_pod("p").uid("u").req(cpu="1").node("n1").start_time("2026-01-01T00:00:00Z")
    cache.add(builder.obj())
    assert cache.nodes.pod_journal.position == pods
    assert cache.nodes.start_journal.since(starts) == [0]


def test_pods_wait_for_their_node_and_may_change_or_end_meanwhile() -> None:
    cache = Cache()
    cache.add(pod("n1"))
    cache.add(pod("n1", resourceVersion="2"))
    cache.add(pod("n1", amount="2"))
    cache.add(make_pod("q").uid("other").req(cpu="1").node("n1").obj())
    cache.remove("other")
    assert cache.remove("other") is None
    assert cache.set_node(make_node("n1").obj()) is None
    assert cpu(cache, "n1") == 2000


def test_a_removed_node_leaves_its_pods_waiting() -> None:
    cache = cache_with("n1")
    cache.add(pod("n1"))
    old = cache.remove_node("n1")
    assert old is not None
    assert old.name == "n1"
    assert cache.remove_node("n1") is None
    assert cache.counts()["pods"] == 1
    cache.set_node(old)
    assert cpu(cache, "n1") == 1000
    assert cache.set_node(old) is old


NODES = ["n0", "n1", "n2"]
UIDS = ["u0", "u1", "u2", "u3"]


class CacheMachine(RuleBasedStateMachine):
    """Random moves, against a model that is nothing but a dict of where each Pod counts."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.pods: dict[str, tuple[str, int]] = {}
        self.assumed: set[str] = set()
        self.nodes: set[str] = set()

    def _pod(self, uid: str, node: str, amount: int) -> Pod:
        builder = make_pod(uid).uid(uid).req(cpu=str(amount), memory=f"{amount}Mi")
        builder.host_port(1000 + amount)
        return (builder.node(node) if node else builder).obj()

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from("ab"))
    def set_node(self, name: str, zone: str) -> None:
        self.cache.set_node(make_node(name).label("zone", zone).capacity(cpu="9").obj())
        self.nodes.add(name)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        assert (self.cache.remove_node(name) is not None) is (name in self.nodes)
        self.nodes.discard(name)

    @rule(uid=st.sampled_from(UIDS), node=st.sampled_from(NODES), amount=st.integers(1, 3))
    def assume(self, uid: str, node: str, amount: int) -> None:
        if uid in self.pods:
            with pytest.raises(ValueError, match="cannot be assumed"):
                self.cache.assume(self._pod(uid, "", amount), node)
            return
        self.cache.assume(self._pod(uid, "", amount), node)
        self.pods[uid] = (node, amount)
        self.assumed.add(uid)

    @rule(uid=st.sampled_from(UIDS))
    def forget(self, uid: str) -> None:
        assert (self.cache.forget(uid) is not None) is (uid in self.assumed)
        if uid in self.assumed:
            del self.pods[uid]
            self.assumed.discard(uid)

    @rule(uid=st.sampled_from(UIDS), node=st.sampled_from(NODES), amount=st.integers(1, 3))
    def add(self, uid: str, node: str, amount: int) -> None:
        self.cache.add(self._pod(uid, node, amount))
        self.pods[uid] = (node, amount)
        self.assumed.discard(uid)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.assumed)))
        self.cache.add(self._pod(uid, *self.pods[uid]))
        self.assumed.discard(uid)

    @rule(uid=st.sampled_from(UIDS))
    def remove(self, uid: str) -> None:
        assert (self.cache.remove(uid) is not None) is (uid in self.pods)
        self.pods.pop(uid, None)
        self.assumed.discard(uid)

    @invariant()
    def every_pod_counts_once_where_it_is(self) -> None:
        cache = self.cache
        assert cache.nodes.recount() == {}
        assert cache.counts() == {
            "nodes": len(self.nodes),
            "pods": len(self.pods),
            "assumed_pods": len(self.assumed),
        }
        for name in self.nodes:
            here = {uid: amount for uid, (node, amount) in self.pods.items() if node == name}
            info = cache.nodes.info(cache.nodes.row(name) or 0)
            assert {p.uid for p in info.pods} == set(here)
            assert info.requested("cpu") == 1000 * sum(here.values())
            assert info.requested("memory") == sum(here.values()) << 20
        for uid in UIDS:
            assert cache.is_assumed(uid) is (uid in self.assumed)
            counted = cache.pod(uid)
            where = (counted.node_name if counted else None, uid in self.pods)
            assert where == (self.pods.get(uid, (None,))[0], uid in self.pods)

    @invariant()
    def free_rows_are_empty(self) -> None:
        nodes = self.cache.nodes
        free = ~nodes.exists
        for column in (nodes.pod_count, nodes.nonzero_cpu, nodes.requested("cpu")):
            assert not column[free].any()
        assert not nodes.allocatable("cpu")[free].any()
        assert (nodes.label("zone").codes[free] == -1).all()


TestCacheMachine = CacheMachine.TestCase
