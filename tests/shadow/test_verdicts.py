"""Each kind of verdict, by an example."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import length
from tests.shadow.harness import THEIRS, Followed

from bayplan.decide.deciding import deciding
from bayplan.shadow.verdict import NotCompared, Outcome, Theirs, sentence
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
FULL = "0/1 nodes are available: 1 Insufficient cpu. "
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
PACKING = {
    "profiles": [
        {
            "schedulerName": THEIRS,
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated"}},
                }
            ],
        }
    ]
}


def node(name: str, cpu: int = 4) -> NodeBuilder:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


def pod(name: str, cpu: int = 1) -> PodBuilder:
    return make_pod(name).req(cpu=cpu)


def test_the_only_best_node_is_the_same_decision() -> None:
    followed = Followed()
    followed.add(node("n1"), node("n2"), pod("there", 3).node("n1"))
    one = pod("p")
    followed.show(one)
    followed.bind(one, "n2")
    followed.follow()
    verdict = followed.verdict(one)
    assert verdict.outcome is Outcome.SAME
    assert sentence(verdict) == "default/p: n2 there and here."


def test_one_of_several_best_nodes_is_an_equal_decision() -> None:
    followed = Followed()
    followed.add(node("n1"), node("n2"), node("n3", 8))
    one = pod("p")
    followed.show(one)
    followed.bind(one, "n3")
    other = pod("q", 5)
    followed.show(other)
    followed.follow()
    assert followed.verdict(one).outcome is Outcome.SAME
    followed.add(node("n4", 8), node("n5", 8))
    followed.bind(other, "n5")
    followed.follow()
    verdict = followed.verdict(other)
    assert (verdict.outcome, verdict.ours.best) == (Outcome.EQUAL, 2)


def test_a_better_node_is_named_with_the_plugins_that_prefer_it() -> None:
    followed = Followed(PACKING)
    followed.add(node("n1"), node("n2"), pod("there", 2).node("n1"))
    one = pod("p")
    followed.show(one)
    followed.bind(one, "n2")
    followed.follow()
    verdict = followed.verdict(one)
    assert (verdict.outcome, verdict.ours.node) == (Outcome.BETTER, "n1")
    assert verdict.plugin == "NodeResourcesFit"
    assert verdict.difference == sum(here - there for here, there in verdict.scores.values()) > 0
    assert followed.tally.plugins["NodeResourcesFit"].prefers == 1


def test_a_node_that_does_not_fit_here_is_named_with_the_reason() -> None:
    followed = Followed()
    followed.add(node("n1", 1), node("n2"))
    one = pod("p", 2)
    followed.show(one)
    followed.bind(one, "n1")
    followed.follow()
    verdict = followed.verdict(one)
    assert (verdict.outcome, verdict.plugin) == (Outcome.INFEASIBLE, "NodeResourcesFit")
    assert verdict.reasons == ("Insufficient cpu",)
    assert followed.tally.plugins["NodeResourcesFit"].rejects == 1


def test_a_pod_that_would_wait_here_says_why() -> None:
    followed = Followed()
    followed.add(node("n1", 1))
    one = pod("p", 2)
    followed.show(one)
    followed.bind(one, "n1")
    followed.follow()
    verdict = followed.verdict(one)
    assert (verdict.outcome, verdict.plugin) == (Outcome.PENDING_HERE, "NodeResourcesFit")
    assert verdict.ours.message.startswith(FULL)


def test_a_binding_to_a_node_that_is_gone_does_not_fit() -> None:
    followed = Followed()
    followed.add(node("n1"))
    one = pod("p")
    followed.show(one)
    followed.bind(one, "lost")
    followed.follow()
    verdict = followed.verdict(one)
    assert (verdict.outcome, verdict.reasons) == (Outcome.INFEASIBLE, ("the node is not there",))


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        (FULL + NO_VICTIMS, Outcome.SAME_MESSAGE),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", Outcome.OTHER_MESSAGE),
    ],
    ids=["the same", "another"],
)
def test_messages_of_pods_that_wait_on_both_sides_are_compared(
    message: str, outcome: Outcome
) -> None:
    followed = Followed()
    followed.add(node("n1", 1))
    one = pod("p", 2)
    followed.show(one)
    followed.refuse(one, message)
    followed.follow()
    assert followed.verdict(one).outcome is outcome


def test_a_pod_that_waits_there_may_have_a_node_here() -> None:
    followed = Followed()
    followed.add(node("n1"))
    one = pod("p")
    followed.show(one)
    followed.refuse(one, FULL)
    followed.follow()
    verdict = followed.verdict(one)
    assert (verdict.outcome, verdict.ours.node) == (Outcome.PLACED_HERE, "n1")


def test_an_attempt_that_ended_in_an_error_is_not_compared() -> None:
    followed = Followed()
    followed.add(node("n1"))
    one = pod("p")
    followed.show(one)
    followed.refuse(one, "boom", reason="SchedulerError")
    followed.follow()
    assert followed.tally.not_compared == {NotCompared.ERROR: 1}


def test_a_condition_that_is_no_attempt_counts_for_nothing() -> None:
    followed = Followed()
    followed.add(node("n1"))
    one = pod("p").gate("wait")
    followed.show(one)
    followed.refuse(one, "gated", reason="SchedulingGated")
    followed.follow()
    assert followed.tally.compared == followed.tally.not_compared.total() == 0


# Evictions


@pytest.mark.parametrize("victims_first", [True, False], ids=["victims first", "condition first"])
def test_evictions_are_judged_before_the_victims_are_gone(victims_first: bool) -> None:
    followed = Followed()
    victim, high = pod("low", 3).node("n1"), pod("high", 3).priority(10)
    followed.add(node("n1"), node("n2", 1), victim)
    followed.show(high)
    if victims_first:
        followed.evict(victim)
    followed.refuse(high, "preempting", nominated="n1")
    if not victims_first:
        followed.evict(victim)
    followed.follow()
    verdict = followed.verdict(high)
    assert verdict.outcome is Outcome.SAME_EVICTIONS
    assert verdict.theirs.victims == verdict.ours.victims == {"default/low"}
    followed.bind(high, "n1")
    followed.follow()
    assert followed.tally.outcomes == {Outcome.SAME_EVICTIONS: 1, Outcome.SAME: 1}


def test_evictions_of_others_differ() -> None:
    followed = Followed()
    one, two = pod("one", 3).node("n1"), pod("two", 3).node("n2").priority(5)
    followed.add(node("n1"), node("n2"), one, two)
    high = pod("high", 3).priority(10)
    followed.show(high)
    followed.refuse(high, "preempting", nominated="n2")
    followed.evict(two)
    followed.follow()
    verdict = followed.verdict(high)
    assert verdict.outcome is Outcome.OTHER_EVICTIONS
    assert (verdict.ours.node, verdict.ours.victims) == ("n1", frozenset({"default/one"}))


def test_a_pod_may_evict_here_alone() -> None:
    followed = Followed()
    followed.add(node("n1"), pod("low", 3).node("n1"))
    high = pod("high", 3).priority(10)
    followed.show(high)
    followed.refuse(high, FULL)
    followed.follow()
    assert followed.verdict(high).outcome is Outcome.EVICTS_HERE


def test_a_pod_may_evict_there_alone() -> None:
    followed = Followed()
    low = pod("low", 3).node("n1").priority(10)
    followed.add(node("n1"), low)
    high = pod("high", 3).priority(10)
    followed.show(high)
    followed.refuse(high, "preempting", nominated="n1")
    followed.evict(low)
    followed.follow()
    verdict = followed.verdict(high)
    assert verdict.outcome is Outcome.EVICTS_THERE
    assert verdict.theirs == Theirs("", "preempting", "n1", frozenset({"default/low"}))


# A node that is nominated before PreBind


def test_a_node_that_is_expected_is_judged_once_and_before_it_counts() -> None:
    followed = Followed()
    followed.add(node("n1"), node("n2"), pod("there", 3).node("n1"))
    one = pod("p")
    followed.show(one)
    followed.show(one.nominated("n1"))
    followed.follow()
    assert followed.verdict(one).outcome is Outcome.BETTER
    followed.bind(one, "n1")
    followed.follow()
    assert followed.tally.compared == 1


def test_every_outcome_has_a_sentence() -> None:
    followed = Followed()
    followed.add(node("n1"))
    one = pod("p")
    followed.show(one)
    followed.bind(one, "n1")
    followed.follow()
    import msgspec  # noqa: PLC0415

    for outcome in Outcome:
        assert sentence(msgspec.structs.replace(followed.verdict(one), outcome=outcome))


@given(
    cpus=st.lists(st.integers(2, 6), min_size=2, max_size=6),
    there=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=8),
    data=st.data(),
)
@length(60)
def test_scores_of_both_nodes_are_those_of_a_search_of_all_nodes(
    cpus: list[int], there: list[tuple[int, int]], data: st.DataObject
) -> None:
    """They are made after our decision was given back, and of two nodes alone."""
    followed = Followed(PACKING)
    followed.add(*(node(f"n{i}", cpu).label(ZONE, f"z{i % 2}") for i, cpu in enumerate(cpus)))
    for number, (place, app) in enumerate(there):
        name = f"n{place % len(cpus)}"
        followed.add(pod(f"there-{number}", 0).label("app", f"a{app}").node(name))
    made = make_pod("p").req(cpu=1).label("app", "a0")
    made.preferred_pod_affinity(50, ZONE, {"matchLabels": {"app": "a1"}})
    made.spread(ZONE, {"matchLabels": {"app": "a0"}}, when="ScheduleAnyway")
    followed.show(made)
    followed.follow()
    core, asked = followed.cluster.core, made.obj()
    framework = core.profiles[THEIRS]
    with deciding(core.placers, framework, asked, detailed=True, commits=False) as decision:
        assert decision.detail is not None
        parts = decision.detail.scores
    if parts is None:
        return
    names = followed.cluster.nodes.names
    totals = {
        str(names[row]): sum(int(part.scores[part.rows == row][0]) for part in parts)
        for row in parts[0].rows.tolist()
    }
    theirs = data.draw(st.sampled_from(sorted(totals)))
    followed.bind(made, theirs)
    followed.follow()
    said = followed.verdict(made)
    assert said.difference == max(totals.values()) - totals[theirs]
    assert totals[said.ours.node] == max(totals.values())
