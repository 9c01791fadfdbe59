"""Budgets of DomainCost beside a judge that adds up the exact prices of all Pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, profile
from tests.groups import (
    GATES,
    Inferred,
    Kubernetes,
    Label,
    Source,
    basic,
    below,
    composite,
    pod_group,
)
from tests.properties import length
from tests.queues import queue

from bayplan.api.kinds import COMPOSITE_POD_GROUP, KUBERNETES_POD_GROUP, NAMESPACE, POD_GROUP, QUEUE
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.config import ConfigError
from bayplan.config.args import BudgetArgs, DomainCostArgs
from bayplan.explain.explanation import explain
from bayplan.plugins.domain_cost import HOURLY_PRICE, DomainCost
from bayplan.plugins.domain_cost.budgets import UNIT, Scope
from bayplan.testing import Builder, NodeBuilder, PodBuilder, make_node, make_object, make_pod

BUDGET = "bayplan.dev/hourly-budget"
DEFAULT = Scope("Namespace", "default")
WRONG = (None, "cheap")
CPUS = st.lists(st.integers(1, 5), max_size=7)


def cluster_with(*names: str, gates: str = "", **args: Any) -> Cluster:
    made = profile("DomainCost", *names, args={"DomainCost": {"budget": {}, **args}})
    if "Coscheduling" in names:
        made["plugins"]["multiPoint"]["disabled"] = [{"name": "PrioritySort"}]
        made["pluginConfig"].append({"name": "Coscheduling", "args": {"inferGroups": ["Job"]}})
    cluster = Cluster(profiles=[made], feature_gates=gates)
    cluster.writer.on_bound = cluster._show_bound
    return cluster


def node(name: str, price: str | None, cpu: int = 8) -> NodeBuilder:
    built = make_node(name).capacity(cpu=str(cpu), memory="32Gi", pods="110")
    return built if price is None else built.annotation(HOURLY_PRICE, price)


def said(budget: str | None) -> dict[str, str]:
    return {} if budget is None else {BUDGET: budget}


def namespace(name: str, budget: str | None) -> Builder[Any]:
    return make_object(NAMESPACE, name).meta(annotations=said(budget))


def pod(name: str, cpu: int = 2) -> PodBuilder:
    return make_pod(name).req(cpu=cpu)


def spent(cluster: Cluster, scope: Scope = DEFAULT) -> Fraction:
    budgets = cluster.plugin(DomainCost).budgets
    assert budgets is not None
    return Fraction(budgets.spent(scope), UNIT)


def named(scope: Scope, budget: str | None) -> Builder[Any]:
    annotations = said(budget)
    if scope.kind == "Namespace":
        return make_object(NAMESPACE, scope.key).meta(annotations=annotations)
    if scope.kind == "Queue":
        built = queue(scope.key, "a", parent="root") if scope.key == "leaf" else queue(scope.key)
        return built.meta(annotations=annotations)
    if scope.kind == "PodGroup":
        return pod_group("g", annotations, minMember=1).namespace("a")
    if scope.kind == "CompositePodGroup":
        return composite("above").namespace("a").meta(annotations=annotations)
    return below(basic("k"), "above").namespace("a").meta(annotations=annotations)


SCOPES = [
    Scope("Namespace", "a"),
    Scope("Namespace", "b"),
    Scope("Queue", "root"),
    Scope("Queue", "leaf"),
    Scope("PodGroup", "a/g"),
    Scope("PodGroup.scheduling.k8s.io", "a/k"),
    Scope("CompositePodGroup", "a/above"),
]
OF_KUBERNETES = SCOPES[-2:]
GROUPS = ("", "g", "k")


def belongs(scope: Scope, at: str, group: str) -> bool:
    if scope.kind == "Namespace":
        return scope.key == at
    return at == "a" and (
        scope.kind == "Queue" or group == ("k" if scope in OF_KUBERNETES else "g")
    )


def in_group(pod: PodBuilder, group: str) -> PodBuilder:
    if group == "g":
        return pod.label(POD_GROUP_LABEL, "g")
    return pod.pod_group(group) if group else pod


def by_judge(
    scope: Scope,
    prices: Mapping[str, str | None],
    pods: Iterable[tuple[PodBuilder, str, str, int, str]],
) -> Fraction:
    highest = max((Fraction(p) for p in prices.values() if p not in WRONG), default=Fraction(0))
    total = Fraction(0)
    for _, at, group, cpu, where in pods:
        if where in prices and belongs(scope, at, group):
            price = prices[where]
            total += (highest if price in WRONG else Fraction(str(price))) * Fraction(cpu, 8)
    return total


@given(data=st.data())
@length(30)
def test_what_is_spent_is_the_sum_over_all_pods_whatever_changes(data: st.DataObject) -> None:
    cluster = cluster_with("GangScheduling", gates=GATES)
    cluster.add(named(Scope("Queue", "root"), None), named(Scope("Queue", "leaf"), None))
    for scope in data.draw(st.permutations(OF_KUBERNETES)):
        cluster.add(named(scope, None))
    prices: dict[str, str | None] = {}
    budgets: dict[Scope, str | None] = {}
    pods: dict[str, tuple[PodBuilder, str, str, int, str]] = {}
    draw = data.draw
    for step in range(draw(st.integers(4, 14))):
        what = draw(st.sampled_from(["node", "no node", "budget", "pod", "pod", "no pod"]))
        name = draw(st.sampled_from(["n0", "n1", "n2"]))
        if what == "node":
            prices[name] = draw(st.sampled_from(["0.5", "1.25", "3", None, "cheap"]))
            cluster.add(node(name, prices[name]))
        elif what == "no node" and prices.pop(name, "") != "":
            cluster.remove(node(name, None))
        elif what == "budget":
            scope = draw(st.sampled_from(SCOPES))
            budgets[scope] = draw(st.sampled_from(["5", "0", None, "3 EUR"]))
            cluster.add(named(scope, budgets[scope]))
        elif what == "pod":
            at, group, cpu = draw(st.sampled_from("ab")), draw(st.sampled_from(GROUPS)), step % 4
            one = in_group(pod(f"p{step}", cpu).namespace(at).spec(nodeName=name), group)
            pods[f"p{step}"] = one, at, group, cpu, name
            cluster.add(one)
        elif what == "no pod" and pods:
            cluster.remove(pods.pop(draw(st.sampled_from(sorted(pods))))[0])
        for scope in [scope for scope, budget in budgets.items() if budget is not None]:
            assert spent(cluster, scope) == by_judge(scope, prices, pods.values())
        assert cluster.framework.services.recounts["DomainCost"]() == {}


@given(data=st.data())
@length(20)
def test_a_budget_is_never_exceeded_and_nobody_waits_whom_it_allows(data: st.DataObject) -> None:
    cluster = cluster_with()
    rates = [data.draw(st.integers(0, 30)) for _ in range(3)]
    cluster.add(*(node(f"n{i}", f"{rate / 10}") for i, rate in enumerate(rates)))
    limit = data.draw(st.integers(0, 30))
    cluster.add(namespace("default", f"{limit / 10}"))
    pods = [(cpu, pod(f"p{i}", cpu)) for i, cpu in enumerate(data.draw(CPUS))]
    for _, one in pods:
        cluster.add(one)
        cluster.run()
    total, free = Fraction(0), dict.fromkeys(range(3), 8)
    for cpu, one in pods:
        if at := cluster.node_of(one):
            total += Fraction(rates[int(at[1])], 10) * Fraction(cpu, 8)
            free[int(at[1])] -= cpu
    assert total <= Fraction(limit, 10)
    assert spent(cluster) == total
    for cpu, one in pods:
        if not cluster.node_of(one):
            costs = [Fraction(rates[i], 10) * Fraction(cpu, 8) for i in free if free[i] >= cpu]
            assert all(total + cost > Fraction(limit, 10) for cost in costs)


def test_what_waits_is_told_by_how_much_and_goes_when_the_budget_allows() -> None:
    cluster = cluster_with()
    cluster.add(node("a", "4"), namespace("default", "3"))
    first, second = pod("first", 5), pod("second", 2)
    cluster.add(first)
    cluster.run()
    cluster.add(second)
    cluster.run()
    assert cluster.node_of(first) == "a"
    expected = "hourly budget of Namespace default: 3.5000 or more of 3.0000 with this node"
    assert expected in cluster.message(second)
    details = explain(cluster.framework, cluster.core.placers, second.obj(), details=True)
    assert details["details"] == [
        "hourly budget of Namespace default: 2.5000 of 3.0000 is spent",
        "1.0000 an hour on a",
    ]
    cluster.add(namespace("default", "3.5"))
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of(second) == "a"


def test_a_cheaper_node_is_taken_where_the_dear_one_is_too_much() -> None:
    cluster = cluster_with()
    cluster.add(node("dear", "8"), namespace("default", "1"))
    cluster.add(one := pod("p", 2))
    cluster.run()
    assert not cluster.node_of(one)
    cluster.add(node("cheap", "4"))
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of(one) == "cheap"


@pytest.mark.parametrize("source", [Label(), Kubernetes(), Inferred()], ids=str)
def test_a_group_fits_in_the_budget_as_a_whole_or_not_at_all(source: Source) -> None:
    plugin = "GangScheduling" if isinstance(source, Kubernetes) else "Coscheduling"
    cluster = cluster_with(plugin, gates=GATES)
    cluster.add(node("a", "8"), source.group(4).meta(annotations=said("3")))
    pods = source.members(4)
    cluster.add(*pods)
    cluster.run()
    assert [cluster.node_of(one) for one in pods] == [""] * 4
    cluster.add(source.group(4).meta(annotations=said("4")))
    [chore] = cluster.framework.services.chores
    chore()
    cluster.wait(60)
    cluster.run()
    assert [cluster.node_of(one) for one in pods] == ["a"] * 4


def test_an_important_pod_takes_the_budget_of_another() -> None:
    cluster = cluster_with()
    cluster.add(node("a", "8"), namespace("default", "2"))
    cluster.add(low := pod("low", 2))
    cluster.run()
    assert cluster.node_of(low) == "a"
    cluster.add(high := pod("high", 2).priority(10))
    cluster.run()
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of(high) == "a"
    assert spent(cluster) == 2


@pytest.mark.parametrize("wrong", ["3 EUR", "-1", "nan", "inf", "", "much"])
def test_a_budget_that_is_no_number_is_named_and_nothing_is_spent(wrong: str) -> None:
    cluster = cluster_with()
    cluster.add(node("a", "1"), namespace("default", wrong))
    cluster.add(one := pod("p"))
    cluster.run()
    assert "hourly budget of Namespace default is not a number" in cluster.message(one)
    plugin = cluster.plugin(DomainCost)
    assert plugin.budgets is not None
    assert [(f.regarding.name, f.reason) for f in plugin.budgets.faults] == [
        ("default", "InvalidBudget")
    ]
    assert plugin.budgets.figures() == {
        "budgets": 0,
        "invalid_budgets": 1,
        "budgets_exceeded": 0,
    }
    cluster.add(namespace("default", "1"))
    assert not plugin.budgets.faults


def test_budgets_that_prices_exceed_later_are_counted_and_nobody_is_evicted() -> None:
    cluster = cluster_with()
    cluster.add(node("a", "4"), namespace("default", "1"))
    cluster.add(one := pod("p", 2))
    cluster.run()
    cluster.add(node("a", "5"))
    budgets = cluster.plugin(DomainCost).budgets
    assert budgets is not None
    assert budgets.figures()["budgets_exceeded"] == 1
    assert cluster.node_of(one) == "a"


def test_nothing_is_spent_where_no_price_is_known() -> None:
    cluster = cluster_with()
    cluster.add(node("a", None), namespace("default", "1"))
    cluster.add(one := pod("p"))
    cluster.run()
    assert "hourly budget of Namespace default: no price is known" in cluster.message(one)
    cluster.add(node("b", "1"))
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of(one)


def test_budgets_are_read_only_where_the_arguments_say_so() -> None:
    assert DomainCost.kinds_for(DomainCostArgs()) == ()
    assert set(DomainCost.kinds_for(DomainCostArgs(budget=BudgetArgs()))) == {
        NAMESPACE,
        POD_GROUP,
        QUEUE,
        KUBERNETES_POD_GROUP,
        COMPOSITE_POD_GROUP,
    }
    cluster = cluster_with(budget=None)
    cluster.add(node("a", "4"), namespace("default", "0"))
    cluster.add(one := pod("p"))
    cluster.run()
    assert cluster.node_of(one) == "a"
    with pytest.raises(ConfigError, match="must name an annotation"):
        cluster_with(budget={"annotation": ""})
