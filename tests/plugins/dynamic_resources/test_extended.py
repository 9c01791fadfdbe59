"""Extended resources that a DeviceClass stands for."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.core_harness import Cluster
from tests.devices.support import claim, decode, device, piece
from tests.handles import make_handle
from tests.plugins.dynamic_resources.world import World
from tests.plugins.harness import filtered, make

from bayplan.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.pod import Pod
from bayplan.api.resource import DeviceClass, ResourceClaim
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.client.errors import ApiError
from bayplan.config.args import NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Depends
from bayplan.framework.points import ScoreNodes
from bayplan.plugins.dynamic_resources.extended import special_claim
from bayplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.plugins.shared.device_classes import DeviceClasses
from bayplan.testing import make_node, make_pod

GPU = "example.com/gpu"
BY_CLASS = "deviceclass.resource.kubernetes.io/gpu"
CLAIM_PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/p-extended-resources-x"


def gpu_class(name: str = "gpu", created: str = "2026-01-01T00:00:00Z", **spec: str) -> DeviceClass:
    metadata = {"name": name, "uid": name, "creationTimestamp": created}
    return decode({"metadata": metadata, "spec": {"extendedResourceName": GPU} | spec}, DeviceClass)


def container(name: str, count: int = 0, **fields: Any) -> dict[str, Any]:
    requests = {"cpu": "1", GPU: str(count)} if count else {"cpu": "1"}
    return {"name": name, "resources": {"requests": requests}, **fields}


def pod_asking(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> Pod:
    spec = {"containers": containers or (container("main", 1),), "initContainers": init}
    return make_pod("p").meta(namespace="ns", uid="pod-uid").spec(**spec).obj()


def world_with(*names: str) -> World:
    """Each device of these names is on node n1; node n2 offers the resource by itself."""
    world = World(piece("s", *(device(name) for name in names)), nodes=("n1",))
    world.nodes.set_node(make_node("n2").capacity({GPU: "4"}).obj())
    world.objects.set(DEVICE_CLASS, gpu_class())
    return world


# Which class


@pytest.mark.parametrize(
    ("classes", "resource", "name"),
    [
        ([gpu_class()], GPU, "gpu"),
        ([gpu_class()], BY_CLASS, "gpu"),
        ([gpu_class()], "example.com/other", None),
        ([gpu_class("b"), gpu_class("a")], GPU, "a"),
        ([gpu_class("b", "2026-02-01T00:00:00Z"), gpu_class("a")], GPU, "b"),
        ([gpu_class("gpu"), gpu_class("a")], BY_CLASS, "gpu"),
    ],
)
def test_the_newest_class_stands_for_a_resource_then_the_lower_name(
    classes: list[DeviceClass], resource: str, name: str | None
) -> None:
    objects = ObjectStore()
    index = DeviceClasses(objects)
    for one in classes:
        objects.set(DEVICE_CLASS, one)
    behind = index.behind(resource)
    assert (behind.name if behind else None) == name


def test_the_epoch_moves_with_the_classes() -> None:
    objects = ObjectStore()
    index = DeviceClasses(objects)
    before = index.epoch
    objects.set(DEVICE_CLASS, gpu_class())
    assert index.epoch != before


# Which requests


def requests_of(pod: Pod) -> tuple[dict[str, int], list[tuple[str, str]]]:
    objects = ObjectStore()
    objects.set(DEVICE_CLASS, gpu_class())
    made, mappings = special_claim(pod, [GPU], DeviceClasses(objects))
    counts = {r.name: r.exactly.count for r in made.spec.devices.requests if r.exactly}
    return counts, [(m.container, m.request) for m in mappings]


@pytest.mark.parametrize(
    ("pod", "counts", "mappings"),
    [
        (
            pod_asking(container("a", 1), container("b", 2)),
            {"container-0-request-1": 1, "container-1-request-1": 2},
            [("a", "container-0-request-1"), ("b", "container-1-request-1")],
        ),
        (
            pod_asking(container("a", 2), init=(container("i", 1),)),
            {"container-1-request-1": 2},
            [("a", "container-1-request-1"), ("i", "container-1-request-1")],
        ),
        (
            pod_asking(container("a", 1), init=(container("i", 3), container("j", 2))),
            {"container-0-request-1": 2, "container-2-request-1": 1},
            [
                ("a", "container-2-request-1"),
                ("i", "container-2-request-1"),
                ("i", "container-0-request-1"),
                ("j", "container-2-request-1"),
                ("j", "container-0-request-1"),
            ],
        ),
        (
            pod_asking(container("a", 1), init=(container("s", 1, restartPolicy="Always"),)),
            {"container-0-request-1": 1, "container-1-request-1": 1},
            [("s", "container-0-request-1"), ("a", "container-1-request-1")],
        ),
    ],
    ids=["two containers", "init uses them again", "init needs more", "sidecar"],
)
def test_each_container_has_a_request_and_init_containers_share(
    pod: Pod, counts: dict[str, int], mappings: list[tuple[str, str]]
) -> None:
    assert requests_of(pod) == (counts, mappings)


# NodeResourcesFit


def test_fit_leaves_a_resource_that_the_node_does_not_offer_to_devices() -> None:
    nodes, objects = LiveNodeTable(), ObjectStore()
    nodes.set_node(make_node("none").capacity(cpu="4", pods=10).obj())
    nodes.set_node(make_node("few").capacity({GPU: "1", "cpu": "4", "pods": 10}).obj())
    fit, pod = make(NodeResourcesFit, make_handle(nodes, objects)), pod_asking(container("a", 2))
    wrong = f"Insufficient {GPU}"
    assert {n: s.message for n, s in filtered(fit, pod, nodes).items()} == {
        "none": wrong,
        "few": wrong,
    }
    epoch = fit.epoch(pod)
    objects.set(DEVICE_CLASS, gpu_class())
    assert fit.epoch(pod) != epoch
    assert {n: s.message for n, s in filtered(fit, pod, nodes).items()} == {
        "none": "",
        "few": wrong,
    }


# DynamicResources


def test_a_node_fits_by_itself_or_by_its_devices() -> None:
    assert world_with("a").filter(pod_asking()) == {"n1": "", "n2": ""}
    assert world_with().filter(pod_asking()) == {"n1": "cannot allocate all claims", "n2": ""}


def test_another_resource_that_no_class_stands_for_has_to_be_on_the_node() -> None:
    world = world_with("a")
    world.nodes.set_node(make_node("n2").capacity({GPU: "4", "example.com/other": "0"}).obj())
    both = {"cpu": "1", GPU: "1", "example.com/other": "1"}
    pod = pod_asking({"name": "main", "resources": {"requests": both}})
    assert world.filter(pod) == {"n1": "cannot fit resource", "n2": ""}


def test_nothing_is_reserved_on_a_node_that_offers_the_resource() -> None:
    world, pod = world_with("a"), pod_asking()
    state = world.reserve(pod, "n2")
    assert world.pre_bind(state, pod, "n2") is None
    assert world.api.log == []


def test_the_claim_is_created_written_and_named_in_the_status_of_the_pod() -> None:
    world, pod = world_with("a"), pod_asking()
    assert world.pre_bind(world.reserve(pod), pod) is None
    assert world.api.log == [
        "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims",
        CLAIM_PATH,
        f"{CLAIM_PATH}/status",
        "/api/v1/namespaces/ns/pods/p/status",
    ]
    status = world.api.stored["/api/v1/namespaces/ns/pods/p"]["status"]
    assert status["extendedResourceClaimStatus"] == {
        "resourceClaimName": "p-extended-resources-x",
        "requestMappings": [
            {
                "containerName": "main",
                "resourceName": GPU,
                "requestName": "container-0-request-1",
            }
        ],
    }
    stored = see(world)
    assert stored.reserved_by("pod-uid")
    assert world.handle.metrics is not None
    usage = world.plugin._tracker.fleet.table.usage
    row = world.plugin._tracker.fleet.table.row(0)
    assert usage.holders(row.id) == [stored.uid], "no claim in memory holds it any more"


@pytest.mark.parametrize("refused", [False, True], ids=["success", "failure"])
def test_creations_of_claims_are_counted(refused: bool) -> None:
    world, pod = world_with("a"), pod_asking()
    creations: list[bool] = []
    world.handle.instrument.claim_created = (  # type: ignore[method-assign]
        lambda *, success: creations.append(success)
    )
    if refused:
        world.api.create = refuse  # type: ignore[method-assign]
    world.pre_bind(world.reserve(pod), pod)
    assert creations == [not refused]


def refuse(path: str, body: bytes) -> bytes:
    raise ApiError("refused")


def see(world: World) -> ResourceClaim:
    made = world.stored("p-extended-resources-x")
    world.objects.set(RESOURCE_CLAIM, made)
    return made


def test_a_claim_whose_pod_is_given_up_is_deleted_and_holds_its_devices_until_then() -> None:
    world, pod, other = world_with("a"), pod_asking(), pod_asking()
    world.create(claim())
    state = world.reserve(pod)
    world.pre_bind(state, pod)
    made = see(world)
    assert not world.plugin._tracker._made_for
    world.unreserve(state, pod, "n1")
    assert CLAIM_PATH not in world.api.stored
    assert world.filter(other)["n1"] == "cannot schedule extended resource claim"
    world.objects.remove(RESOURCE_CLAIM, made.key)
    assert world.filter(other)["n1"] == ""


def test_a_claim_of_an_earlier_attempt_is_deleted_first() -> None:
    world, pod, state = world_with("a"), pod_asking(), CycleState()
    world.pre_bind(world.reserve(pod), pod)
    see(world)
    stale = "cannot schedule extended resource claim"
    assert world.filter(pod, state) == {"n1": stale, "n2": stale}
    result = world.post_filter(state, pod, None)  # type: ignore[arg-type]
    assert result.status.message == "deletion of ResourceClaim completed"
    assert CLAIM_PATH not in world.api.stored


# Scores of NodeResourcesFit and NodeResourcesBalancedAllocation


def scoring(name: str = GPU) -> NodeResourcesFitArgs:
    strategy = {"type": "LeastAllocated", "resources": [{"name": name, "weight": 1}]}
    return NodeResourcesFitArgs.model_validate({"scoringStrategy": strategy})


def scores(plugin: ScoreNodes, world: World, pod: Pod) -> dict[str | None, int]:
    column = plugin.score_nodes(CycleState(), pod, world.nodes)
    assert column is not None
    rows = np.flatnonzero(world.nodes.exists).tolist()
    return {world.nodes.names[row]: int(column[row]) for row in rows}


def test_devices_count_where_a_node_offers_nothing_by_itself() -> None:
    world = world_with("a", "b", "c", "d")
    fit = NodeResourcesFit(scoring(), world.handle)
    assert scores(fit, world, pod_asking()) == {"n1": 75, "n2": 75}
    world.reserve(pod_asking(container("main", 2)))
    assert scores(fit, world, pod_asking()) == {"n1": 25, "n2": 75}


@pytest.mark.parametrize(
    ("selector", "score"),
    [
        pytest.param("true", 50, id="accepted"),
        pytest.param("device.driver == 'nobody'", 0, id="not accepted"),
        pytest.param("device.attributes['x'].y", 0, id="in error"),
    ],
)
def test_only_devices_of_the_class_count(selector: str, score: int) -> None:
    world = world_with("a", "b")
    one = msgspec.to_builtins(gpu_class())
    one["spec"]["selectors"] = [{"cel": {"expression": selector}}]
    world.objects.set(DEVICE_CLASS, decode(one, DeviceClass))
    fit = NodeResourcesFit(scoring(), world.handle)
    assert scores(fit, world, pod_asking())["n1"] == score


def test_devices_of_outdated_and_incomplete_pools_count() -> None:
    world = world_with("a", "b")
    for name, generation in (("s2", 2), ("s3", 3)):
        world.objects.set(RESOURCE_SLICE, piece(name, device("c"), generation=generation, count=9))
    fit = NodeResourcesFit(scoring(), world.handle)
    assert scores(fit, world, pod_asking())["n1"] == 75


def test_devices_of_several_nodes_count_on_each() -> None:
    world = world_with("a", "b")
    world.objects.set(
        RESOURCE_SLICE,
        piece("s2", device("c"), device("d"), nodeName=None, allNodes=True, pool="q"),
    )
    world.nodes.set_node(make_node("n3").obj())
    fit = NodeResourcesFit(scoring(), world.handle)
    assert scores(fit, world, pod_asking()) == {"n1": 75, "n2": 75, "n3": 50}
    state, pod = CycleState(), pod_asking(container("main", 2))
    assert world.plugin.pre_filter(state, pod, world.nodes) is None
    world.plugin.filter_nodes(state, pod, world.nodes)
    assert world.plugin.reserve(state, pod, "n3") is None
    assert scores(fit, world, pod_asking()) == {"n1": 25, "n2": 75, "n3": 0}


def test_the_balance_counts_devices() -> None:
    world = world_with("a", "b")
    args = NodeResourcesBalancedAllocationArgs.model_validate(
        {"resources": [{"name": GPU, "weight": 1}, {"name": "cpu", "weight": 1}]}
    )
    world.nodes.set_node(make_node("n1").capacity(cpu=2).obj())
    world.nodes.set_node(make_node("n2").capacity({GPU: "4"}, cpu=2).obj())
    balanced = NodeResourcesBalancedAllocation(args, world.handle)
    assert scores(balanced, world, pod_asking()) == {"n1": 75, "n2": 68}


def test_kept_scores_follow_the_devices() -> None:
    world = world_with("a", "b", "c", "d")
    fit, pod = NodeResourcesFit(scoring(), world.handle), pod_asking()
    before = fit.epoch(pod)
    world.reserve(pod)
    assert fit.epoch(pod) != before
    assert fit.score_depends != Depends.RESOURCES
    cpu_only = make_pod("q").req(cpu=1).obj()
    assert fit.epoch(cpu_only) == NodeResourcesFit(NodeResourcesFitArgs(), world.handle).epoch(
        cpu_only
    )


def test_a_resource_of_device_plugins_does_not_load_the_search_for_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "bayplan.devices.fleet", None)  # an import of it fails
    cluster = Cluster()
    node = make_node("n").capacity({"cpu": "4", "memory": "8Gi", "pods": "10", GPU: "1"})
    cluster.add(node, make_pod("p").req({"cpu": "1", GPU: "1"}))
    cluster.run()
    assert cluster.bound == [("p", "n")]
