"""Devices on the wire."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bayplan.api.resource import AllocationResult, DeviceAttribute, ResourceClaim, ResourceSlice


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        ({"string": "x"}, ("string", "x")),
        ({"int": 0}, ("int", 0)),
        ({"bool": False}, ("bool", False)),
        ({"version": "1.0.0"}, ("version", "1.0.0")),
        ({"strings": ["x"]}, None),
    ],
)
def test_an_attribute_has_one_typed_value(value: dict[str, Any], typed: object) -> None:
    assert msgspec.convert(value, DeviceAttribute).typed == typed


def test_a_slice_that_says_little_gets_defaults() -> None:
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
    piece = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)
    assert piece.spec.node_name is None
    assert piece.spec.devices == ()


def test_a_request_without_count_asks_for_one_device() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim = msgspec.convert({"spec": {"devices": {"requests": [request]}}}, ResourceClaim)
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)


def test_an_allocation_is_written_as_it_was_read() -> None:
    wire = {
        "devices": {
            "results": [
                {
                    "request": "r",
                    "driver": "d",
                    "pool": "p",
                    "device": "x",
                    "adminAccess": True,
                    "shareID": "s",
                    "consumedCapacity": {"memory": "1Gi"},
                    "tolerations": [{"operator": "Exists", "tolerationSeconds": 5}],
                }
            ],
            "config": [
                {"source": "FromClaim", "opaque": {"driver": "d", "parameters": {"a": [1, None]}}}
            ],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            ]
        },
        "allocationTimestamp": "2026-01-02T03:04:05Z",
    }
    decoded = msgspec.json.decode(json.dumps(wire), type=AllocationResult)
    assert json.loads(msgspec.json.encode(decoded)) == wire


def test_a_claim_knows_who_uses_it() -> None:
    user = {"resource": "pods", "name": "p", "uid": "u"}
    claim = msgspec.convert({"status": {"reservedFor": [user]}}, ResourceClaim)
    assert claim.reserved_by("u")
    assert not claim.reserved_by("v")
