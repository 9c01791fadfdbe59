from typing import Any

import pytest
from tests.devices.support import DRIVER, decode, device, held, piece, table

from bayplan.api.resource import DeviceTaint, DeviceTaintRule
from bayplan.devices.table import FREE, IN_USE, DeviceTable
from bayplan.devices.usage import DeviceId

A = DeviceId(DRIVER, "p", "a")


def usage_codes(devices: DeviceTable, device_id: DeviceId) -> list[int]:
    return [int(devices.usage_code.codes[row]) for row in devices.rows_of(device_id)]


def test_a_device_is_in_use_while_a_claim_holds_it() -> None:
    devices = table(piece("s", device("a"), device("b")))
    devices.usage.set_claim("c", [held("a")])
    assert usage_codes(devices, A) == [IN_USE]
    devices.usage.remove_claim("c")
    assert usage_codes(devices, A) == [FREE]


def test_claims_may_come_before_the_slice() -> None:
    devices = DeviceTable()
    devices.usage.set_claim("c", [held("a")])
    devices.set_slice(piece("s", device("a")))
    assert usage_codes(devices, A) == [IN_USE]


def test_admin_access_holds_nothing() -> None:
    devices = table(piece("s", device("a")))
    devices.usage.set_claim("c", [held("a", adminAccess=True)])
    assert usage_codes(devices, A) == [FREE]


def test_shares_add_up() -> None:
    devices = table(piece("s", device("a")))
    for claim, share in (("c", "1"), ("d", "2")):
        result = held("a", shareID=share, consumedCapacity={"memory": "1Gi"})
        devices.usage.set_claim(claim, [result])
    (code,) = usage_codes(devices, A)
    state = devices.usage_code.values[code]
    assert (state.exclusive, state.consumed) == (False, {"memory": 2 * 2**30 * 10**9})


def test_a_device_in_two_claims_is_told_with_both_holders() -> None:
    devices = table(piece("s", device("a"), device("b")))
    assert devices.usage.set_claim("c", [held("a")]) == []
    assert devices.usage.set_claim("d", [held("a"), held("b")]) == [A]
    assert devices.usage.holders(A) == ["c", "d"]
    devices.usage.remove_claim("d")
    assert usage_codes(devices, A) == [IN_USE]


def test_a_replaced_slice_keeps_its_rows_and_a_shrunk_one_frees_them() -> None:
    devices = table(piece("s", device("a"), device("b")))
    rows = devices.rows_of(A)
    devices.set_slice(piece("s", device("a"), device("c")))
    assert devices.rows_of(A) == rows
    assert not devices.rows_of(DeviceId(DRIVER, "p", "b"))
    devices.set_slice(piece("s", device("a")))
    devices.set_slice(piece("t", device("x"), device("y"), pool="q"))
    assert len(devices) == 3


def test_a_removed_slice_is_gone() -> None:
    devices = table(piece("s", device("a")))
    devices.remove_slice("s")
    devices.remove_slice("s")
    assert not devices.rows_of(A)
    assert not devices.slices


@pytest.mark.parametrize(
    ("place", "told"), [({"nodeName": "n1"}, ["n1"]), ({"allNodes": True}, [None])]
)
def test_nodes_are_told_when_their_pools_change(
    place: dict[str, Any], told: list[str | None]
) -> None:
    changed: list[str | None] = []
    devices = DeviceTable(changed.append)
    devices.set_slice(piece("s", device("a"), **place))
    assert changed == told


def test_a_slice_elsewhere_that_belongs_to_the_pool_changes_it_too() -> None:
    changed: list[str | None] = []
    devices = DeviceTable(changed.append)
    devices.set_slice(piece("s", device("a"), count=2))
    changed.clear()
    devices.set_slice(piece("t", device("b"), count=2, nodeName="n2"))
    assert set(changed) == {"n1", "n2"}


def rule(name: str, **selector: str) -> DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": name, "effect": "NoSchedule"}}
    return decode({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


def test_rules_add_their_taint_to_the_devices_they_select() -> None:
    devices = table(
        piece("s", device("a"), device("b"), pool="p"), piece("t", device("a"), pool="q")
    )

    def tainted() -> list[str]:
        taints = ((row, devices.taints.values[devices.taints.codes[row]]) for row in range(3))
        return [str(devices.row(row).id) for row, found in taints if found]

    devices.set_rule(rule("one", device="a"))
    assert tainted() == [f"{DRIVER}/p/a", f"{DRIVER}/q/a"]
    devices.set_rule(rule("one", device="a", pool="q"))
    assert tainted() == [f"{DRIVER}/q/a"]
    devices.set_slice(piece("t", device("a", allNodes=True), pool="q"))
    assert tainted() == [f"{DRIVER}/q/a"]
    devices.remove_rule("one")
    assert tainted() == []


def test_a_rule_without_a_selector_is_about_no_device() -> None:
    devices = table(piece("s", device("a", taints=[{"key": "k", "effect": "NoExecute"}])))
    devices.set_rule(DeviceTaintRule())
    row = devices.rows_of(A)[0]
    own = (DeviceTaint(key="k", effect="NoExecute"),)
    assert devices.taints.values[devices.taints.codes[row]] == own
