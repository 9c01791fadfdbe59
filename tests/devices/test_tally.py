"""What stands against devices, as `explain` counts it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.devices.support import (
    allocator,
    claim,
    color,
    decode,
    device,
    exactly,
    held,
    node,
    piece,
    selected,
    table,
)

from bayplan.api.resource import DeviceClass, ResourceSlice
from bayplan.devices.candidates import NodeDevices
from bayplan.devices.requests import ClaimShapes
from bayplan.devices.tally import merge

RED, BLUE = {"color": {"string": "red"}}, {"color": {"string": "blue"}}
BROKEN = [{"key": "broken", "effect": "NoSchedule"}]
ANY = DeviceClass()
GPU = decode(
    {"metadata": {"name": "gpu"}, "spec": {"selectors": selected("device.driver == 'none'")}},
    DeviceClass,
)
COUNTERS = [{"name": "set", "counters": {"memory": {"value": "4Gi"}}}]


def drawing(amount: str) -> list[dict[str, Any]]:
    return [{"counterSet": "set", "counters": {"memory": {"value": amount}}}]


def described(*slices: ResourceSlice, request: dict[str, Any], **spec: Any) -> list[str]:
    """What is said of one claim on n1, where device ``used`` is in use, and on n2."""
    devices, asked = table(*slices), claim(request, **spec)
    devices.usage.set_claim("other", [held("used")])
    judge = allocator(devices, GPU)
    shape = ClaimShapes().of(asked, {"any": ANY, "gpu": GPU}.get)
    tallies = []
    for name in ("n1", "n2"):
        reached = NodeDevices.of(devices, node(name))
        tallies += judge.tallies(reached, [asked.key], [shape])
    return [one.describe().partition(": ")[2] for one in merge(tallies)]


@pytest.mark.parametrize(
    ("devices", "request_", "spec", "counts"),
    [
        pytest.param([], {}, {}, "no devices", id="none"),
        pytest.param([device("used"), device("a")], {}, {}, "1 in use, 1 free", id="in-use"),
        pytest.param(
            [device("a", attributes=RED), device("b")],
            {"selectors": color("red")},
            {},
            "1 not selected by the request "
            '(device.attributes["gpu.example.com"].?color.orValue("") == "red"), 1 free',
            id="by-the-request",
        ),
        pytest.param(
            [device("a")],
            {"deviceClassName": "gpu"},
            {},
            "1 not selected by class gpu (device.driver == 'none')",
            id="by-the-class",
        ),
        pytest.param(
            [device("a")],
            {"selectors": selected("device.attributes['x'].y")},
            {},
            "1 in error",
            id="error",
        ),
        pytest.param(
            [device("a", capacity={"memory": {"value": "1Gi"}})],
            {"capacity": {"requests": {"memory": "2Gi"}}},
            {},
            "1 short of capacity",
            id="capacity",
        ),
        pytest.param(
            [device("a", taints=BROKEN), device("used", taints=BROKEN)],
            {},
            {},
            "1 in use, 1 tainted",
            id="tainted-and-in-use-counts-as-in-use",
        ),
        pytest.param(
            [device("a", attributes=RED), device("b")],
            {},
            {"constraints": [{"matchAttribute": "gpu.example.com/color"}]},
            "1 against a constraint, 1 free",
            id="constraint",
        ),
    ],
)
def test_every_device_counts_once_by_its_first_obstacle(
    devices: list[dict[str, Any]], request_: dict[str, Any], spec: dict[str, Any], counts: str
) -> None:
    asked = exactly(**request_)
    assert described(piece("s", *devices), request=asked, **spec) == [counts]


def test_devices_are_short_of_counters_that_others_have_drawn_from() -> None:
    slices = (
        piece("a", device("used", consumesCounters=drawing("3Gi")), count=2),
        piece("b", count=2, sharedCounters=COUNTERS),
    )
    more = piece(
        "a",
        device("used", consumesCounters=drawing("3Gi")),
        device("b", consumesCounters=drawing("2Gi")),
        device("c", consumesCounters=drawing("1Gi")),
        count=2,
    )
    assert described(*slices, request=exactly()) == ["1 in use"]
    counts = "1 in use, 1 short of counters, 1 free"
    assert described(more, slices[1], request=exactly()) == [counts]


def test_pools_that_do_not_count_and_devices_for_other_nodes_are_named() -> None:
    single = device("b", nodeName="n2")
    slices = (
        piece("a", device("x"), count=2),
        piece("s", single, pool="q", perDeviceNodeSelection=True),
    )
    assert described(*slices, request=exactly()) == ["1 free, 1 incomplete pool"]


def test_alternatives_of_a_list_have_a_tally_each() -> None:
    subs = [{"name": name, "deviceClassName": "any"} for name in ("best", "other")]
    request = {"name": "r", "firstAvailable": subs}
    assert described(piece("s", device("a")), request=request) == ["1 free", "1 free"]
