"""Answers for all nodes: kept ones equal fresh ones, and like nodes are searched once."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.devices.support import (
    DRIVER,
    claim,
    color,
    decode,
    device,
    exactly,
    held,
    node,
    piece,
    selected,
)

from bayplan.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim
from bayplan.cache.node_table import LiveNodeTable
from bayplan.devices.changed_rows import ChangedRows
from bayplan.devices.codes import DOES_NOT_FIT, ERROR, FITS, TIMEOUT
from bayplan.devices.counts import DeviceCounts
from bayplan.devices.fleet import Fleet
from bayplan.devices.selectors import Selectors

MATCH = [{"matchAttribute": "gpu.example.com/color"}]


class Clock:
    """Stands still unless a step is set, which every look at it adds."""

    def __init__(self) -> None:
        self.time, self.step = 0.0, 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time


def fleet_of(*names: str, timeout: float = 0, clock: Clock | None = None) -> Fleet:
    nodes = LiveNodeTable()
    for name in names:
        nodes.set_node(node(name, zone=name[-1]))
    return Fleet(nodes, {"any": DeviceClass()}.get, clock or Clock(), timeout)


def local(name: str, *devices: dict[str, Any], **spec: Any) -> Any:
    """A slice and pool of node ``name``."""
    return piece(f"slice-{name}", *devices, pool=name, nodeName=name, **spec)


def codes(fleet: Fleet, *claims: ResourceClaim) -> list[int]:
    found: list[int] = fleet.answers(fleet.shapes(claims)).codes[fleet.nodes.exists].tolist()
    return found


def test_every_node_has_its_answer() -> None:
    fleet = fleet_of("n1", "n2", "n3")
    fleet.table.set_slice(local("n1", device("a")))
    fleet.table.set_slice(local("n2", device("a"), device("b")))
    assert codes(fleet, claim(exactly(count=2))) == [DOES_NOT_FIT, FITS, DOES_NOT_FIT]


def test_claims_of_the_same_shape_share_their_answers() -> None:
    fleet = fleet_of("n1")
    fleet.table.set_slice(local("n1", device("a")))
    shapes = [fleet.shapes([claim(name=name)]) for name in ("c1", "c2")]
    assert fleet.answers(shapes[0]) is fleet.answers(shapes[1])


def test_parameters_for_drivers_have_no_part_in_a_shape() -> None:
    fleet = fleet_of("n1")
    fleet.table.set_slice(local("n1", device("a")))
    opaque = [{"driver": DRIVER, "parameters": {"size": size}} for size in (1, 2)]
    asked = [claim(name="c", config=[{"opaque": each}]) for each in opaque]
    assert fleet.shapes(asked[:1]) == fleet.shapes(asked[1:])
    choices = fleet.answers(fleet.shapes(asked[1:])).choices(0)
    n1 = fleet.nodes.node("n1")
    assert n1 is not None
    assert choices is not None
    (result,) = fleet.results(n1, asked[1:], fleet.shapes(asked[1:]), choices)
    (config,) = result.devices.config
    assert config.opaque == asked[1].spec.devices.config[0].opaque


def test_like_nodes_are_searched_once_for_every_new_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(1, 31)]
    fleet = fleet_of(*names)
    for name in names:
        fleet.table.set_slice(local(name, device("a"), device("b")))
    for name in names[:10]:
        fleet.table.usage.set_claim(name, [held("a", pool=name)])
    searched, choose = [], fleet.choose

    def counted(*args: Any) -> Any:
        searched.append(args)
        return choose(*args)

    monkeypatch.setattr(fleet, "choose", counted)
    for number in range(1, 4):
        assert codes(fleet, claim(exactly(f"r{number}"))) == [FITS] * 30
        assert len(searched) == 2 * number


def test_a_device_of_some_nodes_concerns_no_others() -> None:
    fleet = fleet_of("n1", "n2", "n3")
    for zone in "12":
        fleet.table.set_slice(
            piece(f"zone-{zone}", device("a"), pool=zone, nodeSelector=only(zone))
        )
    assert codes(fleet, claim()) == [FITS, FITS, DOES_NOT_FIT]
    changed = fleet.changed_rows()
    changed.take()
    fleet.table.usage.set_claim("holder", [held("a", pool="2")])
    assert changed.take() == [1]
    assert codes(fleet, claim()) == [FITS, DOES_NOT_FIT, DOES_NOT_FIT]


def test_nodes_that_reach_the_same_devices_share_what_is_known_of_them() -> None:
    fleet = fleet_of("n1", "n2", "n3")
    fleet.table.set_slice(piece("network", device("a"), pool="all", allNodes=True))
    fleet.table.set_slice(local("n3", device("b")))
    first, second, third = (fleet.devices(node(name)) for name in ("n1", "n2", "n3"))
    assert first is second
    assert third is not first


def test_a_device_draws_from_the_counters_of_nodes_that_reach_others_of_its_pool() -> None:
    """The pool has a device of n1, and one for n2 by its labels; there are counters for one."""
    counters = {"name": "units", "counters": {"units": {"value": "1"}}}
    draw = [{"counterSet": "units", "counters": {"units": {"value": "1"}}}]
    fleet = fleet_of("n1", "n2")
    for each in (
        piece("sets", pool="p", count=3, allNodes=True, sharedCounters=[counters]),
        piece("near", device("a", consumesCounters=draw), pool="p", count=3, nodeName="n1"),
        piece("far", device("b", consumesCounters=draw), pool="p", count=3, nodeSelector=only("2")),
    ):
        fleet.table.set_slice(each)
    assert codes(fleet, claim()) == [FITS, FITS]
    fleet.table.usage.set_claim("holder", [held("a")])
    assert codes(fleet, claim()) == [DOES_NOT_FIT, DOES_NOT_FIT]
    fleet.table.usage.remove_claim("holder")
    fleet.table.usage.set_claim("holder", [held("b")])
    assert codes(fleet, claim()) == [DOES_NOT_FIT, DOES_NOT_FIT]


def only(zone: str) -> dict[str, Any]:
    """A node selector for the nodes of ``zone``."""
    term = {"key": "zone", "operator": "In", "values": [zone]}
    return {"nodeSelectorTerms": [{"matchExpressions": [term]}]}


def test_the_devices_of_a_node_are_those_of_its_own_pool() -> None:
    fleet = fleet_of("n1", "n2")
    for name in ("n1", "n2"):
        fleet.table.set_slice(local(name, device("a")))
    asked = [claim()]
    answers = fleet.answers(fleet.shapes(asked))
    n2 = fleet.nodes.node("n2")
    choices = answers.choices(1)
    assert n2 is not None
    assert choices is not None
    (result,) = fleet.results(n2, asked, fleet.shapes(asked), choices)
    assert result.devices.results[0].pool == "n2"


def test_an_error_is_told_with_the_name_of_the_claim_that_asks() -> None:
    fleet = fleet_of("n1", "n2")
    fleet.table.set_slice(local("n1", device("a")))
    failing = exactly(selectors=selected('device.attributes["x"].y'))
    assert codes(fleet, claim(failing)) == [ERROR, DOES_NOT_FIT]


def test_a_search_that_takes_too_long_ends_the_update_and_is_tried_again() -> None:
    clock = Clock()
    fleet = fleet_of("n1", "n2", timeout=10, clock=clock)
    fleet.table.set_slice(local("n1", device("a")))
    shapes = fleet.shapes([claim()])
    clock.step = 11.0
    answers = fleet.answers(shapes)
    assert (answers.codes[:2].tolist(), answers.late_node) == ([TIMEOUT, TIMEOUT], "n1")
    clock.step = 0.0
    assert codes(fleet, claim()) == [FITS, DOES_NOT_FIT]


def test_an_earlier_alternative_scores_more() -> None:
    subs = [{"name": f"s{n}", "deviceClassName": "any", "count": 3 - n} for n in range(3)]
    fleet = fleet_of("n1", "n2")
    fleet.table.set_slice(local("n1", device("a")))
    fleet.table.set_slice(local("n2", device("a"), device("b")))
    asked = claim({"name": "r", "firstAvailable": subs})
    assert fleet.answers(fleet.shapes([asked])).scores[:2].tolist() == [6, 7]


def test_values_that_no_device_has_any_more_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bayplan.devices.table.SPARE_CODES", 4)
    fleet = fleet_of("n1")
    for number in range(50):
        shade = {"color": {"string": f"c{number}"}}
        fleet.table.set_slice(local("n1", device("a", attributes=shade)))
        assert codes(fleet, claim(exactly(selectors=color(f"c{number}")))) == [FITS]
        assert codes(fleet, claim(exactly(selectors=color("c0")))) == [
            DOES_NOT_FIT if number else FITS
        ]
    assert len(fleet.table.content.values) <= 7


@pytest.mark.parametrize("seed", range(20))
def test_kept_answers_equal_fresh_ones_after_every_change(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{number}" for number in range(1, 10)]
    fleet = fleet_of(*names)
    asked = [
        [claim(exactly(count=2))],
        [claim(exactly(count=2, selectors=color("red")))],
        [claim(exactly(count=2), constraints=MATCH), claim(name="d")],
        [claim(exactly(capacity={"requests": {"memory": "1Gi"}}))],
    ]
    for _ in range(25):
        change(fleet, rng, names)
        for claims in asked:
            assert codes(fleet, *claims) == [
                FITS if allocated(fleet, name, claims) else DOES_NOT_FIT for name in names
            ]
        kept, fresh = fleet.counts(DeviceClass()), anew(fleet)
        assert kept.capacity.tolist() == fresh.capacity.tolist()
        assert kept.in_use.tolist() == fresh.in_use.tolist()


def anew(fleet: Fleet) -> DeviceCounts:
    rows = ChangedRows(fleet.nodes, ())
    counts = DeviceCounts(fleet.table, fleet.nodes, Selectors().mask(()), rows, lambda *_: None)
    counts.update()
    return counts


def allocated(fleet: Fleet, name: str, claims: list[ResourceClaim]) -> bool:
    found = fleet.nodes.node(name)
    assert found is not None
    return fleet.allocate(found, claims) is not None


def change(fleet: Fleet, rng: random.Random, names: list[str]) -> None:
    table, name = fleet.table, rng.choice(names)
    match rng.randint(0, 8):
        case 0 | 1:
            table.set_slice(random_slice(rng, name))
        case 2:
            table.remove_slice(f"slice-{rng.choice([name, 'all', 'each'])}")
        case 3 | 4:
            result = held(f"d{rng.randint(0, 3)}", pool=rng.choice([*names, "all"]))
            table.usage.set_claim(f"holder-{rng.randint(0, 4)}", [result])
        case 5:
            table.usage.remove_claim(f"holder-{rng.randint(0, 4)}")
        case 6:
            table.set_rule(rule("r", rng.choice([*names, "all"])))
        case 7:
            table.remove_rule("r")
        case _:
            fleet.nodes.set_node(node(name, zone=rng.choice("123")))


def rule(name: str, pool: str) -> DeviceTaintRule:
    spec = {"deviceSelector": {"pool": pool}, "taint": {"key": "a", "effect": "NoSchedule"}}
    return decode({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


def random_slice(rng: random.Random, name: str) -> Any:
    devices = [
        device(
            f"d{n}",
            attributes={"color": {"string": rng.choice(("red", "blue"))}},
            capacity={"memory": {"value": "1Gi"}},
            allowMultipleAllocations=rng.random() < 0.2,
        )
        for n in range(rng.randint(1, 4))
    ]
    match rng.randint(0, 9):
        case 0 | 1:
            return piece("slice-all", *devices, pool="all", nodeSelector=only(rng.choice("123")))
        case 2:
            return piece("slice-all", *devices, pool="all", allNodes=True)
        case 3:
            own = [{**each, "nodeName": f"n{rng.randint(1, 3)}"} for each in devices]
            return piece("slice-each", *own, pool="all", perDeviceNodeSelection=True)
        case _:
            return local(name, *devices)
