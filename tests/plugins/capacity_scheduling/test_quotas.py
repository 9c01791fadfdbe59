"""What namespaces use is right at every moment, whatever comes first."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.plugins.capacity_scheduling.world import (
    place,
    pod,
    quota,
    quota_cluster,
    quota_of,
    quotas_of,
)

from bayplan.api.kinds import ELASTIC_QUOTA
from bayplan.cache.cache import Cache
from bayplan.plugins.capacity_scheduling.amounts import Amounts, add, request
from bayplan.plugins.capacity_scheduling.quotas import Quotas
from bayplan.testing import make_node


def test_a_quota_made_after_its_pods_knows_what_they_use() -> None:
    cluster = quota_cluster(n1=8)
    place(cluster, "n1", pod("a/one", 2), pod("b/other"))
    place(cluster, "gone", pod("a/on-a-node-that-is-gone"))
    cluster.add(quota("a", {"cpu": 4}))
    made = quota_of(cluster, "a")
    assert made is not None
    assert made.used == {"cpu": 3000}


def test_the_oldest_quota_of_a_namespace_counts() -> None:
    cluster = quota_cluster()
    old = quota("a", {"cpu": 1}, name="old").meta(creationTimestamp="2026-01-01T00:00:00Z")
    young = quota("a", {"cpu": 2}, name="a").meta(creationTimestamp="2026-01-02T00:00:00Z")
    cluster.add(young, old)
    assert quota_of(cluster, "a").minimum == {"cpu": 1000}  # type: ignore[union-attr]
    cluster.remove(old)
    assert quota_of(cluster, "a").minimum == {"cpu": 2000}  # type: ignore[union-attr]
    cluster.remove(young)
    assert quota_of(cluster, "a") is None


def test_a_quota_with_an_amount_that_is_none_is_left_out() -> None:
    cluster = quota_cluster()
    cluster.add(quota("a", {"cpu": "much"}), quota("b", {"cpu": 1}))
    assert set(quotas_of(cluster).by_namespace) == {"b"}


@pytest.mark.parametrize(
    ("maximum", "left"),
    [(None, True), ({}, False), ({"cpu": 8}, False), ({"cpu": 8, "memory": "1Gi"}, True)],
    ids=["absent", "empty", "cpu-alone", "both"],
)
def test_an_absent_maximum_is_no_limit_and_an_absent_name_is_none_of_it(
    maximum: dict[str, object] | None, left: bool
) -> None:
    cluster = quota_cluster()
    cluster.add(quota("a", maximum=maximum))
    made = quota_of(cluster, "a")
    assert made is not None
    room = made.room_below_maximum({"cpu": 1, "memory": 1})
    assert (min(room.values()) >= 0) is left


def test_a_wrong_sum_is_found_exported_and_mended() -> None:
    cluster = quota_cluster(n1=8)
    cluster.add(quota("a"))
    place(cluster, "n1", pod("a/one", 2))
    plugin = next(p for p in cluster.framework.plugins.all if p.name == "CapacityScheduling")
    assert plugin.recount() == {}  # type: ignore[attr-defined]
    quotas_of(cluster)._used["a"]["cpu"] += 1
    expected = "used {'cpu': 2001}, but its Pods take {'cpu': 2000}"
    assert plugin.recount() == {"a": expected}  # type: ignore[attr-defined]
    metric = {"plugin": "CapacityScheduling", "name": "used_differences"}
    assert cluster.metric("bayplan_plugin_value", **metric) == 1
    assert plugin.recount() == {}  # type: ignore[attr-defined]
    assert cluster.metric("bayplan_plugin_value", **metric) == 0


NAMESPACES = st.sampled_from(["a", "b", "c"])
UIDS = st.sampled_from([f"u{i}" for i in range(8)])
NODES = st.sampled_from(["n1", "n2"])
CPUS = st.sampled_from([1, 2, 5])


class UsedMachine(RuleBasedStateMachine):
    """Pods, nodes and quotas come and go in any order, trials among them."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.quotas = Quotas(self.cache, self.cache.objects)

    @rule(uid=UIDS, namespace=NAMESPACES, node=NODES, cpu=CPUS)
    def see(self, uid: str, namespace: str, node: str, cpu: int) -> None:
        self.cache.add(pod(f"{namespace}/{uid}", cpu).uid(uid).node(node).obj())

    @rule(uid=UIDS, namespace=NAMESPACES, node=NODES)
    def assume(self, uid: str, namespace: str, node: str) -> None:
        if self.cache.pod(uid) is None:
            self.cache.assume(pod(f"{namespace}/{uid}").uid(uid).obj(), node)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        self.cache.forget(uid)

    @rule(uid=UIDS)
    def remove(self, uid: str) -> None:
        self.cache.remove(uid)

    @rule(uids=st.lists(UIDS), keep=st.booleans())
    def trial(self, uids: list[str], keep: bool) -> None:
        with self.cache.trial() as trial:
            for uid in uids:
                self.cache.forget(uid)
            self.cache.assume(pod("a/tried").uid("tried").obj(), "n1")
            self.sums_are_right()
            if keep and not uids:
                trial.keep()
        self.cache.remove("tried")

    @rule(name=NODES)
    def set_node(self, name: str) -> None:
        self.cache.set_node(make_node(name).capacity(cpu="9").obj())

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)

    @rule(namespace=NAMESPACES, name=st.sampled_from(["x", "y"]), cpu=CPUS)
    def set_quota(self, namespace: str, name: str, cpu: int) -> None:
        made = quota(namespace, {"cpu": cpu}, name=name)
        self.cache.objects.set(ELASTIC_QUOTA, made.obj())

    @rule(namespace=NAMESPACES, name=st.sampled_from(["x", "y"]))
    def remove_quota(self, namespace: str, name: str) -> None:
        self.cache.objects.remove(ELASTIC_QUOTA, f"{namespace}/{name}")

    @invariant()
    def sums_are_right(self) -> None:
        total: dict[str, int] = {}
        minimum: dict[str, int] = {}
        for namespace, made in self.quotas.by_namespace.items():
            used: dict[str, int] = {}
            for placed in self.cache.pods():
                if placed.namespace == namespace:
                    add(used, request(placed))
            assert _nonzero(made.used) == used
            add(total, used)
            add(minimum, made.minimum)
        assert _nonzero(self.quotas.total_used) == total
        assert self.quotas.total_minimum == minimum
        assert self.quotas.recount() == {}


def _nonzero(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


TestUsed = UsedMachine.TestCase
