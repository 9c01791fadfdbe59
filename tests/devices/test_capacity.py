from typing import Any

import msgspec
import pytest

from bayplan.api.resource import DeviceCapacity
from bayplan.devices.capacity import CapacityError, consumption

RANGE = {"min": "1Gi", "max": "4Gi", "step": "1Gi"}


def memory(value: str, **policy: Any) -> dict[str, DeviceCapacity]:
    body = {"value": value, **({"requestPolicy": policy} if policy else {})}
    return {"memory": msgspec.convert(body, DeviceCapacity)}


@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        ({}, None, "10Gi"),
        ({}, "3", "3"),
        ({"default": "1Gi"}, None, "1Gi"),
        ({"default": "1Gi", "validRange": RANGE}, "1", "1Gi"),
        ({"default": "1Gi", "validRange": RANGE}, "1500Mi", "2Gi"),
        ({"default": "1Gi", "validRange": RANGE}, "5Gi", None),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "2Gi", "4Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "8Gi", None),
        ({"default": "500m", "validRange": {"min": "250m", "step": "250m"}}, "0.3", "1"),
        ({"validRange": RANGE}, None, None),
    ],
)
def test_what_a_request_consumes(
    policy: dict[str, Any], asked: str | None, consumed: str | None
) -> None:
    needs = consumption(memory("10Gi", **policy), {"memory": asked} if asked else {})
    assert (needs and str(needs["memory"])) == consumed


def test_a_device_without_the_capacity_is_no_candidate() -> None:
    assert consumption({}, {"memory": "1"}) is None
    assert consumption({}, {}) == {}


@pytest.mark.parametrize(
    ("capacity", "asked", "error"),
    [
        (memory("1Gi"), "-1", 'capacity "memory": capacity value is negative'),
        (
            memory("1Gi", validRange={"min": "1", "step": "1"}),
            "9223372036854775808",
            'capacity "memory": capacity request cannot be represented in the device\'s range '
            "arithmetic: request 9223372036854775808 exceeds MaxInt64",
        ),
        (
            memory("1Gi", validRange={"min": "1", "step": "1"}),
            "1e30",
            'capacity "memory": capacity request cannot be represented in the device\'s range '
            "arithmetic: request 1e30 exceeds MaxInt64",
        ),
        (
            memory("1Gi", validRange={"min": "1", "max": "10E", "step": "10"}),
            "9223372036854775807",
            'capacity "memory": capacity request cannot be represented in the device\'s range '
            "arithmetic: rounding request 9223372036854775807 up to the next step passes MaxInt64",
        ),
    ],
)
def test_an_amount_that_cannot_be_computed_is_an_error(
    capacity: dict[str, DeviceCapacity], asked: str, error: str
) -> None:
    with pytest.raises(CapacityError) as raised:
        consumption(capacity, {"memory": asked})
    assert str(raised.value) == error
