"""Nodes whose Pods request more than there is."""

from __future__ import annotations

from structlog.testing import capture_logs

from bayplan.cache.cache import Cache
from bayplan.rejections.overcommit import CHECK_SECONDS, Overcommit, overcommitted
from bayplan.testing import Clock, make_node, make_pod

NODE = make_node("n1").capacity(cpu="2", memory="4Gi", pods=2)


def with_pods(*pods: str) -> tuple[Cache, Overcommit, Clock]:
    """A node with Pods of 1500m each."""
    cache, clock = Cache(), Clock()
    cache.set_node(NODE.obj())
    for name in pods:
        cache.add(make_pod(name).req(cpu="1500m").node("n1").uid(name).obj())
    return cache, Overcommit(cache.nodes, clock), clock


def test_what_is_requested_beyond_the_allocatable_is_shown_per_node_and_resource() -> None:
    cache, overcommit, _ = with_pods("a", "b", "c")
    overcommit.check()
    assert overcommit.excess == {("n1", "cpu"): 2.5, ("n1", "pods"): 1}
    assert overcommitted(cache.nodes, 0)


def test_a_full_node_is_not_overcommitted() -> None:
    cache, overcommit, _ = with_pods("a")
    cache.add(make_pod("rest").req(cpu="500m", memory="4Gi").node("n1").obj())
    overcommit.check()
    assert overcommit.excess == {}
    assert not overcommitted(cache.nodes, 0)


def test_an_extended_resource_that_the_node_does_not_offer_does_not_count() -> None:
    cache, overcommit, _ = with_pods()
    cache.add(make_pod("a").req({"example.com/license": "1"}).node("n1").obj())
    overcommit.check()
    assert overcommit.excess == {}


def test_the_log_says_when_it_begins_and_when_it_ends() -> None:
    cache, overcommit, clock = with_pods("a", "b")
    with capture_logs() as logs:
        overcommit.check()
        clock.time += CHECK_SECONDS
        overcommit.check()
        cache.remove("b")
        clock.time += CHECK_SECONDS
        overcommit.check()
    assert [(line["event"], line["node"], line["resource"]) for line in logs] == [
        ("Node is overcommitted", "n1", "cpu"),
        ("Node is no longer overcommitted", "n1", "cpu"),
    ]


def test_nodes_are_compared_once_in_a_while_only() -> None:
    cache, overcommit, clock = with_pods("a")
    overcommit.check()
    cache.add(make_pod("b").req(cpu="1500m").node("n1").obj())
    overcommit.check()
    assert overcommit.excess == {}
    clock.time += CHECK_SECONDS
    overcommit.check()
    assert overcommit.excess
