"""What a shadow follows, what it passes over, and that it leaves no trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import loaded, profile
from tests.properties import length
from tests.shadow.harness import THEIRS, Followed
from tests.shadow.test_verdicts import PACKING, node, pod

from bayplan.config import ConfigError
from bayplan.shadow.follows import Follows, judging
from bayplan.shadow.shadow import Settings
from bayplan.shadow.verdict import NotCompared, Outcome
from bayplan.testing import Cluster, PodBuilder, make_pod, make_pv, make_pvc, make_storage_class


def bound(followed: Followed, one: PodBuilder, name: str) -> None:
    followed.show(one)
    followed.bind(one, name)


def test_pods_of_other_schedulers_are_state_and_no_decisions() -> None:
    followed = Followed()
    followed.add(node("n1"), node("n2"))
    bound(followed, pod("foreign", 3).spec(schedulerName="another"), "n1")
    bound(followed, pod("made-with-a-node").node("n2"), "n2")
    one = pod("p")
    bound(followed, one, "n2")
    followed.follow()
    assert followed.tally.outcomes == {Outcome.SAME: 1}


def test_only_pods_of_the_namespaces_are_judged() -> None:
    followed = Followed(namespaces=("team",))
    followed.add(node("n1"))
    bound(followed, pod("p"), "n1")
    mine = pod("q").meta(namespace="team")
    bound(followed, mine, "n1")
    followed.follow()
    assert followed.tally.compared == 1
    assert followed.verdict(mine).outcome is Outcome.SAME


def test_a_share_of_the_pods_is_about_that_share_and_always_the_same() -> None:
    pods = [pod(f"p{number}").spec(schedulerName=THEIRS).obj() for number in range(2000)]
    follows = Follows(THEIRS, (), 0.25)
    chosen = [one for one in pods if one in follows]
    assert 400 < len(chosen) < 600
    assert chosen == [one for one in pods if one in follows]


def test_pods_of_one_group_are_in_the_same_share() -> None:
    for share in (0.2, 0.5):
        follows = Follows(THEIRS, share=share)
        for name in "abcdefgh":
            gang = [make_pod(f"{name}{i}").pod_group(name) for i in range(5)]
            chosen = {pod.spec(schedulerName=THEIRS).obj() in follows for pod in gang}
            assert len(chosen) == 1


def test_the_state_is_theirs_wherever_ours_would_have_put_the_pods() -> None:
    followed = Followed(PACKING)
    followed.add(node("n1"), node("n2"))
    for number in range(4):
        bound(followed, pod(f"p{number}"), f"n{1 + number % 2}")
        followed.follow()
    assert followed.cluster.world.cache.nodes.requested("cpu")[:2].tolist() == [2000, 2000]


def test_nothing_is_written_and_nothing_kept() -> None:
    followed = Followed()
    low = pod("low", 3).node("n1")
    followed.add(node("n1"), low)
    high = pod("high", 3).priority(10)
    followed.show(high)
    followed.refuse(high, "full")
    followed.follow()
    cluster = followed.cluster
    assert followed.verdict(high).outcome is Outcome.EVICTS_HERE
    assert not cluster.writer.bound
    assert not cluster.writer.deleted
    assert not cluster.events
    assert not cluster.world.cache.any_eviction_assumed
    assert not cluster.world.nominator.nominated_node(high.obj().uid)


def test_a_shadow_that_is_late_passes_decisions_over_and_says_which() -> None:
    followed = Followed(settings=Settings(lookahead=1.0, most_behind=5.0))
    followed.add(node("n1"), node("n2"))
    for name in ("p1", "p2"):
        bound(followed, pod(name), "n1")
    followed.follow(late=6.0)
    [span] = followed.tally.skipped
    assert (span.reason, span.count) == (NotCompared.BEHIND, 2)
    assert (span.first, span.last) == ("default/p1", "default/p2")
    assert followed.cluster.world.cache.nodes.requested("cpu").sum() == 2000
    one = pod("p3")
    bound(followed, one, "n2")
    followed.follow()
    assert followed.tally.outcomes == {Outcome.SAME: 1}


def test_pods_that_were_bound_while_the_watch_was_broken_are_not_compared() -> None:
    followed = Followed()
    followed.add(node("n1"))
    one, gone = pod("p"), pod("gone")
    followed.show(one, gone)
    followed.relist(one.node("n1"))
    followed.follow()
    assert followed.tally.not_compared == {NotCompared.NOT_WATCHED: 1}
    assert not followed.tally.compared


def test_a_pod_made_again_under_the_same_name_is_another_pod() -> None:
    followed = Followed()
    followed.add(node("n1"))
    first, second = pod("p"), pod("p")
    followed.show(first, second)
    followed.bind(second, "n1")
    followed.follow()
    assert followed.tally.compared == 1


def test_nothing_is_kept_of_pods_that_wait_no_more() -> None:
    followed = Followed()
    followed.add(node("n1", 1))
    pods = [pod(f"p{number}", 2) for number in range(4)]
    followed.show(*pods)
    for one in pods:
        followed.refuse(one, "full")
    followed.bind(pods[0], "n1")
    followed.gone(pods[1])
    followed.show(pods[2].phase("Failed"))
    followed.relist(pods[0])
    followed.follow()
    shadow = followed.shadow
    under_way = shadow._in_flight
    assert not any([under_way.ages, under_way.tried, shadow._expected, shadow._early])


# What PreBind writes


def test_claims_that_say_already_where_the_pod_goes_are_looked_past() -> None:
    followed = Followed()
    claim = make_pvc("data").size("1Gi").storage_class("local")
    one = pod("p").pvc("data")
    labelled = [node(name).label("kubernetes.io/hostname", name) for name in ("n1", "n2")]
    volumes = [
        make_pv(f"on-{name}")
        .storage_class("local")
        .on("kubernetes.io/hostname", name)
        .capacity("1Gi")
        .storage_class("local")
        .on("kubernetes.io/hostname", name)
        for name in ("n1", "n2")
    ]
    followed.add(make_storage_class("local"), *labelled, claim, *volumes)
    followed.show(one)
    followed.show(volumes[1].claimed_by("data", claim.json["metadata"]["uid"]))
    followed.show(claim.bound_to("on-n2"))
    followed.bind(one, "n2")
    followed.follow()
    verdict = followed.verdict(one)
    assert (verdict.outcome, verdict.ours.best) == (Outcome.EQUAL, 2)
    second = pod("q").pvc("data")
    bound(followed, second, "n1")
    followed.follow()
    assert followed.verdict(second).outcome is Outcome.INFEASIBLE


# Decisions in flight


def test_bindings_in_another_order_than_the_decisions_are_no_difference() -> None:
    followed = Followed()
    followed.add(node("n1"), node("n2"), pod("there", 1).node("n2"))
    first, second = pod("first", 2), pod("second", 2)
    followed.show(first, second)
    followed.bind(second, "n2")
    followed.bind(first, "n1")
    followed.follow()
    assert not list(followed.tally.differences())
    assert followed.tally.not_compared[NotCompared.IN_FLIGHT] >= 1


def test_a_pod_that_has_just_left_may_have_been_there_for_them() -> None:
    followed = Followed()
    leaver, one = pod("leaver", 3).node("n1"), pod("p")
    followed.add(node("n1"), node("n2"), pod("there").node("n2"), leaver)
    followed.show(one)
    followed.gone(leaver)
    followed.cluster.clock.time += 0.5
    followed.bind(one, "n2")
    followed.follow()
    assert followed.verdict(one).excused is NotCompared.IN_FLIGHT


def test_where_more_was_in_flight_than_is_tried_nothing_is_called_a_difference() -> None:
    followed = Followed()
    leavers = [pod(f"leaver{number}").node("n3") for number in range(8)]
    one = pod("p")
    followed.add(node("n1"), node("n2"), node("n3"), pod("there").node("n2"), *leavers)
    followed.show(one)
    followed.gone(*leavers)
    followed.refuse(one, "0/3 nodes are available: 3 something.")
    followed.follow()
    assert followed.verdict(one).excused is NotCompared.NOT_CHECKED


def test_no_order_is_tried_that_a_queue_cannot_have_had() -> None:
    followed = Followed(PACKING)
    followed.add(node("n1"), node("n2"), node("n3"))
    first, second = pod("first", 2), pod("second", 1)
    followed.show(first, second)
    followed.bind(first, "n1")
    followed.bind(second, "n2")
    followed.follow()
    assert followed.verdict(second).differs


def test_a_pod_that_was_refused_before_may_have_come_at_any_time() -> None:
    followed = Followed(PACKING)
    followed.add(node("n1"), node("n2"), node("n3"))
    first, second = pod("first", 2), pod("second", 1)
    followed.show(first, second)
    followed.refuse(second, "0/3 nodes are available: 3 something.")
    followed.bind(first, "n1")
    followed.bind(second, "n2")
    followed.follow()
    assert followed.verdict(second).excused is NotCompared.IN_FLIGHT


def test_what_left_before_the_pod_was_there_excuses_nothing() -> None:
    followed = Followed()
    leaver, one = pod("leaver", 3).node("n1"), pod("p")
    followed.add(node("n1"), node("n2"), pod("there").node("n2"), leaver)
    followed.gone(leaver)
    bound(followed, one, "n2")
    followed.follow()
    assert followed.verdict(one).differs


def test_what_left_long_before_excuses_nothing() -> None:
    followed = Followed()
    leaver, one = pod("leaver", 3).node("n1"), pod("p")
    followed.add(node("n1"), node("n2"), pod("there").node("n2"), leaver)
    followed.show(one)
    followed.gone(leaver)
    followed.follow(late=5.0)
    followed.bind(one, "n2")
    followed.follow()
    assert followed.verdict(one).differs


REQUESTS = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=12)


@length(100)
@given(REQUESTS, st.randoms(use_true_random=False), st.booleans())
def test_whatever_order_bindings_are_seen_in_the_same_scheduler_never_differs(
    requests: list[int], random: object, shuffled: bool
) -> None:
    there = Cluster(config={"profiles": [{"schedulerName": THEIRS}]})
    followed = Followed()
    nodes = [node(f"n{number}", 5 + number) for number in range(5)]
    there.add(*nodes)
    followed.add(*nodes)
    pods = [pod(f"p{number:02}", cpu) for number, cpu in enumerate(requests)]
    there.add(*(pod(f"p{number:02}", cpu) for number, cpu in enumerate(requests)))
    there.run()
    followed.show(*pods)
    bindings = [one for one in pods if there.node_of(one.obj().name)]
    if shuffled:
        random.shuffle(bindings)  # type: ignore[attr-defined]
    for one in bindings:
        followed.bind(one, there.node_of(one.obj().name))
    followed.follow()
    assert not [verdict for verdict in followed.tally.differences() if verdict.differs]
    if not shuffled:
        assert followed.tally.agreed == len(bindings)


# The configuration that judges


def test_a_configuration_with_one_profile_judges_whatever_its_name() -> None:
    _, config = loaded(profiles=[profile(scheduler_name="ours")], percentageOfNodesToScore=10)
    judge = judging(config, THEIRS).profiles
    assert [one.scheduler_name for one in judge] == [THEIRS]
    assert judge[0].percentage_of_nodes_to_score == 100


def test_of_several_profiles_that_of_the_name_judges() -> None:
    _, config = loaded(profiles=[profile(scheduler_name=name) for name in ("a", "b")])
    assert [one.scheduler_name for one in judging(config, "b").profiles] == ["b"]
    with pytest.raises(ConfigError, match="none of a, b is c"):
        judging(config, "c")
