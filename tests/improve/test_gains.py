"""Measures that are to fall: what survives, what Pods cost, which devices are of use."""

from __future__ import annotations

import random

import pytest
from tests.improve.applied import Applied
from tests.improve.brute_gains import GOALS, compared, small
from tests.improve.test_improve import GANGS, node, runs

from bayplan.api.kinds import POD_DISRUPTION_BUDGET, POD_GROUP, REPLICA_SET
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.improve.gains import saving, surviving, unstranding
from bayplan.improve.goals import GoalError
from bayplan.testing import Builder, Cluster, make_object

ZONE = "topology.kubernetes.io/zone"
COSCHEDULING = {"name": "Coscheduling"}
RULE = f'{{"domain": "{ZONE}", "keep": 1, "size": 2}}'


def config(*plugins: str) -> dict[str, object]:
    """A profile with these plugins besides the default ones."""
    enabled = {"multiPoint": {"enabled": [{"name": plugin} for plugin in plugins]}}
    return {"profiles": [{"schedulerName": "bayplan", "plugins": enabled}]}


@pytest.mark.parametrize("plugin", GOALS)
@pytest.mark.parametrize("seed", range(8))
def test_brute_force_finds_no_plan_with_fewer_moves(plugin: str, seed: int) -> None:
    rng = random.Random(1_000 + seed)
    best, moves, holds = compared(small(rng), plugin, rng.choice(GOALS[plugin][2]))
    assert holds
    assert moves == best


def two_zones(*more: Builder[object]) -> list[Builder[object]]:
    """Both Pods of a workload in one zone, where one of two is to survive."""
    owner = make_object(REPLICA_SET, "rs").annotation("bayplan.dev/survive", RULE).spec(replicas=2)
    nodes = [node(f"n{zone}", zone=zone) for zone in "ab"]
    for one in nodes:
        one.label(ZONE, one.json["metadata"]["labels"]["zone"])
    return [*nodes, owner, runs("w0", "na"), runs("w1", "na"), *more]


def test_a_broken_rule_is_mended_and_the_plan_applied() -> None:
    made = Applied(*two_zones(), config=config("BlastRadius"))
    plan = made.plan(surviving(made.cluster.core))
    assert plan["mends"]
    title = "all workloads survive as their rules say (1 survivor missing now)"
    assert made.application(plan).run() == f"1 move made, and {title}."
    assert surviving(made.cluster.core).gain.needed == 0  # type: ignore[union-attr]


def test_where_nothing_is_missing_nobody_moves() -> None:
    made = Applied(node("n1"), runs("a", "n1"), config=config("BlastRadius"))
    plan = made.plan(surviving(made.cluster.core))
    assert plan["reached"]
    assert plan["moves"] == []


def test_a_budget_counts_all_moves_of_a_plan() -> None:
    nodes = [node(f"n{i}").annotation("bayplan.dev/hourly-price", str(9 - i)) for i in (1, 5)]
    pods = [runs(f"p{i}", "n1").label("app", "web") for i in range(2)]
    for allowed, reached in ((1, False), (2, True)):
        budget = make_object(POD_DISRUPTION_BUDGET, "web").namespace("default")
        budget.spec(selector={"matchLabels": {"app": "web"}}).status(disruptionsAllowed=allowed)
        made = Applied(*nodes, *pods, budget, config=config("DomainCost"))
        assert made.plan(saving(made.cluster.core, 2.0))["reached"] is reached
        assert made.plan(saving(made.cluster.core, 1.0))["reached"]


def test_members_of_groups_stay() -> None:
    nodes = [node(f"n{i}").annotation("bayplan.dev/hourly-price", str(9 - i)) for i in (1, 5)]
    group = make_object(POD_GROUP, "g").spec(minMember=1)
    member = runs("g0", "n1").label(POD_GROUP_LABEL, "g")
    enabled = {
        "multiPoint": GANGS["multiPoint"] | {"enabled": [COSCHEDULING, {"name": "DomainCost"}]}
    }
    profile = {"schedulerName": "bayplan", "plugins": enabled}
    made = Applied(*nodes, group, member, config={"profiles": [profile]})
    plan = made.plan(saving(made.cluster.core, 0.5))
    assert not plan["reached"]
    assert plan["against"][0] == "The most that was found: 0 of 0.5"


@pytest.mark.parametrize(
    ("goal", "plugin"),
    [
        (surviving, "BlastRadius"),
        (lambda core: saving(core, 1), "DomainCost"),
        (lambda core: unstranding(core, 1), "LeastFragmentation"),
    ],
    ids=["survive", "cost", "packing"],
)
def test_without_the_plugin_the_goal_is_refused(goal: object, plugin: str) -> None:
    assert callable(goal)
    with pytest.raises(GoalError, match=f"no profile has the plugin {plugin}: give --config"):
        goal(Cluster().core)
