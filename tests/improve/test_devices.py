"""Moves of Pods with ResourceClaims: the devices of claims that were made for them go with them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.improve.brute import fewest, fragmented, holds, planned
from tests.improve.brute_devices import claim_of, device_class, devices, with_devices
from tests.improve.test_improve import asked, cluster, moves, node, runs, waits

from bayplan.api.kinds import RESOURCE_CLAIM
from bayplan.devices.usage import DeviceId
from bayplan.improve.goals import fitting
from bayplan.improve.plan import improve
from bayplan.plugins.dynamic_resources import DynamicResources
from bayplan.plugins.shared.device_tracker import ANNOTATION
from bayplan.testing import Builder, Cluster, PodBuilder

GPU = "example.com/gpu"


def scene(*more: Builder[Any]) -> list[Builder[Any]]:
    """A node with 4 devices, and one with 2; a Pod that waits for 4."""
    nodes = [node("n1", 8), devices("n1", 4), node("n2", 8), devices("n2", 2)]
    pod = waits(cpu=1)
    return [device_class(), *nodes, claim_of(pod, 4), pod, *more]


def in_the_way(name: str = "a") -> tuple[PodBuilder, Builder[Any]]:
    """A Pod with a device of n1, and its claim."""
    pod = runs(name, "n1")
    return pod, claim_of(pod, 1, [2])


def in_use(made: Cluster) -> dict[str, list[str]]:
    """By device, the claims that hold it."""
    usage = made.plugin(DynamicResources)._tracker.fleet.table.usage
    numbers = {"n1": 4, "n2": 2}
    ids = [DeviceId("gpu.example.com", n, f"g{i}") for n, k in numbers.items() for i in range(k)]
    return {str(one): usage.holders(one) for one in ids}


def test_a_pod_with_a_claim_of_its_own_moves_and_frees_its_devices() -> None:
    pod, claim = in_the_way()
    made = cluster(*scene(claim, pod))
    before = in_use(made)
    answer = asked(made)
    assert moves(answer) == [("a", "n1", "n2")]
    assert answer["placed"] == {"default/waits": "n1"}
    assert in_use(made) == before
    assert sum(map(len, before.values())) == 1


def test_a_pod_goes_where_there_are_devices_for_it() -> None:
    pod, claim = in_the_way()
    other = runs("b", "n2", movable="")
    made = cluster(*scene(claim, pod, claim_of(other, 2, [0, 1]), other))
    assert not asked(made)["reached"]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("named", "names a ResourceClaim, which stays with its devices"),
        ("shared", "has a ResourceClaim that another Pod uses, too"),
        ("deleted", "has ResourceClaims that are not all there"),
        ("unknown", "has ResourceClaims, of which its profile knows nothing"),
    ],
)
def test_whose_devices_cannot_be_had_elsewhere_stays(case: str, why: str) -> None:
    pod, claim = in_the_way()
    config = None
    if case == "named":
        name = claim.json["metadata"]["name"]
        pod.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
    if case == "shared":
        users = claim.json["status"]["reservedFor"]
        claim.status(reservedFor=[*users, {"resource": "pods", "name": "b", "uid": "b"}])
    if case == "unknown":
        off = {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}
        config = {"profiles": [{"schedulerName": "bayplan", "plugins": off}]}
    if case == "deleted":
        claim.meta(deletionTimestamp="2026-01-01T00:00:00Z")
    objects = scene(claim, pod)
    if case == "unknown":  # the other Pod waits for CPUs
        objects += [waits("big", 8), runs("c", "n2", movable="")]
    answer = asked(cluster(*objects, config=config), "big" if case == "unknown" else "waits")
    assert not answer["reached"]
    assert any(why in line for line in answer["against"]), answer["against"]


def test_a_node_is_emptied_of_pods_whose_extended_resources_are_devices() -> None:
    pod = runs("a", "n1").req(**{GPU: 1})
    claim = claim_of(pod, 1, [2]).annotation(ANNOTATION, "true")
    del pod.json["spec"]["resourceClaims"]
    device = device_class().spec(extendedResourceName=GPU)
    made = cluster(device, *scene(claim, pod)[1:])
    before = in_use(made)
    assert moves(asked(made)) == [("a", "n1", "n2")]
    assert in_use(made) == before


@pytest.mark.parametrize("seed", range(25))
def test_whenever_all_sequences_of_moves_find_a_plan_so_do_we(seed: int) -> None:
    fragments = fragmented(random.Random(seed))
    best, found = fewest(fragments), planned(fragments, objects=with_devices(fragments))
    assert (found is None) is (best is None)
    if found is not None:
        assert len(found) == best
        assert holds(fragments, found)


@pytest.mark.parametrize("seed", range(10))
def test_a_search_leaves_all_devices_and_claims_as_they_were(seed: int) -> None:
    made = Cluster()
    made.add(*with_devices(fragmented(random.Random(seed))))
    tracker = made.plugin(DynamicResources)._tracker
    claims = made.world.cache.objects.all(RESOURCE_CLAIM)
    usage = tracker.fleet.table.usage
    before = dict(usage._by_claim), [tracker.claim(claim.key) for claim in claims]
    improve(made.core, fitting(made.core, "waits", "default"), 0.0, most=3, seconds=60)
    assert (dict(usage._by_claim), [tracker.claim(claim.key) for claim in claims]) == before
    assert not any(tracker.in_flight(claim) for claim in claims)
