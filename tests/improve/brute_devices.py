"""The clusters of `tests.improve.brute` with ResourceClaims in place of the extended resource.

Each node has a ResourceSlice with as many devices, and each Pod a claim from a template for as many
as it asks for, so the same arithmetic is right. `python -m tests.improve.brute_devices` compares
200 random ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import typer
from tests.improve.brute import GPU, MOST, Fragmented, built, compared, fragmented, judged, planned

from bayplan.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.testing import Builder, PodBuilder, make_object

DRIVER = "gpu.example.com"


def devices(node: str, number: int) -> Builder[Any]:
    """A slice with so many devices, g0 and so on, for a node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    names = [{"name": f"g{i}"} for i in range(number)]
    piece = make_object(RESOURCE_SLICE, node)
    return piece.spec(driver=DRIVER, nodeName=node, pool=pool, devices=names)


def device_class() -> Builder[Any]:
    """Any device."""
    return make_object(DEVICE_CLASS, "any")


def claim_of(pod: PodBuilder, number: int, held: Iterable[int] = ()) -> Builder[Any]:
    """The claim that was made for a Pod from a template: for so many devices, these allocated."""
    name, meta = f"{pod.json['metadata']['name']}-gpu", pod.json["metadata"]
    pod.spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])
    pod.status(resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": name}])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    claim = make_object(RESOURCE_CLAIM, name).meta(ownerReferences=[owner | {"controller": True}])
    exactly = {"deviceClassName": "any", "count": number}
    claim.spec(devices={"requests": [{"name": "r", "exactly": exactly}]})
    if node := pod.json["spec"].get("nodeName"):
        results = [
            {"request": "r", "driver": DRIVER, "pool": node, "device": f"g{index}"}
            for index in held
        ]
        key = {"key": "metadata.name", "operator": "In", "values": [node]}
        where = {"nodeSelectorTerms": [{"matchFields": [key]}]}
        claim.status(
            allocation={"devices": {"results": results}, "nodeSelector": where},
            reservedFor=[{"resource": "pods", "name": meta["name"], "uid": meta["uid"]}],
        )
    return claim


def with_devices(cluster: Fragmented) -> list[Builder[Any]]:
    """Its objects, with claims."""
    slices = [devices(f"n{i}", gpu) for i, (_, gpu, _) in enumerate(cluster.nodes)]
    objects, claims, used = built(cluster), list[Builder[Any]](), Counter[str]()
    for one in objects:
        if not isinstance(one, PodBuilder):
            del one.json["status"]["allocatable"][GPU]
            continue
        asked = one.json["spec"]["containers"][0]["resources"]["requests"]
        if number := int(asked.pop(GPU)):
            node = one.json["spec"].get("nodeName", "")
            claims.append(claim_of(one, number, range(used[node], used[node] + number)))
            used[node] += number
    nodes = [one for one in objects if one.kind is not POD]
    pods = [one for one in objects if one.kind is POD]
    return [device_class(), *slices, *nodes, *claims, *pods]


def main(clusters: int = 200, seed: int = 0) -> None:
    """Compare so many random clusters."""
    rng = random.Random(seed)
    several = [fragmented(rng) for _ in range(clusters)]
    compared(judged(one, planned(one, MOST, with_devices(one))) for one in several)


if __name__ == "__main__":
    typer.run(main)
