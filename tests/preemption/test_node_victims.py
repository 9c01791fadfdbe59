"""Who would have to leave which node: small clusters through the whole framework."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.preemption.world import World, candidates, node, preemptor, tied, victim

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from bayplan.api.pod import Pod
from bayplan.testing import PodBuilder, labels_are, make_pod, make_pv, make_pvc

HOST = "kubernetes.io/hostname"
ZONE = "zone"
WEB = labels_are({"app": "web"})


def web(pod: PodBuilder) -> PodBuilder:
    return pod.label("app", "web")


def one_node(*pods: PodBuilder, cpu: int = 4) -> World:
    world = World(node("n1", cpu))
    world.put("n1", *pods)
    return world


def test_as_many_as_possible_stay_the_most_important_first() -> None:
    world = one_node(
        victim("small", 1, priority=1),
        victim("big", 2, priority=2),
        victim("top", 1, priority=2000),
    )
    assert candidates(world.analyse(preemptor(cpu=2))) == {"n1": (["big"], 0)}
    assert candidates(world.analyse(preemptor(cpu=3))) == {"n1": (["big", "small"], 0)}
    assert candidates(world.analyse(preemptor(cpu=1))) == {"n1": (["small"], 0)}


def test_pods_of_the_same_priority_are_no_victims() -> None:
    world = one_node(victim("equal", 4, priority=1000))
    analysis = world.analyse(preemptor())
    assert analysis.best is None
    assert "1 No preemption victims found for incoming pod" in analysis.result.status.message


def test_protected_pods_get_the_first_chance_to_stay() -> None:
    world = one_node(web(victim("guarded", 2, priority=1)), victim("free", 2, priority=9))
    assert candidates(world.analyse(preemptor(cpu=2))) == {"n1": (["guarded"], 0)}
    world.budget("web", WEB, allowed=0)
    assert candidates(world.analyse(preemptor(cpu=2))) == {"n1": (["free"], 0)}


def test_a_violated_budget_is_counted_and_avoided() -> None:
    world = World(node("n1"), node("n2"))
    world.put("n1", web(victim("guarded", 4, priority=1)))
    world.put("n2", victim("free", 4, priority=9))
    world.budget("web", WEB, allowed=0)
    analysis = world.analyse(preemptor())
    assert candidates(analysis) == {"n1": (["guarded"], 1), "n2": (["free"], 0)}
    assert tied(analysis) == ["n2"]


def test_terminating_pods_are_victims_as_others_are() -> None:
    world = one_node(victim("leaving", 4).terminating())
    assert candidates(world.analyse(preemptor())) == {"n1": (["leaving"], 0)}


def test_a_host_port_is_freed_by_the_pod_that_has_it() -> None:
    world = one_node(victim("other").host_port(81), victim("port").host_port(80), cpu=8)
    analysis = world.analyse(preemptor(cpu=1).host_port(80))
    assert candidates(analysis) == {"n1": (["port"], 0)}


def test_a_full_node_loses_only_one_pod() -> None:
    world = World(node("n1").capacity(pods=2))
    world.put("n1", victim("old", started=1), victim("young", started=2))
    assert candidates(world.analyse(preemptor(cpu=1))) == {"n1": (["young"], 0)}


def test_what_evicting_cannot_resolve_is_no_candidate() -> None:
    world = World(node("small", 1), node("tainted").taint("dedicated"), node("n1"))
    for name, cpu in (("small", 1), ("tainted", 4), ("n1", 4)):
        world.put(name, victim(f"on-{name}", cpu))
    assert candidates(world.analyse(preemptor())) == {"n1": (["on-n1"], 0)}


# Affinity and spreading: rows are independent


def test_anti_affinity_of_the_preemptor_drives_out_whom_it_means() -> None:
    world = World(*(node(f"n{i}", 9).label(ZONE, "z") for i in (1, 2)))
    world.put("n1", web(victim("web")), victim("other"))
    analysis = world.analyse(preemptor(cpu=1).pod_anti_affinity(ZONE, WEB))
    # On n2 as well the Pod on n1 is in the way, but evicting Pods of n2 does not help there.
    assert candidates(analysis) == {"n1": (["web"], 0)}


def test_anti_affinity_of_existing_pods_makes_them_victims() -> None:
    world = World(node("n1", 9), node("n2", 9))
    for name in ("n1", "n2"):
        world.put(name, victim(f"shy-{name}").pod_anti_affinity(HOST, WEB), victim(f"x-{name}"))
    assert candidates(world.analyse(web(preemptor(cpu=1)))) == {
        "n1": (["shy-n1"], 0),
        "n2": (["shy-n2"], 0),
    }


def test_affinity_to_a_pod_that_would_have_to_leave_is_no_help() -> None:
    world = one_node(web(victim("web", 4)))
    analysis = world.analyse(preemptor(cpu=4).pod_affinity(HOST, WEB))
    assert analysis.candidates == ()
    assert "1 node(s) didn't match pod affinity rules" in analysis.result.status.message


def test_affinity_to_a_pod_that_stays_is_met() -> None:
    world = one_node(web(victim("stays", 1, priority=2000)), victim("other", 3))
    analysis = world.analyse(preemptor(cpu=3).pod_affinity(HOST, WEB))
    assert candidates(analysis) == {"n1": (["other"], 0)}


def test_spreading_counts_in_each_world_what_is_left_there() -> None:
    world = World(
        node("a1", 9).label(ZONE, "a"),
        node("a2", 9).label(ZONE, "a"),
        node("b", 1).label(ZONE, "b"),
    )
    world.put("a1", web(victim("a1-1")), web(victim("a1-2", priority=2)))
    world.put("a2", web(victim("a2-1")))
    world.put("b", web(victim("b-1", priority=2000)))
    # Three in zone a and one in b: two of zone a would have to go before a fourth is even enough.
    analysis = world.analyse(web(preemptor(cpu=1)).spread(ZONE, WEB))
    assert candidates(analysis) == {"a1": (["a1-2", "a1-1"], 0)}


def test_a_claim_for_one_pod_alone_is_freed_where_its_user_is() -> None:
    world = World(node("n1", 9), node("n2", 9))
    objects = world.cache.objects
    claim = make_pvc("data").spec(accessModes=["ReadWriteOncePod"], volumeName="pv")
    objects.set(PERSISTENT_VOLUME_CLAIM, claim.bound_to("pv").obj())
    objects.set(PERSISTENT_VOLUME, make_pv("pv").obj())
    world.put("n1", victim("user").pvc("data"), victim("other"))
    world.put("n2", victim("elsewhere"))
    assert candidates(world.analyse(preemptor(cpu=1).pvc("data"))) == {"n1": (["user"], 0)}


# Nominated Pods: a world within a world


def nominate(world: World, pod: PodBuilder, name: str) -> Pod:
    rival = pod.obj()
    world.world.nominator.nominate(rival, name)
    return rival


def test_room_that_is_kept_for_a_nominated_pod_is_not_there() -> None:
    world = one_node(victim("a", 2), victim("b", 2, priority=1))
    nominate(world, make_pod("rival").req(cpu="2").priority(1000), "n1")
    assert candidates(world.analyse(preemptor(cpu=2))) == {"n1": (["b", "a"], 0)}
    assert world.analyse(preemptor(cpu=3)).candidates == ()


def test_nominated_pods_of_lower_priority_do_not_count() -> None:
    world = one_node(victim("a", 2), victim("b", 2, priority=1))
    nominate(world, make_pod("lower").req(cpu="2").priority(999), "n1")
    assert candidates(world.analyse(preemptor(cpu=2))) == {"n1": (["a"], 0)}


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(lambda p: p.pod_anti_affinity(HOST, WEB), id="anti-affinity"),
        pytest.param(lambda p: p.spread(HOST, WEB).label("app", "web"), id="spreading"),
    ],
)
def test_wishes_about_other_pods_take_nominated_ones_into_account(
    wish: Callable[[PodBuilder], PodBuilder],
) -> None:
    world = World(node("n1"), node("n2"), node("n3", 0))
    for name in ("n1", "n2"):
        world.put(name, victim(f"v-{name}", 4))
    assert set(candidates(world.analyse(wish(preemptor())))) == {"n1", "n2"}
    nominate(world, web(make_pod("rival").priority(5000)), "n2")
    assert candidates(world.analyse(wish(preemptor()))) == {"n1": (["v-n1"], 0)}


def test_affinity_to_a_nominated_pod_alone_is_not_enough() -> None:
    world = World(node("n1"), node("n2"))
    for name in ("n1", "n2"):
        world.put(name, victim(f"v-{name}", 4))
    world.put("n2", web(victim("web", 0, priority=2000)))
    nominate(world, web(make_pod("rival").priority(5000)), "n1")
    analysis = world.analyse(preemptor().pod_affinity(HOST, WEB))
    assert candidates(analysis) == {"n2": (["v-n2"], 0)}
