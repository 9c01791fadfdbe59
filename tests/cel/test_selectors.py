"""What selectors answer, and which text they fail with: kube-scheduler's, in every case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cel.devices import BARE, GPU

from bayplan.cel import CelError, Device, Program, Version

ADVICE = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)
D = 'device.attributes["gpu.example.com"]'
C = 'device.capacity["gpu.example.com"]'


def answer(expression: str, device: Device = GPU) -> bool | str:
    try:
        return Program(expression).evaluate(device)
    except CelError as error:
        return str(error)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.example.com"', True),
        ("device.allowMultipleAllocations", True),
        (f'{D}.model == "A100" && {D}.count > 4', True),
        (f'{D}.driverVersion.isGreaterThan(semver("1.2.0"))', True),
        (f'{C}.memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.attributes["numa.example.com"].node == 1', True),
        (f"2 in {D}.partitions && !(4 in {D}.partitions)", True),
        (f"{D}.partitions.exists(p, p == 3)", True),
        (f'{D}.model.startsWith("A") ? {D}.healthy : false', True),
        (f"cel.bind(d, {D}, d.count == 5 && d.healthy)", True),
    ],
)
def test_selectors_look_at_driver_attributes_and_capacity(expression: str, expected: bool) -> None:
    assert answer(expression) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.attributes["unknown"].x', f"no such key: x{ADVICE}"),
        (f"{D}.unknown", f"no such key: unknown{ADVICE}"),
        ('"x" in device.attributes["unknown"]', False),
        ('has(device.attributes["unknown"].x)', False),
        ('"unknown" in device.attributes', False),
        ("has(device.attributes.unknown)", True),
        ('device.attributes[?"unknown"].hasValue()', True),
        (f"{D}.?unknown.orValue(7) == 7", True),
        (f'{D}[?"unknown"].hasValue()', False),
        ('device.attributes.?unknown.x.orValue("none") == "none"', True),
        ("size(device.attributes) == 2", True),
        (f"{D}.partitions[5] == 1", "index out of bounds: 5"),
    ],
)
def test_missing_things_are_what_upstream_makes_of_them(
    expression: str, expected: bool | str
) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{D}.x && false", False),
        (f"false && {D}.x", False),
        (f"{D}.x || true", True),
        (f"{D}.x || {D}.y", f"no such key: x{ADVICE}"),
        (f"[1, 2].all(i, {D}.x == i || i == 2)", f"no such key: x{ADVICE}"),
        (f"[1, 2].all(i, {D}.x == i && i == 2)", False),
        (f"[1, 2].exists(i, {D}.x == i || i == 2)", True),
        (f"[1, 2].exists_one(i, {D}.x == i)", f"no such key: x{ADVICE}"),
        (f"true && {D}.model", "no such overload"),
        (f"cel.bind(x, {D}.x, true)", True),
    ],
)
def test_errors_are_absorbed_where_another_term_decides(
    expression: str, expected: bool | str
) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{D}.model == 5", False),
        (f"{D}.count == 5.0 && {D}.count == 5u", True),
        (f"{D}.healthy == 1", False),
        (f'{D}.model == semver("1.0.0")', False),
        (f'{D}.driverVersion == "1.2.3"', "no such overload"),
        (f'{D}.driverVersion != "1.2.3"', True),
        (f"{D}.model < 5", "no such overload"),
        (f"{D}.partitions < 5", "no such overload: _<_"),
        (f"!{D}.model", "no such overload"),
        (f'{D}.count.matches("5")', "no such overload"),
        (
            f'{D}.model.isGreaterThan(semver("1.0.0"))',
            "no such overload: isGreaterThan(string, kubernetes.Semver)",
        ),
        (f"{D}.count + 9223372036854775807 > 0", "integer overflow"),
        (f"{D}.count / 0 == 1", "division by zero"),
        (f"{D}.count % 0 == 1", "modulus by zero"),
        (f'{C}.memory.asInteger() + int({D}.model + "x") > 0', "type conversion error"),
        (f"{D}.count.all(x, x)", "got 'types.Int', expected iterable type"),
    ],
)
def test_values_of_other_types_are_unequal_or_an_error(
    expression: str, expected: bool | str
) -> None:
    result = answer(expression)
    assert result == expected or str(result).startswith(f"{expected} from ")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (f"{D}.model", "string could not be converted to bool: unsupported native conversion"),
        (f"{D}.count", "int could not be converted to bool: unsupported type conversion"),
        (f"{D}.driverVersion", "kubernetes.Semver could not be converted to bool: type conv"),
        (f"{D}.partitions", "list could not be converted to bool: type conversion error"),
    ],
)
def test_a_result_that_is_no_bool_is_an_error(expression: str, problem: str) -> None:
    assert str(answer(expression)).startswith(f"CEL result of type {problem}")


def test_an_optional_bool_is_a_result() -> None:
    assert answer(f"dyn({D}.?healthy)") is True


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        (Version("1.2"), "parse semantic version: No Major.Minor.Patch elements found"),
        (
            Version("01.2.3"),
            'parse semantic version: Major number must not contain leading zeroes "01"',
        ),
        (None, "unsupported attribute value"),
    ],
)
def test_an_attribute_that_cannot_be_converted_fails_every_selector(
    attribute: Version | None, problem: str
) -> None:
    device = Device("gpu.example.com", {"fine": 1, "bad": attribute})
    assert answer("true", device) == f"attribute bad: {problem}"


def test_a_bare_device_has_the_domain_of_its_driver_only_once_it_has_an_attribute() -> None:
    assert answer(f"has({D}.model)", BARE) is False
    assert answer("size(device.attributes) == 0 && !device.allowMultipleAllocations", BARE) is True


def test_the_example_of_the_documents_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "cel.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["matches"] is True
    assert not capsys.readouterr().out
