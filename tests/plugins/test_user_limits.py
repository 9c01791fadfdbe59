"""Limits for each user of a queue: who counts together, who is held, woken and evicted."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.properties import length
from tests.queues import demand, pod, queue, queue_cluster, share

from bayplan.cache import kept_sums
from bayplan.cache.queue_tree.report import reports
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder, make_node

USER = "bayplan.dev/user"


def cluster_with(*queues: object, plugin: str = "Coscheduling") -> Cluster:
    """One node of 8 CPUs."""
    cluster = queue_cluster(plugin)
    cluster.add(make_node("n").capacity(cpu="8", memory="64Gi", pods=110))
    cluster.add(*queues)  # type: ignore[arg-type]
    return cluster


def of(user: str, name: str, cpu: str = "1", namespace: str = "x", priority: int = 0) -> PodBuilder:
    """A Pod of a user."""
    return pod(name, namespace, cpu, priority).label(USER, user)


def bound(cluster: Cluster) -> list[str]:
    """Who was bound, sorted."""
    return sorted(name for name, _ in cluster.bound)


def test_each_user_has_the_limit_and_the_message_names_the_user() -> None:
    cluster = cluster_with(queue("a", "x", userLimit={"cpu": 2}))
    cluster.add(of("ann", "a-0"), of("ann", "a-1"), of("bob", "b-0", "2"))
    cluster.run()
    late = of("ann", "a-2", "500m")
    cluster.add(late)
    cluster.run()
    assert bound(cluster) == ["a-0", "a-1", "b-0"]
    text = "limit of cpu of user ann in queue a is 2: 2 used, 500m requested"
    assert cluster.verdict == ("QueueLimit", text.replace("500m", "0.5"))
    assert cluster.state(late) is QueueState.UNSCHEDULABLE


def test_pods_that_name_no_user_count_together() -> None:
    cluster = cluster_with(queue("a", "x", userLimit={"pods": 1}))
    cluster.add(pod("p", "x"), of("ann", "a"))
    cluster.run()
    cluster.add(pod("q", "x"))
    cluster.run()
    assert bound(cluster) == ["a", "p"]
    text = "limit of pods of Pods without user in queue a is 1: 1 used, 1 requested"
    assert cluster.verdict == ("QueueLimit", text)


def test_the_mark_may_be_an_annotation_of_another_name() -> None:
    cluster = cluster_with(queue("a", "x", userLimit={"cpu": 1}, userKey="example.com/who"))
    names = ["ann@example.com", "ann@example.com", "bob@example.com"]
    cluster.add(*(pod(f"p-{i}", "x").annotation("example.com/who", n) for i, n in enumerate(names)))
    cluster.run()
    assert bound(cluster) == ["p-0", "p-2"]
    assert "of user ann@example.com in queue a" in cluster.verdict[1]


def test_the_limit_of_a_parent_counts_what_a_user_has_in_all_parts() -> None:
    cluster = cluster_with(
        queue("all", userLimit={"cpu": 2}),
        queue("a", "x", parent="all"),
        queue("b", "y", parent="all", userLimit={"cpu": 4}),
    )
    cluster.add(of("ann", "p", "2"))
    cluster.run()
    cluster.add(of("ann", "q", "1", "y"), of("bob", "r", "1", "y"))
    cluster.run()
    assert bound(cluster) == ["p", "r"]


def test_a_held_pod_is_woken_when_a_pod_of_its_user_ends_and_only_then() -> None:
    cluster = cluster_with(queue("a", "x", userLimit={"cpu": 1}))
    ann, bob, waiting = of("ann", "a"), of("bob", "b"), of("ann", "waits")
    cluster.add(ann, bob)
    cluster.run()
    cluster.add(waiting)
    cluster.run()
    cluster.wait(11)
    cluster.remove(bob)
    assert cluster.state(waiting) is QueueState.UNSCHEDULABLE
    cluster.remove(ann)
    cluster.run()
    assert bound(cluster) == ["a", "b", "waits"]


def test_room_that_a_woken_pod_leaves_is_for_another_user_behind_many_held_pods() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 2}, userLimit={"cpu": 1}))
    first, second = of("cid", "first"), of("bob", "second")
    cluster.add(first, second)
    cluster.run()
    cluster.add(*(of("bob", f"held-{i}") for i in range(40)))
    cluster.add(of("dan", "nowhere").spec(nodeSelector={"no": "node"}), of("ann", "last"))
    cluster.run()
    cluster.wait(60)
    cluster.remove(first)
    cluster.wait(11)
    cluster.run()
    assert bound(cluster) == ["first", "last", "second"]


def test_a_group_is_held_by_the_sum_of_its_minimum_of_each_user() -> None:
    cluster = cluster_with(queue("a", "default", userLimit={"cpu": 2}))
    pods = members("g", 3)
    cluster.add(pod_group("g", minMember=3), *(one.label(USER, "ann") for one in pods))
    cluster.run()
    assert cluster.bound == []
    text = "the group default/g would exceed the limit of cpu of user ann in queue a"
    assert cluster.verdict[1] == text

    other = members("h", 3)
    names = ("ann", "bob", "bob")
    marked = [one.label(USER, name) for one, name in zip(other, names, strict=True)]
    cluster.add(pod_group("h", minMember=3), *marked)
    cluster.run()
    assert len(cluster.bound) == 3


def victims(cluster: Cluster) -> Counter[str]:
    """How many were evicted, by the first part of their names."""
    return Counter(key.rpartition("/")[2].split("-")[0] for key in cluster.writer.deleted)


@pytest.mark.parametrize("at", ["a", "all"])
def test_a_held_pod_takes_the_place_of_lower_priorities_of_its_user_alone(at: str) -> None:
    limits = {at: {"cpu": 2}}
    cluster = cluster_with(
        queue("all", userLimit=limits.get("all", {})),
        queue("a", "x", parent="all", userLimit=limits.get("a", {})),
    )
    cluster.add(*(of("bob", f"b-{i}").node("n") for i in range(2)))
    cluster.add(*(of("ann", f"a-{i}").node("n") for i in range(2)))
    cluster.add(of("ann", "high", priority=5))
    cluster.settle(6)
    assert victims(cluster) == {"a": 1}
    assert bound(cluster) == ["high"]


def test_what_a_user_waits_for_above_the_limit_is_no_need_of_the_queue() -> None:
    cluster = cluster_with(
        queue("a", "x", userLimit={"cpu": 1}), queue("b", "y", weight=1), queue("c", "z")
    )
    cluster.add(*(of("ann", f"a-{i}") for i in range(9)), of("bob", "b"))
    cluster.add(*(pod(f"{n}-{i}", n) for n in "yz" for i in range(9)))
    assert demand(cluster, "a") == 10_000
    assert [share(cluster, name) for name in "abc"] == [2000, 3000, 3000]
    cluster.add(of("cid", "c"))
    assert share(cluster, "a") == 2666 or share(cluster, "a") == 2667


def test_a_pod_that_is_larger_than_the_limit_of_its_user_is_no_demand() -> None:
    cluster = cluster_with(queue("a", "x", userLimit={"cpu": 1}))
    cluster.add(of("ann", "p", "2"))
    assert demand(cluster, "a") == 0


def test_what_users_have_is_reported() -> None:
    cluster = cluster_with(queue("a", "x", userLimit={"cpu": 2}), queue("b", "y"))
    cluster.add(of("ann", "p"), of("bob", "q", "2"), pod("r", "x"), of("ann", "s", "1", "y"))
    cluster.run()
    users = {state.name: state.users for state in reports(cluster.world.queues, 0.0)}
    assert users == {"a": {"": {"cpu": 1000}, "ann": {"cpu": 1000}, "bob": {"cpu": 2000}}, "b": {}}


def test_users_who_have_no_pods_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_sums, "_SPARE_USERS", 8)
    cluster = cluster_with(queue("a", "x", userLimit={"cpu": 2}))
    for number in range(50):
        one = of(f"user-{number}", "p")
        cluster.add(one)
        cluster.run()
        cluster.remove(one)
        assert len(cluster.world.queues.sums.users) <= 10
    assert len(cluster.bound) == 50


def test_without_limits_of_users_no_user_is_asked_for() -> None:
    cluster = cluster_with(queue("a", "x", limit={"cpu": 2}))
    cluster.add(of("ann", "p"))
    cluster.run()
    assert cluster.world.queues.sums.users == {}


@length(30)
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "ann", "bob"]), st.sampled_from("xy"), st.integers(1, 3)),
        max_size=12,
    ),
    st.lists(st.integers(0, 11), max_size=6),
)
def test_no_user_ever_has_more_than_the_limit(
    asked: list[tuple[str, str, int]], gone: list[int]
) -> None:
    cluster = cluster_with(
        queue("all", userLimit={"cpu": 4}),
        queue("a", "x", parent="all", userLimit={"cpu": 3}),
        queue("b", "y", parent="all"),
    )
    made = [of(user, f"p{i}", str(cpu), where) for i, (user, where, cpu) in enumerate(asked)]
    cluster.add(*made)
    for index in [*gone, 99]:
        cluster.run()
        of_users: dict[tuple[str, str], int] = {}
        for one in cluster.cache.pods():
            user, cpu = one.shape.labels.get(USER, ""), cluster.world.queues.requests(one)[0]
            for of_queue in ("all", one.namespace):
                of_users[of_queue, user] = of_users.get((of_queue, user), 0) + cpu
        assert all(
            amount <= {"all": 4000, "x": 3000}.get(where, 4000)
            for (where, _), amount in of_users.items()
        )
        assert cluster.world.queues.recount() == {}
        if index < len(made):
            cluster.remove(made[index])
            cluster.wait(11)
