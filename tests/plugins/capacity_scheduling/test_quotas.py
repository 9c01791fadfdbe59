"""What namespaces use is right at every moment, whatever comes first; how amounts are compared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.plugins.capacity_scheduling.world import (
    minimum_of,
    nonzero,
    place,
    pod,
    quota,
    quota_cluster,
    quotas_of,
    used_of,
)

from bayplan.api.kinds import ELASTIC_QUOTA
from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET, PREEMPTED, Pod
from bayplan.cache.amounts import NO_ROW
from bayplan.cache.cache import Cache
from bayplan.plugins.capacity_scheduling.quotas import TOTAL, QuotaRows, Quotas
from bayplan.testing import make_node, make_pod

GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"containers": [{"cpu": "1", "memory": "1Gi"}, {"cpu": "500m"}]},
            {"cpu": 1500, "memory": 2**30},
            id="containers-add-up",
        ),
        pytest.param(
            {"containers": [{"cpu": "1"}], "initContainers": [{"cpu": "3"}, {"memory": "1"}]},
            {"cpu": 3000, "memory": 1},
            id="an-init-container-raises-the-sum",
        ),
        pytest.param(
            {"containers": [{"cpu": "1"}], "overhead": {"cpu": "250m"}},
            {"cpu": 1250},
            id="overhead-comes-on-top",
        ),
        pytest.param(
            {"containers": [{"memory": "0.5"}, {"memory": "0.5"}]},
            {"memory": 2},
            id="each-container-is-rounded-up",
        ),
        pytest.param(
            {"containers": [{GPU: "2", "requests.cpu": "1", "storage": "1"}]},
            {GPU: 2},
            id="names-that-the-scheduler-does-not-count",
        ),
    ],
)
def test_what_a_pod_takes(spec: dict[str, Any], expected: dict[str, int]) -> None:
    for kind in ("containers", "initContainers"):
        spec[kind] = [{"resources": {"requests": amounts}} for amounts in spec.get(kind, [])]
    assert _takes(make_pod("p").spec(**spec).obj()) == expected


def test_a_sidecar_counts_as_an_init_container() -> None:
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    pod = make_pod("p").req(cpu="2").spec(initContainers=[sidecar])
    assert _takes(pod.obj()) == {"cpu": 2000}


def _takes(pod: Pod) -> dict[str, int]:
    cache = Cache()
    return dict(Quotas(cache, cache.objects).amounts(pod))


@pytest.mark.parametrize(
    ("maximum", "named", "expected"),
    [
        pytest.param({"cpu": 5}, {}, {"cpu": 5000, "memory": 0}, id="no-memory-means-0"),
        pytest.param({"cpu": 5}, {GPU}, {"cpu": 5000, "memory": 0}, id="an-unnamed-gpu-is-free"),
        pytest.param({GPU: 4}, {}, {"cpu": 0, "memory": 0}, id="only-what-is-named-is-compared"),
        pytest.param({GPU: 4}, {GPU}, {"cpu": 0, "memory": 0, GPU: 4}, id="a-named-gpu"),
        pytest.param(None, {GPU}, {}, id="no-maximum-no-limit"),
    ],
)
def test_which_limits_hold_for_a_pod(
    maximum: dict[str, Any] | None, named: set[str], expected: dict[str, int]
) -> None:
    rows = QuotaRows([quota("a", {"cpu": 3}, maximum).obj(), quota("b", {"cpu": 4}).obj()], [GPU])
    limits = rows.limits_on(rows.row_of["a"], [0] * len(rows.resources), named)
    own = {rows.resources[column]: most for row, column, most in limits if row != TOTAL}
    assert own == expected | ({} if maximum is None else {"ephemeral-storage": 0})
    total = {rows.resources[column]: most for row, column, most in limits if row == TOTAL}
    assert total == {"cpu": 7000, "memory": 0, "ephemeral-storage": 0, GPU: 0}


@pytest.mark.parametrize(
    ("used", "above"),
    [
        pytest.param({"cpu": 3000}, False, id="up-to-it"),
        pytest.param({"cpu": 3001}, True, id="above"),
        pytest.param({"memory": 1}, True, id="no-memory-means-0"),
        pytest.param({GPU: 1}, True, id="an-unnamed-gpu-means-0"),
    ],
)
def test_when_a_namespace_is_above_its_minimum(used: dict[str, int], above: bool) -> None:
    rows = QuotaRows([quota("a", {"cpu": 3}).obj()], [GPU])
    amounts = [used.get(name, 0) for name in rows.resources]
    assert rows.is_above_minimum(rows.row_of["a"], amounts) is above


def test_a_quota_made_after_its_pods_knows_what_they_use() -> None:
    cluster = quota_cluster(n1=8)
    place(cluster, "n1", pod("a/one", 2), pod("b/other"))
    place(cluster, "gone", pod("a/on-a-node-that-is-gone"))
    cluster.add(quota("a", {"cpu": 4}))
    assert used_of(quotas_of(cluster), "a") == {"cpu": 3000}


def test_a_quota_of_another_namespace_changes_no_use() -> None:
    cluster = quota_cluster(n1=8)
    cluster.add(quota("a", {"cpu": 4}))
    place(cluster, "n1", pod("a/one", 2), pod("b/other"))
    cluster.add(quota("b"))
    assert used_of(quotas_of(cluster), "a") == {"cpu": 2000}
    assert used_of(quotas_of(cluster), "b") == {"cpu": 1000}


def test_a_second_quota_of_a_namespace_counts_nothing_twice() -> None:
    cluster = quota_cluster(n1=8)
    old = quota("a", {"cpu": 1}, name="old").meta(creationTimestamp="2026-01-01T00:00:00Z")
    young = quota("a", {"cpu": 2}, name="a").meta(creationTimestamp="2026-01-02T00:00:00Z")
    cluster.add(old)
    place(cluster, "n1", pod("a/one", 2))
    quotas = quotas_of(cluster)
    for change in (cluster.add, cluster.remove):
        change(young)
        assert used_of(quotas, "a") == {"cpu": 2000}
        assert quotas.sums.used_rows[TOTAL] == quotas.sums.used_rows[quotas.structure.row_of["a"]]
        assert minimum_of(quotas, "a") == {"cpu": 1000}
        assert quotas.recount() == {}


def test_the_oldest_quota_of_a_namespace_counts() -> None:
    cluster = quota_cluster()
    old = quota("a", {"cpu": 1}, name="old").meta(creationTimestamp="2026-01-01T00:00:00Z")
    young = quota("a", {"cpu": 2}, name="a").meta(creationTimestamp="2026-01-02T00:00:00Z")
    cluster.add(young, old)
    assert minimum_of(quotas_of(cluster), "a") == {"cpu": 1000}
    cluster.remove(old)
    assert minimum_of(quotas_of(cluster), "a") == {"cpu": 2000}
    cluster.remove(young)
    assert minimum_of(quotas_of(cluster), "a") is None


def test_a_quota_with_an_amount_that_is_none_is_left_out() -> None:
    cluster = quota_cluster()
    cluster.add(quota("a", {"cpu": "much"}), quota("b", {"cpu": 1}))
    assert set(quotas_of(cluster).structure.row_of) == {"b"}


def test_a_status_of_a_quota_changes_nothing() -> None:
    cluster = quota_cluster()
    made = quota("a", {"cpu": 1})
    cluster.add(made)
    sums = quotas_of(cluster).sums
    cluster.add(made.status(used={"cpu": "1"}))
    assert quotas_of(cluster).sums is sums


@pytest.mark.parametrize(
    ("maximum", "admitted"),
    [(None, True), ({}, False), ({"cpu": 8}, False), ({"cpu": 8, "memory": "1Gi"}, True)],
    ids=["absent", "empty", "cpu-alone", "both"],
)
def test_an_absent_maximum_is_no_limit_and_an_absent_name_is_none_of_it(
    maximum: dict[str, object] | None, admitted: bool
) -> None:
    cluster = quota_cluster(n1=8)
    cluster.add(quota("a", {"cpu": 9, "memory": "9Gi"}, maximum=maximum))
    cluster.add(pod("a/p").req(cpu="1", memory="1Mi"))
    cluster.run()
    assert bool(cluster.node_of("a/p")) is admitted


def test_a_wrong_sum_is_found_exported_and_mended() -> None:
    cluster = quota_cluster(n1=8)
    cluster.add(quota("a"))
    place(cluster, "n1", pod("a/one", 2))
    plugin = next(p for p in cluster.framework.plugins.all if p.name == "CapacityScheduling")
    assert plugin.recount() == {}  # type: ignore[attr-defined]
    quotas = quotas_of(cluster)
    quotas.sums.used_rows[quotas.structure.row_of["a"]][0] += 1
    assert plugin.recount() == {"used": 1}  # type: ignore[attr-defined]
    metric = {"plugin": "CapacityScheduling", "name": "used_differences"}
    assert cluster.metric("bayplan_plugin_value", **metric) == 1
    assert plugin.recount() == {}  # type: ignore[attr-defined]
    assert cluster.metric("bayplan_plugin_value", **metric) == 0


NAMESPACES = st.sampled_from(["a", "b", "c"])
UIDS = st.sampled_from([f"u{i}" for i in range(8)])
NODES = st.sampled_from(["n1", "n2"])
CPUS = st.sampled_from([1, 2, 5])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
REASONS = st.sampled_from([PREEMPTED, "EvictionByEvictionAPI"])


class UsedMachine(RuleBasedStateMachine):
    """Pods, nodes and quotas come and go in any order, trials and evictions among them."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.quotas = Quotas(self.cache, self.cache.objects)

    @rule(uid=UIDS, namespace=NAMESPACES, node=NODES, cpu=CPUS, gpu=st.booleans())
    def see(self, uid: str, namespace: str, node: str, cpu: int, gpu: bool) -> None:
        builder = pod(f"{namespace}/{uid}", cpu)
        if gpu:
            builder.req(cpu=str(cpu), **{GPU: "1"})
        self.cache.add(builder.uid(uid).node(node).obj())

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

    @rule(uid=UIDS, reason=REASONS, fails=st.booleans())
    def evict(self, uid: str, reason: str, fails: bool) -> None:
        self.cache.evict(uid, Condition(type=DISRUPTION_TARGET, status="True", reason=reason), NOW)
        if fails:
            self.cache.keep(uid)

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
        sums = self.quotas.sums
        structure = sums.structure
        named = {quota.namespace for quota in self.cache.objects.all(ELASTIC_QUOTA)}
        assert structure.row_of.keys() == named
        total = self._sum([p for p in self.cache.pods() if p.namespace in named])
        assert self._by_name(sums.used_rows[TOTAL]) == total
        for namespace, row in structure.row_of.items():
            pods = [p for p in self.cache.pods() if p.namespace == namespace]
            assert self._by_name(sums.used_rows[row]) == self._sum(pods)
            leaving = [p for p in pods if p.is_preempted]
            assert self._by_name(sums.leaving_rows[row]) == self._sum(leaving)
        columns = zip(*structure.minimum[TOTAL + 1 :], strict=True)
        assert structure.minimum[TOTAL] == [sum(column) for column in columns] or not named
        assert self.quotas.recount() == {}
        assert self.quotas.leaf(pod("none/p").obj()) == NO_ROW

    def _by_name(self, amounts: list[int]) -> dict[str, int]:
        return nonzero(dict(zip(self.quotas.structure.resources, amounts, strict=True)))

    def _sum(self, pods: list[Pod]) -> dict[str, int]:
        total: dict[str, int] = {}
        for placed in pods:
            for name, amount in self.quotas.amounts(placed).items():
                total[name] = total.get(name, 0) + amount
        return total


TestUsed = UsedMachine.TestCase
