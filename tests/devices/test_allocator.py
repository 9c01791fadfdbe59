"""The allocator on cases that name one rule each; random ones are judged end to end."""

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
    names,
    node,
    piece,
    selected,
    table,
)

from bayplan.api.resource import DeviceClass, ResourceClaim
from bayplan.devices.errors import AllocationError, AllocationTimeoutError, NodeAllocationError

RED, BLUE = {"color": {"string": "red"}}, {"color": {"string": "blue"}}
NODE = node("n1")
FAILING = selected('device.attributes["other"].x')


def alternatives(name: str, *subs: dict[str, Any]) -> dict[str, Any]:
    listed = [{"deviceClassName": "any", "name": f"s{i}", **sub} for i, sub in enumerate(subs)]
    return {"name": name, "firstAvailable": listed}


def simple(*devices: str) -> list[dict[str, Any]]:
    return [device(name) for name in devices]


FOUR = (
    device("a", attributes=RED),
    device("b", attributes=BLUE),
    device("c", attributes=BLUE),
    device("d"),
)
MATCH = [{"matchAttribute": "gpu.example.com/color"}]
DISTINCT = [{"distinctAttribute": "gpu.example.com/color"}]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([claim()], [["a"]]),
        ([claim(exactly(count=3))], [["a", "b", "c"]]),
        ([claim(exactly(count=5))], None),
        ([claim(exactly(), exactly("r2"))], [["a", "b"]]),
        ([claim(), claim(name="c2")], [["a"], ["b"]]),
        ([claim(exactly(selectors=color("blue")))], [["b"]]),
        ([claim(exactly(allocationMode="All", selectors=color("blue")))], [["b", "c"]]),
        ([claim(exactly(allocationMode="All", selectors=color("green")))], None),
        ([claim(exactly(count=2), constraints=MATCH)], [["b", "c"]]),
        ([claim(exactly(count=2), constraints=DISTINCT)], [["a", "b"]]),
        ([claim(exactly(count=3), constraints=DISTINCT)], None),
        ([claim(exactly(), exactly("r2", selectors=color("red")))], [["b", "a"]]),
        ([claim(alternatives("r", {"count": 5}, {"count": 2}))], [["a", "b"]]),
        (
            [claim(exactly(count=2), exactly("r2"), constraints=[{**MATCH[0], "requests": ["r"]}])],
            [["b", "c", "a"]],
        ),
    ],
)
def test_the_first_choice_in_order_wins(
    claims: list[ResourceClaim], expected: list[list[str]] | None
) -> None:
    devices = table(piece("s", *FOUR))
    assert names(allocator(devices).allocate(NODE, claims)) == expected


def test_devices_in_use_are_passed_over_except_for_admins() -> None:
    devices = table(piece("s", *FOUR))
    devices.usage.set_claim("holder", [held("a")])
    assert names(allocator(devices).allocate(NODE, [claim()])) == [["b"]]
    result = allocator(devices).allocate(NODE, [claim(exactly(adminAccess=True))])
    assert names(result) == [["a"]]
    assert result is not None
    assert result[0].devices.results[0].admin_access


def test_an_admin_does_not_get_a_device_twice_in_one_claim() -> None:
    devices = table(piece("s", device("a")))
    twice = claim(exactly(adminAccess=True), exactly("r2", adminAccess=True))
    assert allocator(devices).allocate(NODE, [twice]) is None
    one_each = [claim(exactly(adminAccess=True), name=name) for name in ("c1", "c2")]
    assert names(allocator(devices).allocate(NODE, one_each)) == [["a"], ["a"]]


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (None, [["b"]]),
        ({"key": "broken", "operator": "Exists"}, [["a"]]),
        ({"key": "broken", "operator": "Equal", "value": "no"}, [["b"]]),
        ({"operator": "Exists", "effect": "NoExecute"}, [["b"]]),
        ({"operator": "Exists"}, [["a"]]),
    ],
)
def test_taints_must_be_tolerated(
    toleration: dict[str, str] | None, expected: list[list[str]]
) -> None:
    taint = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
    harmless = {"key": "old", "effect": "None"}
    devices = table(piece("s", device("a", taints=[taint]), device("b", taints=[harmless])))
    request = exactly(tolerations=[toleration] if toleration else [])
    assert names(allocator(devices).allocate(NODE, [claim(request)])) == expected


def test_partitions_draw_from_the_counters_of_their_pool() -> None:
    counters = [{"name": "set", "counters": {"memory": {"value": "4Gi"}}}]

    def partition(name: str, amount: str) -> dict[str, Any]:
        draw = {"counterSet": "set", "counters": {"memory": {"value": amount}}}
        return device(name, consumesCounters=[draw])

    parts = (partition("half-1", "2Gi"), partition("full", "4Gi"), partition("half-2", "2Gi"))
    devices = table(piece("s1", count=2, sharedCounters=counters), piece("s2", *parts, count=2))
    request = claim(exactly(count=2))
    assert names(allocator(devices).allocate(NODE, [request])) == [["half-1", "half-2"]]
    devices.usage.set_claim("holder", [held("half-1")])
    assert names(allocator(devices).allocate(NODE, [claim()])) == [["half-2"]]
    devices.usage.set_claim("holder", [held("full")])
    assert allocator(devices).allocate(NODE, [claim()]) is None


def test_shares_of_a_device_consume_its_capacity() -> None:
    shared = device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}})
    devices = table(piece("s", shared))
    request = exactly(capacity={"requests": {"memory": "3Gi"}})
    result = allocator(devices).allocate(NODE, [claim(request)])
    assert result is not None
    (share,) = result[0].devices.results
    assert share.share_id
    assert share.consumed_capacity == {"memory": "3Gi"}
    assert allocator(devices).allocate(NODE, [claim(request), claim(request, name="c2")]) is None
    devices.usage.set_claim("holder", [share])
    assert allocator(devices).allocate(NODE, [claim(request)]) is None
    less = exactly(capacity={"requests": {"memory": "1Gi"}})
    assert names(allocator(devices).allocate(NODE, [claim(less)])) == [["a"]]


def test_devices_for_other_nodes_are_passed_over() -> None:
    parts = (device("a", nodeName="n2"), device("b", nodeName="n1"))
    devices = table(piece("s", *parts, perDeviceNodeSelection=True))
    assert names(allocator(devices).allocate(NODE, [claim()])) == [["b"]]


OPAQUE = {"opaque": {"driver": "gpu.example.com", "parameters": {"n": 1}}}


def test_configuration_comes_from_the_class_once_and_from_the_claim() -> None:
    configured = decode({"metadata": {"name": "gpu"}, "spec": {"config": [OPAQUE]}}, DeviceClass)
    requests = [exactly(name, deviceClassName="gpu") for name in ("r1", "r2")]
    both = [*requests, exactly("r3")]
    config = [OPAQUE, {**OPAQUE, "requests": ["r1", "r3"]}, {**OPAQUE, "requests": ["r9"]}]
    devices = table(piece("s", *FOUR))
    result = allocator(devices, configured).allocate(NODE, [claim(*both, config=config)])
    assert result is not None
    assert [(c.source, c.requests) for c in result[0].devices.config] == [
        ("FromClass", ("r1", "r2")),
        ("FromClaim", ()),
        ("FromClaim", ("r1", "r3")),
    ]


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("place", "fields", "expressions"),
    [
        ({"nodeName": "n1"}, ["metadata.name"], []),
        ({"allNodes": True}, None, None),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}, [], ["zone"]),
    ],
)
def test_an_allocation_says_where_it_can_be_used(
    place: dict[str, Any], fields: list[str] | None, expressions: list[str] | None
) -> None:
    devices = table(piece("s", *simple("a", "b"), **place))
    result = allocator(devices).allocate(node("n1", zone="a"), [claim(exactly(count=2))])
    assert result is not None
    selector = result[0].node_selector
    if selector is None:
        assert fields is None
        return
    (term,) = selector.node_selector_terms
    assert [r.key for r in term.match_fields] == fields
    assert [r.key for r in term.match_expressions] == expressions


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            claim(exactly(selectors=FAILING)),
            "claim ns/c: selector #0 on device gpu.example.com/p/a: CEL runtime error: "
            "no such key: x. consider using CEL optional chaining (.? followed by orValue()) or "
            "guarding the check with has() for optional fields",
        ),
        (
            claim(exactly(selectors=selected("1 +"))),
            "claim ns/c: selector #0: CEL compile error: compilation failed: ",
        ),
        (
            claim(exactly(deviceClassName="none")),
            "claim ns/c, request r: could not retrieve device class none: "
            'deviceclass.resource.k8s.io "none" not found',
        ),
        (
            claim(exactly(deviceClassName="")),
            "claim ns/c, request r: missing device class name (unsupported request type?)",
        ),
        (
            claim(exactly(selectors=[{}])),
            "claim ns/c, request r, selector #0: CEL expression empty (unsupported selector type?)",
        ),
        (
            claim(exactly(allocationMode="Some")),
            "claim ns/c, request r: unsupported count mode Some",
        ),
        (
            claim(exactly(derivedAttributes=[{"name": "x"}])),
            "claim ns/c, request r: cannot handle request with derived attributes, the feature is "
            "disabled",
        ),
        (
            claim(exactly(count=30), exactly("r2", count=3)),
            "claim ns/c, request r2: adding 3 devices exceeds the claim limit of 32, with 30 "
            "already accounted for",
        ),
        (
            claim(constraints=[{}]),
            "claim ns/c, constraint #0: empty constraint (unsupported constraint type?)",
        ),
        (
            claim(exactly(allocationMode="All"), constraints=DISTINCT),
            "claim ns/c, request r: cannot add device gpu.example.com/p/c because a claim "
            "constraint would not be satisfied",
        ),
    ],
)
def test_errors_say_what_kube_scheduler_says(asked: ResourceClaim, text: str) -> None:
    devices = table(piece("s", *FOUR))
    with pytest.raises(AllocationError) as error:
        allocator(devices).allocate(NODE, [asked])
    # What is wrong with the syntax of an expression is not said in kube-scheduler's words.
    assert str(error.value) == text or (text.endswith(": ") and str(error.value).startswith(text))


def test_selectors_of_devices_in_use_are_not_asked() -> None:
    devices = table(piece("s", device("a")))
    devices.usage.set_claim("holder", [held("a")])
    assert allocator(devices).allocate(NODE, [claim(exactly(selectors=FAILING))]) is None


def test_the_selector_of_a_class_comes_first_and_is_named() -> None:
    failing = {"metadata": {"name": "bad"}, "spec": {"selectors": FAILING}}
    devices = table(piece("s", device("a")))
    asked = claim(exactly(deviceClassName="bad", selectors=selected("1 +")))
    with pytest.raises(AllocationError, match=r"^class bad: selector #0 on device"):
        allocator(devices, decode(failing, DeviceClass)).allocate(NODE, [asked])


@pytest.mark.parametrize(
    ("slices", "state"),
    [
        ((piece("s", device("a"), count=2),), "being updated"),
        ((piece("s", device("a"), device("a")),), "invalid"),
    ],
)
def test_all_devices_cannot_be_had_of_a_pool_that_is_not_in_order(
    slices: tuple[Any, ...], state: str
) -> None:
    with pytest.raises(AllocationError) as error:
        allocator(table(*slices)).allocate(NODE, [claim(exactly(allocationMode="All"))])
    assert str(error.value) == (
        "claim ns/c, request r: asks for all devices, but resource pool gpu.example.com/p is "
        f"currently {state}"
    )


def test_an_invalid_pool_is_named_where_nothing_else_fits() -> None:
    devices = table(piece("s", device("a"), device("a")))
    with pytest.raises(NodeAllocationError, match="invalid resource pools were encountered"):
        allocator(devices).allocate(NODE, [claim()])
    devices.set_slice(piece("t", device("a"), pool="q"))
    assert names(allocator(devices).allocate(NODE, [claim()])) == [["a"]]


def test_a_search_that_takes_too_long_ends() -> None:
    devices = table(piece("s", *FOUR))
    with pytest.raises(AllocationTimeoutError):
        allocator(devices, expired=lambda: True).allocate(NODE, [claim()])


def test_an_alternative_that_needs_fewer_devices_keeps_the_claim_within_its_limit() -> None:
    devices = table(piece("s", *simple(*(f"d{i:02}" for i in range(40)))))
    asked = claim(
        alternatives("r1", {"count": 20}, {"count": 1}),
        alternatives("r2", {"count": 31}),
    )
    result = allocator(devices).allocate(NODE, [asked])
    assert result is not None
    assert len(result[0].devices.results) == 32
    assert {r.request for r in result[0].devices.results} == {"r1/s1", "r2/s0"}
