from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.plugins.harness import filtered, hint, make, scored, table_of

from bayplan.api.kinds import NODE
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.explain.explanation import explain
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.placements import GroupPlacement, PodGroupInfo
from bayplan.framework.status import SUCCESS, Status
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

GPU = "nvidia.com/gpu"
MI = 1024 * 1024


def short(*resources: str) -> Status:
    return Status.unschedulable(*(f"Insufficient {r}" for r in resources))


def too_small(*resources: str) -> Status:
    return Status.unresolvable(*(f"Insufficient {r}" for r in resources))


def node(name: str = "n") -> NodeBuilder:
    return make_node(name).capacity(
        {"ephemeral-storage": "20Gi", GPU: 4, "hugepages-2Mi": "8Mi"},
        cpu=10,
        memory="20Gi",
        pods=32,
    )


def status_of(
    pod: PodBuilder, *there: PodBuilder, on: NodeBuilder | None = None, **args: Any
) -> Status:
    nodes = table_of(on or node())
    row = nodes.row("n")
    assert row is not None
    for i, other in enumerate(there):
        nodes.add_pod(row, other.uid(f"there-{i}").obj())
    return filtered(make(NodeResourcesFit, **args), pod.obj(), nodes)["n"]


@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param(make_pod(), make_pod().req(cpu=10, memory="20Gi"), SUCCESS, id="no-request"),
        pytest.param(
            make_pod().req(cpu=1, memory="1Gi"),
            make_pod().req(cpu=9, memory="19Gi"),
            SUCCESS,
            id="fits-exactly",
        ),
        pytest.param(
            make_pod().req(cpu=1, memory="1Gi"),
            make_pod().req(cpu=10, memory="19Gi"),
            short("cpu"),
            id="cpu",
        ),
        pytest.param(
            make_pod().req(cpu=2, memory="2Gi"),
            make_pod().req(cpu=9, memory="19Gi"),
            short("cpu", "memory"),
            id="both",
        ),
        pytest.param(
            make_pod().req({GPU: 1, "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi"}),
            make_pod().req({GPU: 4, "ephemeral-storage": "20Gi", "hugepages-2Mi": "8Mi"}),
            short("ephemeral-storage", "hugepages-2Mi", GPU),
            id="core-resources-first-then-by-name",
        ),
        pytest.param(
            make_pod().req({GPU: 0}), make_pod().req({GPU: 5}), SUCCESS, id="zero-is-no-request"
        ),
        pytest.param(
            make_pod().req(cpu=11, memory="2Gi"),
            make_pod().req(cpu=9, memory="19Gi"),
            too_small("cpu", "memory"),
            id="above-the-whole-node",
        ),
        pytest.param(
            make_pod().req({"example.com/fpga": 1}),
            make_pod(),
            too_small("example.com/fpga"),
            id="not-offered",
        ),
        pytest.param(
            make_pod().req({"what": 1}), make_pod(), SUCCESS, id="unknown-native-resource"
        ),
        pytest.param(
            make_pod().req(cpu=1).init_req(cpu=3),
            make_pod().req(cpu=8),
            short("cpu"),
            id="largest-init-container",
        ),
        pytest.param(
            make_pod().req(cpu=1).sidecar_req(cpu=1).init_req(cpu="1500m"),
            make_pod().req(cpu="7500m"),
            SUCCESS,
            id="sidecar-before-init-container-fits",
        ),
        pytest.param(
            make_pod().req(cpu=1).sidecar_req(cpu=1).init_req(cpu="1501m"),
            make_pod().req(cpu="7500m"),
            short("cpu"),
            id="sidecar-before-init-container",
        ),
        pytest.param(
            make_pod().req(cpu=1).overhead(cpu=1),
            make_pod().req(cpu=9),
            short("cpu"),
            id="overhead",
        ),
        pytest.param(
            make_pod().req(cpu=1).pod_level(cpu=2),
            make_pod().req(cpu=9),
            short("cpu"),
            id="pod-level",
        ),
    ],
)
def test_a_node_must_have_room_for_everything_the_pod_requests(
    pod: PodBuilder, there: PodBuilder, expected: Status
) -> None:
    assert status_of(pod, there) == expected


def test_too_many_pods_alone_can_be_resolved() -> None:
    full = make_node().capacity(cpu=1, pods=1)
    assert status_of(make_pod(), make_pod(), on=full) == Status.unschedulable("Too many pods")
    assert status_of(make_pod().req(cpu=1), make_pod().req(cpu=1), on=full) == Status.unschedulable(
        "Too many pods", "Insufficient cpu"
    )
    assert status_of(make_pod().req(cpu=2), make_pod(), on=full) == Status.unresolvable(
        "Too many pods", "Insufficient cpu"
    )


def test_a_node_that_says_nothing_takes_no_pod() -> None:
    assert status_of(make_pod(), on=make_node()) == Status.unschedulable("Too many pods")


@pytest.mark.parametrize("kinds", [59, 60, 61, 62, 63, 64, 200])
def test_a_pod_may_ask_for_any_number_of_resources(kinds: int) -> None:
    names = [f"example.com/r{i:03}" for i in range(kinds)]
    everything = dict.fromkeys(names, 2)
    roomy = make_node().capacity({**everything, "cpu": 1}, pods=9)
    pod = make_pod().req({**everything, "cpu": 1})
    assert status_of(pod, on=roomy) == SUCCESS
    first, *_, last = names
    assert status_of(pod, make_pod().req({first: 1, last: 1}), on=roomy) == short(first, last)
    without = dict.fromkeys(names[1:], 2)
    lacks_one = make_node().capacity({**without, "cpu": 1}, pods=9)
    assert status_of(pod, on=lacks_one) == too_small(first)
    nothing = too_small("cpu", *names)
    assert status_of(pod, on=make_node().capacity(pods=9)) == nothing
    assert status_of(pod, on=roomy) == SUCCESS, "the answers of before are still the same"


@pytest.mark.parametrize(
    ("args", "resource", "expected"),
    [
        pytest.param({"ignoredResources": [GPU]}, GPU, SUCCESS, id="by-name"),
        pytest.param({"ignoredResources": ["a/b"]}, GPU, short(GPU), id="another-name"),
        pytest.param({"ignoredResourceGroups": ["nvidia.com"]}, GPU, SUCCESS, id="by-group"),
        pytest.param({"ignoredResourceGroups": ["nvidia"]}, GPU, short(GPU), id="another-group"),
        pytest.param(
            {"ignoredResources": ["hugepages-2Mi"], "ignoredResourceGroups": ["hugepages-2Mi"]},
            "hugepages-2Mi",
            short("hugepages-2Mi"),
            id="only-extended-resources",
        ),
    ],
)
def test_ignored_extended_resources_are_not_checked(
    args: dict[str, Any], resource: str, expected: Status
) -> None:
    used = make_pod().req({GPU: 4, "hugepages-2Mi": "8Mi"})
    assert status_of(make_pod().req({resource: 1}), used, **args) == expected


def test_the_node_that_lacks_the_least_is_named_with_figures_and_a_near_name() -> None:
    cluster = Cluster()
    for name, cpu in (("n1", "2"), ("n2", "3500m"), ("n3", "1")):
        cluster.add(make_node(name).capacity({GPU: 1}, cpu=cpu, memory="8Gi", pods=3))
    pod = make_pod("p").req({"nvidia.com/gpus": 1}, cpu="4", memory="1Gi")
    cluster.add(pod)
    core = cluster.core
    verdict = explain(cluster.framework, core.placers, pod.obj(), details=True)
    assert verdict["details"] == [
        "cpu: needs 4; n2 has 3.5 free, 0.5 too few.",
        "No node has nvidia.com/gpus; was nvidia.com/gpu meant?",
    ]


def test_a_table_for_what_if_questions_answers_for_its_own_pods() -> None:
    nodes = table_of(node("a"), node("b"))
    rows = np.array([nodes.row("a"), nodes.row("b")])
    victim = make_pod("victim").req(cpu=10).obj()
    for row in rows.tolist():
        nodes.add_pod(row, victim)
    small = nodes.take(rows)
    small.remove_pods([1], [victim])
    roomy = nodes.take(rows[1:])
    roomy.remove_pods([0], [victim])
    plugin, pod = make(NodeResourcesFit), make_pod().req(cpu=1).obj()
    assert (plugin.filter_nodes(CycleState(), pod, small) == 0).tolist() == [False, True]
    assert (plugin.filter_nodes(CycleState(), pod, roomy) == 0).tolist() == [True]
    assert (plugin.filter_nodes(CycleState(), pod, nodes) == 0)[rows].tolist() == [False, False]


# Scores


def strategy(
    type_: str, *resources: tuple[str, int], shape: list[tuple[int, int]] | None = None
) -> Any:
    spec: dict[str, Any] = {"type": type_}
    if resources:
        spec["resources"] = [{"name": n, "weight": w} for n, w in resources]
    if shape:
        points = [{"utilization": u, "score": s} for u, s in shape]
        spec["requestedToCapacityRatio"] = {"shape": points}
    return {"scoringStrategy": spec}


def score_of(args: Any, pod: PodBuilder, there: PodBuilder | None, on: NodeBuilder) -> int:
    nodes = table_of(on)
    row = nodes.row("n")
    assert row is not None
    if there is not None:
        nodes.add_pod(row, there.obj())
    scores = scored(make(NodeResourcesFit, **args), pod.obj(), nodes)
    assert isinstance(scores, dict)
    return scores["n"]


BIG = make_node().capacity({GPU: 8}, cpu=10, memory="20000Mi", pods=10)
LEAST, MOST = strategy("LeastAllocated"), strategy("MostAllocated")
RISING = strategy("RequestedToCapacityRatio", shape=[(0, 0), (100, 10)])
FALLING = strategy("RequestedToCapacityRatio", shape=[(0, 10), (100, 0)])
WITH_GPU = (("cpu", 1), ("memory", 1), (GPU, 3))


@pytest.mark.parametrize(
    ("args", "pod", "there", "expected"),
    [
        pytest.param(
            LEAST, make_pod().req(cpu=3, memory="5000Mi"), None, (70 + 75) // 2, id="least"
        ),
        pytest.param(
            LEAST,
            make_pod().req(cpu=3, memory="5000Mi"),
            make_pod().req(cpu=3, memory="5000Mi"),
            (40 + 50) // 2,
            id="least-with-a-pod-there",
        ),
        pytest.param(
            LEAST, make_pod().container(), None, (99 + 99) // 2, id="least-default-requests"
        ),
        pytest.param(
            LEAST,
            make_pod().container().container().init_container(),
            None,
            (98 + 98) // 2,
            id="least-default-requests-per-container",
        ),
        pytest.param(
            LEAST,
            make_pod().req(cpu=1, memory="200Mi").pod_level(cpu=5, memory="10000Mi"),
            None,
            (90 + 99) // 2,
            id="pod-level-resources-of-the-pod-do-not-count",
        ),
        pytest.param(
            LEAST,
            make_pod().req(cpu=1, memory="200Mi"),
            make_pod().container().pod_level(cpu=5, memory="10000Mi"),
            (40 + 49) // 2,
            id="pod-level-resources-of-pods-there-do",
        ),
        pytest.param(
            LEAST, make_pod().req(cpu=11, memory="5000Mi"), None, (0 + 75) // 2, id="overcommitted"
        ),
        pytest.param(
            LEAST,
            make_pod().req(cpu=1, memory="200Mi").overhead(cpu=1),
            None,
            (80 + 99) // 2,
            id="overhead",
        ),
        pytest.param(MOST, make_pod().req(cpu=3, memory="5000Mi"), None, (30 + 25) // 2, id="most"),
        pytest.param(
            MOST, make_pod().req(cpu=11, memory="5000Mi"), None, (100 + 25) // 2, id="most-is-100"
        ),
        pytest.param(
            strategy("LeastAllocated", *WITH_GPU),
            make_pod().req({GPU: 2}, cpu=3, memory="5000Mi"),
            None,
            (70 + 75 + 3 * 75) // 5,
            id="weights",
        ),
        pytest.param(
            strategy("LeastAllocated", *WITH_GPU),
            make_pod().req(cpu=3, memory="5000Mi"),
            make_pod().req({GPU: 8}, cpu=0, memory=0),
            (70 + 75) // 2,
            id="extended-resource-not-asked-for",
        ),
        pytest.param(
            strategy("LeastAllocated", ("cpu", 1), ("example.com/fpga", 9)),
            make_pod().req({"example.com/fpga": 1}, cpu=3),
            None,
            70,
            id="resource-not-offered",
        ),
        pytest.param(
            strategy("LeastAllocated", ("pods", 1)), make_pod().req(cpu=1), None, 0, id="nothing"
        ),
        pytest.param(
            strategy("MostAllocated", ("ephemeral-storage", 1), ("cpu", 1)),
            make_pod().req(cpu=3),
            None,
            30,
            id="no-ephemeral-storage",
        ),
        pytest.param(
            RISING, make_pod().req(cpu=3, memory="5000Mi"), None, 28, id="ratio-rounds-half-up"
        ),
        pytest.param(
            FALLING,
            make_pod().req(cpu=11, memory="5000Mi"),
            None,
            75,
            id="ratio-leaves-zero-scores-out",
        ),
        pytest.param(FALLING, make_pod().req(cpu=11, memory="30Gi"), None, 0, id="ratio-all-zero"),
        pytest.param(
            strategy(
                "RequestedToCapacityRatio",
                ("cpu", 1),
                shape=[(20, 5), (40, 10), (60, 1)],
            ),
            make_pod().req(cpu="2500m"),
            None,
            50 + 50 * 5 // 20,
            id="ratio-between-points",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(20, 5), (40, 10), (60, 1)]),
            make_pod().req(cpu="4100m"),
            None,
            96,
            id="ratio-falling-truncates-towards-zero",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(20, 5), (40, 10), (60, 1)]),
            make_pod().req(cpu=1),
            None,
            50,
            id="ratio-before-the-first-point",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(20, 5), (40, 10), (60, 1)]),
            make_pod().req(cpu=9),
            None,
            10,
            id="ratio-after-the-last-point",
        ),
    ],
)
def test_nodes_score_by_how_full_they_would_be(
    args: Any, pod: PodBuilder, there: PodBuilder | None, expected: int
) -> None:
    assert score_of(args, pod, there, BIG) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        # CPU: 3 and twice 2 of 18; memory: 1 and twice 3 of 36 GiB.
        pytest.param({}, (7 * 100 // 18 + 7 * 100 // 36) // 2, id="default"),
        pytest.param(
            {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]},
            3 * 100 // 4,
            id="extended",
        ),
        pytest.param(
            {"type": "MostAllocated", "resources": [{"name": "example.com/none", "weight": 1}]},
            0,
            id="not-asked-for",
        ),
    ],
)
def test_a_placement_scores_by_how_full_its_nodes_are_together(
    args: dict[str, Any], expected: int
) -> None:
    there = [
        make_node("a").capacity({GPU: 4}, cpu=8, memory="16Gi", pods=9),
        make_node("b").capacity(cpu=10, memory="20Gi", pods=9),
        make_node("outside").capacity({GPU: 9}, cpu=1, memory="1Gi", pods=9),
    ]
    nodes = table_of(*there)
    for name, old in (("b", make_pod().req(cpu=3, memory="1Gi")), ("outside", make_pod())):
        row = nodes.row(name)
        assert row is not None
        nodes.add_pod(row, old.uid(f"on-{name}").obj())
    rows = nodes.exists.copy()
    rows[nodes.row("outside")] = False
    group = PodGroupInfo(KubernetesPodGroup(), (), ())
    pods = [make_pod(f"p{i}").req({GPU: gpus}, cpu=2, memory="3Gi") for i, gpus in ((0, 1), (1, 2))]
    plugin = make(NodeResourcesFit, **({"scoringStrategy": args} if args else {}))
    placement = GroupPlacement("here", rows)
    scores = plugin.score_placement(
        CycleState(), group, placement, [pod.obj() for pod in pods], nodes
    )
    assert scores == expected


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match="scoring strategy Random is not supported"):
        make(NodeResourcesFit, **strategy("Random"))


def reference(kind: str, weights: list[int], used: list[int], capacity: list[int]) -> int:
    """The strategies as their documentation defines them, one node at a time."""
    total = weight_sum = 0
    for weight, amount, offered in zip(weights, used, capacity, strict=True):
        if offered == 0:
            continue
        fraction = min(amount, offered)
        rising = {"LeastAllocated": (offered - fraction), "MostAllocated": fraction}
        if kind == "RequestedToCapacityRatio":
            percent = 100 if amount > offered else amount * 100 // offered
            score = 100 - percent
            if score == 0:
                continue
        else:
            score = rising[kind] * 100 // offered
        total += weight * score
        weight_sum += weight
    if weight_sum == 0:
        return 0
    if kind == "RequestedToCapacityRatio":
        return int(total / weight_sum + 0.5)
    return total // weight_sum


AMOUNTS = st.lists(st.integers(0, 12_000), min_size=3, max_size=3)


@given(
    kind=st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]),
    weights=st.lists(st.integers(1, 100), min_size=3, max_size=3),
    capacity=st.lists(AMOUNTS, min_size=1, max_size=4),
    used=AMOUNTS,
    asked=st.lists(st.integers(1, 5000), min_size=3, max_size=3),
)
def test_scores_equal_a_plain_computation_node_by_node(
    kind: str,
    weights: list[int],
    capacity: list[list[int]],
    used: list[int],
    asked: list[int],
) -> None:
    def amounts(values: list[int]) -> dict[str, Any]:
        return {"cpu": f"{values[0]}m", "memory": values[1], GPU: values[2]}

    nodes = table_of(*(make_node(f"{i}").capacity(amounts(c)) for i, c in enumerate(capacity)))
    for i in range(len(capacity)):
        row = nodes.row(f"{i}")
        assert row is not None
        nodes.add_pod(row, make_pod().req(amounts(used)).obj())
    names = zip(("cpu", "memory", GPU), weights, strict=True)
    args = strategy(kind, *names, shape=[(0, 10), (100, 0)])
    scores = scored(make(NodeResourcesFit, **args), make_pod().req(amounts(asked)).obj(), nodes)
    after = [u + a for u, a in zip(used, asked, strict=True)]
    expected = {f"{i}": reference(kind, weights, after, c) for i, c in enumerate(capacity)}
    assert scores == expected


def wrapped(number: int) -> int:
    """As 64 bits with a sign, as Go's int64."""
    return (number + 2**63) % 2**64 - 2**63


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("offered", [2**63 - 1, 2**62, 92233720368547759, 92233720368547758])
@pytest.mark.parametrize("asked", [1, 2**61, 2**62 - 1])
@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
def test_the_largest_numbers_score_as_in_go(kind: str, asked: int, offered: int) -> None:
    taken = min(asked, offered)
    if kind == "LeastAllocated":
        taken = 0 if asked > offered else offered - asked
    product = wrapped(taken * 100)
    expected = abs(product) // offered * (1 if product >= 0 else -1)
    on = make_node().capacity({GPU: offered}, pods=9)
    args = strategy(kind, (GPU, 1))
    assert score_of(args, make_pod().req({GPU: asked}), None, on) == expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
def test_a_node_of_the_most_cpus_that_can_be_written_has_a_score(kind: str) -> None:
    on = make_node().capacity(cpu=2**63 - 1, memory="8E", pods=9)
    args = strategy(kind, ("cpu", 1), ("memory", 1), shape=[(0, 0), (100, 10)])
    assert -100 <= score_of(args, make_pod().req(cpu=1, memory="1Gi"), None, on) <= 100


# Queueing hints


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(make_pod().node("n"), None, Hint.QUEUE, id="assigned-pod-gone"),
        pytest.param(make_pod().nominated("n"), None, Hint.QUEUE, id="nominated-pod-gone"),
        pytest.param(make_pod(), None, Hint.SKIP, id="pod-without-node-gone"),
        pytest.param(
            make_pod().req(cpu=2).node("n"),
            make_pod().req(cpu=1).node("n"),
            Hint.QUEUE,
            id="assigned-pod-shrinks",
        ),
        pytest.param(
            make_pod().req(cpu=1, memory=2).node("n"),
            make_pod().req(cpu=1, memory=1).node("n"),
            Hint.SKIP,
            id="shrinks-in-what-we-do-not-need",
        ),
        pytest.param(
            make_pod().req(cpu=1).node("n"),
            make_pod().req(cpu=2).node("n"),
            Hint.SKIP,
            id="assigned-pod-grows",
        ),
    ],
)
def test_a_pod_is_woken_by_one_that_makes_room(
    old: PodBuilder, new: PodBuilder | None, expected: Hint
) -> None:
    pod = make_pod().uid("me").req({GPU: 0}, cpu=1).obj()
    action = Action.UPDATE_POD_SCALE_DOWN if new else Action.DELETE
    place, after = Resource.ASSIGNED_POD, new.obj() if new else None
    assert hint(make(NodeResourcesFit), place, action, pod, old.obj(), after) is expected


def test_a_pod_is_woken_when_it_asks_for_less_itself() -> None:
    plugin, old, new = make(NodeResourcesFit), make_pod().req(cpu=2), make_pod().req(cpu=1)
    action = Action.UPDATE_POD_SCALE_DOWN
    answer = hint(plugin, Resource.TARGET_POD, action, old.obj(), old.obj(), new.obj())
    assert answer is Hint.QUEUE


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, {"cpu": 2, "pods": 1}, Hint.QUEUE, id="new-node-fits"),
        pytest.param(None, {"cpu": 1, "pods": 1}, Hint.SKIP, id="new-node-is-too-small"),
        pytest.param(None, {"cpu": 2}, Hint.SKIP, id="new-node-takes-no-pods"),
        pytest.param({"cpu": 2, "pods": 1}, {"cpu": 3, "pods": 1}, Hint.QUEUE, id="more-cpu"),
        pytest.param({"cpu": 3, "pods": 1}, {"cpu": 2, "pods": 1}, Hint.SKIP, id="less-cpu"),
        pytest.param({"cpu": 2, "pods": 1}, {"cpu": 2, "pods": 2}, Hint.QUEUE, id="more-pods"),
        pytest.param(
            {"cpu": 2, "pods": 1}, {"cpu": 2, "memory": 5, "pods": 1}, Hint.SKIP, id="more-memory"
        ),
    ],
)
def test_a_pod_is_woken_by_a_node_that_offers_more_of_what_it_needs(
    old: dict[str, Any] | None, new: dict[str, Any], expected: Hint
) -> None:
    pod = make_pod().req(cpu=2).obj()
    before = make_node().capacity(old).obj() if old else None
    after = make_node().capacity(new).obj()
    action = Action.UPDATE_NODE_ALLOCATABLE if old else Action.ADD
    assert hint(make(NodeResourcesFit), NODE, action, pod, before, after) is expected
