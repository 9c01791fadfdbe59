from typing import Any

import pytest
from tests.devices.support import device, node, piece, table

from bayplan.api.resource import ResourceSlice
from bayplan.devices.errors import AllocationError

ZONE_A = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    ]
}
HERE = node("n1", zone="a")


def offered(*slices: ResourceSlice) -> list[str]:
    """Devices in order; a pool from which nothing is taken says why instead."""
    made = table(*slices)
    out: list[str] = []
    for pool in made.pools(HERE):
        if pool.incomplete or pool.invalid:
            out.append(f"{pool}: {'incomplete' if pool.incomplete else 'invalid'}")
        out += [made.row(row).id.device for row in pool.rows]
    return out


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"nodeName": "n1"}, ["a"]),
        ({"nodeName": "n2"}, []),
        ({"allNodes": True}, ["a"]),
        ({"nodeSelector": ZONE_A}, ["a"]),
        ({"perDeviceNodeSelection": True}, []),
    ],
)
def test_slices_are_for_the_nodes_that_they_name(
    place: dict[str, Any], expected: list[str]
) -> None:
    assert offered(piece("s", device("a"), **place)) == expected


def test_one_matching_device_makes_a_slice_with_selection_per_device_relevant() -> None:
    devices = (device("a", nodeName="n2"), device("b", allNodes=True))
    assert offered(piece("s", *devices, perDeviceNodeSelection=True)) == ["a", "b"]


def test_the_order_is_by_pool_then_slice_then_as_listed() -> None:
    assert offered(
        piece("s2", device("c"), device("b"), pool="p2", count=2),
        piece("s1", device("d"), pool="p2", count=2),
        piece("s3", device("a"), pool="p1"),
    ) == ["a", "d", "c", "b"]


def test_pools_with_binding_conditions_come_last() -> None:
    assert offered(
        piece("s1", device("a"), device("b", bindingConditions=["ready"]), pool="p1"),
        piece("s2", device("c"), pool="p2"),
    ) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([piece("s", device("a"), count=2)], ["gpu.example.com/p: incomplete"]),
        ([piece("s", device("a"), device("a"))], ["gpu.example.com/p: invalid"]),
        (
            [piece("old", device("a"), generation=1), piece("new", device("b"), generation=2)],
            ["b"],
        ),
        (
            [
                piece("old", device("a"), generation=1, count=2),
                piece("new", device("b"), generation=2, nodeName="n2"),
            ],
            [],
        ),
        (
            [piece("s1", device("a"), count=2), piece("s2", device("b"), count=2, nodeName="n2")],
            ["a"],
        ),
    ],
    ids=["missing slice", "name twice", "newer generation", "newer elsewhere", "rest elsewhere"],
)
def test_incomplete_invalid_and_outdated_pools(
    slices: list[ResourceSlice], expected: list[str]
) -> None:
    assert offered(*slices) == expected


COUNTERS = [{"name": "set", "counters": {"memory": {"value": "4Gi"}}}]


@pytest.mark.parametrize(
    ("draw", "valid"),
    [
        ({"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}, True),
        ({"counterSet": "other", "counters": {"memory": {"value": "1Gi"}}}, False),
        ({"counterSet": "set", "counters": {"slots": {"value": "1"}}}, False),
    ],
)
def test_devices_may_draw_from_counters_that_exist(draw: dict[str, Any], valid: bool) -> None:
    slices = (
        piece("s1", count=2, sharedCounters=COUNTERS),
        piece("s2", device("a", consumesCounters=[draw]), count=2),
    )
    assert offered(*slices) == (["a"] if valid else ["gpu.example.com/p: invalid"])


def test_a_counter_set_twice_makes_the_pool_invalid() -> None:
    slices = (piece(name, count=2, sharedCounters=COUNTERS) for name in ("s1", "s2"))
    assert offered(*slices) == ["gpu.example.com/p: invalid"]


def test_slices_with_compatibility_groups_are_left_out() -> None:
    draw = {"counterSet": "s", "counters": {}, "compatibilityGroups": ["g"]}
    slices = (
        piece("s1", device("a", consumesCounters=[draw]), count=2),
        piece("s2", device("b"), count=2),
    )
    assert offered(*slices) == ["gpu.example.com/p: incomplete"]


def test_a_faulty_node_selector_is_an_error() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}
    with pytest.raises(AllocationError, match="failed to perform node selection for slice s"):
        offered(piece("s", device("a"), nodeSelector={"nodeSelectorTerms": [term]}))
