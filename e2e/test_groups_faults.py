"""Faults while groups are placed, bound, or wait for room: a group ends whole, or holds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import OTHER, SOON, SYSTEM, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.refusals import allow_bindings, refuse_bindings
from e2e.test_groups import CRD, MULTI_POINT, bound, create_group, members, notes, wait_note

pytestmark = pytest.mark.e2e

SLOWLY = {"qps": 0.4, "burst": 1}
"""So slowly that there is time to do something between two bindings."""


@pytest.fixture
def groups(own: Cluster) -> Iterator[Cluster]:
    """A cluster to break, with PodGroups and a class of priority."""
    own.kubectl("apply", "-f", str(CRD))
    own.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=300s")
    own.kubectl("create", "priorityclass", "e2e-high", "--value=1000")
    yield own
    allow_bindings(own)
    own.kubectl("delete", "podgroups", "--all", namespace=own.namespace)
    own.kubectl("delete", "priorityclass", "e2e-high")


@pytest.fixture
def start(groups: Cluster) -> Iterator[Callable[..., Bayplan]]:
    """Start a scheduler with Coscheduling; ``fields`` are of its configuration."""
    started: list[Bayplan] = []

    def starting(**fields: Any) -> Bayplan:
        profile = {"schedulerName": OTHER, "plugins": {"multiPoint": MULTI_POINT}}
        started.append(groups.bayplan(groups.config(profiles=[profile], **fields)).start())
        return started[-1]

    yield starting
    for bayplan in started:
        bayplan.kill()


def important(group: str, number: int) -> list[Json]:
    """Members of high priority."""
    pods = members(group, number)
    for one in pods:
        one["spec"]["priorityClassName"] = "e2e-high"
    return pods


def names(pods: list[Json]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


def some_are_bound(cluster: Cluster, group: str, least: int = 1) -> None:
    wait_until(lambda: len(bound(cluster, group)) >= least, SOON, f"{least} of {group} bound")


def test_the_api_server_is_killed_while_a_group_is_bound(
    groups: Cluster, start: Callable[..., Bayplan]
) -> None:
    groups.nodes(*(NodeSpec(f"n{i}", cpu="4") for i in range(10)))
    create_group(groups, "g", 40)
    pods = members("g", 40)
    bayplan = start(clientConnection={"qps": 10, "burst": 1})
    groups.create(*pods)
    some_are_bound(groups, "g", 3)
    groups.plane.parts["kube-apiserver"].kill()
    groups.plane.parts["kube-apiserver"].start()
    groups.wait_bound(*names(pods))
    assert groups.overcommitted() == {}
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference")


def test_the_leader_is_killed_between_two_bindings_of_a_group(
    groups: Cluster, start: Callable[..., Bayplan]
) -> None:
    """The next one completes the group, before Pods that would have taken its room."""
    groups.nodes(NodeSpec("n1", cpu="5"))
    create_group(groups, "g", 5)
    pods = members("g", 5)
    first = start(clientConnection=SLOWLY)
    groups.create(*pods)
    some_are_bound(groups, "g", 2)
    first.kill()
    whole = len(bound(groups, "g")) == 5
    groups.create(*(pod(f"rival-{i}", OTHER, cpu="1") for i in range(5)))
    second = start()
    groups.wait_bound(*names(pods))
    assert not whole, "it was too late to prove anything"
    assert groups.overcommitted() == {}
    wait_until(second.holds_what_the_api_server_has, SOON, "no difference")
    groups.wait_condition("rival-0")
    assert bound(groups, "rival") == set()


@pytest.mark.parametrize("least", [1, 4])
def test_a_standby_completes_the_group_in_whose_middle_the_leader_was_killed(
    groups: Cluster, start: Callable[..., Bayplan], least: int
) -> None:
    """It has watched all along, and leads when the Lease has expired. Rivals come before that."""
    lease = {"leaderElect": True, "resourceName": "bayplan", "resourceNamespace": SYSTEM}
    groups.nodes(NodeSpec("n1", cpu="5"))
    create_group(groups, "g", 5)
    pods = members("g", 5)
    leader = start(clientConnection=SLOWLY, leaderElection=lease)
    wait_until(lambda: leader.lines("Leading"), SOON, "it leads")
    standby = start(leaderElection=lease)
    groups.create(*pods)
    some_are_bound(groups, "g", least)
    leader.kill()
    held = bound(groups, "g")
    groups.create(*(pod(f"a-rival-{i}", OTHER, cpu="1") for i in range(5)))
    groups.wait_bound(*names(pods))
    assert least <= len(held) < 5, "the leader was not killed in the middle"
    assert held <= bound(groups, "g"), "nobody has left its node"
    assert groups.overcommitted() == {}
    groups.wait_condition("a-rival-0")
    assert bound(groups, "a-rival") == set()
    wait_until(standby.holds_what_the_api_server_has, SOON, "no difference")


def test_a_group_none_of_whose_bindings_is_accepted_waits_as_a_whole(
    groups: Cluster, start: Callable[..., Bayplan]
) -> None:
    groups.nodes(NodeSpec("n1", cpu="4"))
    refuse_bindings(groups, "!object.metadata.name.startsWith('g-')")
    create_group(groups, "g", 3)
    pods = members("g", 3)
    bayplan = start()
    groups.create(*pods)
    wait_until(lambda: any("Failed: " in n for n in notes(groups, "g")), SOON, "it says so")
    assert bound(groups, "g") == set()
    # It holds nothing meanwhile.
    groups.create(pod("other", OTHER, cpu="4"))
    groups.wait_bound("other")
    groups.delete("other")
    allow_bindings(groups)
    groups.wait_bound(*names(pods))
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference")


def test_a_binding_that_is_refused_is_made_up_for(
    groups: Cluster, start: Callable[..., Bayplan]
) -> None:
    groups.nodes(NodeSpec("n1", cpu="3"))
    refuse_bindings(groups, "object.metadata.name != 'g-1'")
    create_group(groups, "g", 3)
    pods = members("g", 3)
    start()
    groups.create(*pods)
    groups.wait_bound("g-0", "g-2")
    wait_note(groups, "g", "another one goes singly: ")
    allow_bindings(groups)
    groups.wait_bound("g-1")
    assert groups.overcommitted() == {}


def test_a_member_is_deleted_while_its_group_is_bound(
    groups: Cluster, start: Callable[..., Bayplan]
) -> None:
    groups.nodes(NodeSpec("n1", cpu="6"))
    create_group(groups, "g", 6)
    pods = members("g", 6)
    bayplan = start(clientConnection=SLOWLY)
    groups.create(*pods)
    some_are_bound(groups, "g", 2)
    late = next(name for name in names(pods) if not groups.node_of(name))
    groups.delete(late)
    groups.create(*members("g", 1, first=9))
    groups.wait_bound(*(set(names(pods)) - {late}), "g-9")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference")


def test_a_group_evicts_others_and_takes_their_room(
    groups: Cluster, start: Callable[..., Bayplan]
) -> None:
    groups.nodes(NodeSpec("n1", cpu="4"), NodeSpec("n2", cpu="4"))
    low = [pod(f"low-{i}", OTHER, cpu="1") for i in range(8)]
    bayplan = start()
    groups.create(*low)
    groups.wait_bound(*names(low))
    create_group(groups, "g", 6)
    pods = important("g", 6)
    groups.create(*pods)
    groups.wait_bound(*names(pods))
    text = "MakingRoom: 6 Pods of lower priority are evicted, so that 6 Pods fit"
    assert text in notes(groups, "g")
    assert len(bound(groups, "low")) == 2
    assert groups.overcommitted() == {}
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference")


def test_the_leader_is_killed_while_victims_leave(
    groups: Cluster, start: Callable[..., Bayplan]
) -> None:
    """The next one knows for whom they leave, and evicts nobody else."""
    groups.nodes(NodeSpec("n1", cpu="4"))
    low = [pod(f"low-{i}", OTHER, cpu="1") for i in range(4)]
    for one in low:
        one["metadata"]["finalizers"] = ["bayplan.dev/e2e"]
    first = start()
    groups.create(*low)
    groups.wait_bound(*names(low))
    create_group(groups, "g", 2)
    pods = important("g", 2)
    groups.create(*pods)

    def leaving() -> set[str]:
        found = groups.pods().items()
        return {n for n, p in found if p["metadata"].get("deletionTimestamp")}

    wait_until(lambda: len(leaving()) == 2, SOON, "two leave")

    def nominated() -> list[str]:
        return [groups.pod(n)["status"].get("nominatedNodeName", "") for n in names(pods)]

    wait_until(lambda: nominated() == ["n1", "n1"], SOON, "they are nominated")
    victims = leaving()
    first.kill()
    start()
    groups.create(*(pod(f"rival-{i}", OTHER, cpu="1") for i in range(4)))
    groups.wait_condition("rival-0")
    assert leaving() == victims
    for name in names(low):
        groups.kubectl("patch", "pod", name, "--type=merge", '-p={"metadata":{"finalizers":null}}',
                       namespace=groups.namespace)  # fmt: skip
    groups.wait_bound(*names(pods))
    assert bound(groups, "rival") == set()
    assert set(names(low)) - victims == bound(groups, "low")


def test_the_node_that_was_cleared_is_gone(groups: Cluster, start: Callable[..., Bayplan]) -> None:
    """Then the group looks for room anew."""
    groups.nodes(NodeSpec("n1", cpu="2"))
    start()
    low = [pod(f"low-{i}", OTHER, cpu="1") for i in range(2)]
    for one in low:
        one["metadata"]["finalizers"] = ["bayplan.dev/e2e"]
    groups.create(*low)
    groups.wait_bound(*names(low))
    create_group(groups, "g", 2)
    pods = important("g", 2)
    groups.create(*pods)
    wait_note(groups, "g", "MakingRoom: 2 Pods of lower priority")
    groups.kubectl("delete", "node", "n1")
    groups.nodes(NodeSpec("n2", cpu="2"))
    assert set(groups.wait_bound(*names(pods)).values()) == {"n2"}
    for name in names(low):
        groups.kubectl("patch", "pod", name, "--type=merge", '-p={"metadata":{"finalizers":null}}',
                       namespace=groups.namespace)  # fmt: skip
