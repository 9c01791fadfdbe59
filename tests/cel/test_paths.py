"""A selector's paths are all that its answer depends on."""

from __future__ import annotations

import random
from typing import Any

import pytest
from e2e.cel_conformance.devices import random_device, to_device
from e2e.cel_conformance.generate import Generator

from bayplan.cel import CelError, CompileError, Path, Program

D = 'device.attributes["x.io"]'


def attribute(name: str) -> Path:
    return Path("attributes", "x.io", name)


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        ("true", set()),
        ('device.driver == "x.io"', {Path("driver")}),
        ("device.allowMultipleAllocations", {Path("allowMultipleAllocations")}),
        (f"{D}.a && {D}['b'] == 1", {attribute("a"), attribute("b")}),
        (f"has({D}.a) && {D}.?b.orValue(1) == 1 && 'c' in {D}", set(map(attribute, "abc"))),
        ("device.attributes.a.b", {Path("attributes", "a", "b")}),
        ('device.attributes[?"x.io"].a.orValue(true)', {attribute("a")}),
        (
            'device.capacity["x.io"].m.isInteger()',
            {Path("capacity", "x.io", "m")},
        ),
        (f"cel.bind(d, {D}, d.a && d.b)", {attribute("a"), attribute("b")}),
        ("cel.bind(d, device.attributes, d['x.io'].a)", {attribute("a")}),
        (f"[1].all(i, {D}.a == i)", {attribute("a")}),
        ("[true].all(device, device)", set()),
    ],
)
def test_constant_keys_are_paths(expression: str, paths: set[Path]) -> None:
    assert Program(expression).paths == frozenset(paths)


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes.exists(domain, domain == 'x.io')",
        f"size({D}) > 1",
        f"{D}[device.driver] == 1",
        "device.attributes[device.driver].a",
        "'x.io' in device.attributes",
        f"{D} == {D}",
        f"({D}.a ? {D} : {D}).b",
        "dyn(device).driver == 'x.io'",
        f"cel.bind(d, {D}, d.exists(name, name == 'a'))",
        'device.attributes[?"x.io"].hasValue()',
    ],
)
def test_other_uses_of_the_maps_may_read_anything(expression: str) -> None:
    assert Program(expression).paths is None


def answer(program: Program, device: dict[str, Any]) -> bool | str:
    try:
        return program.evaluate(to_device(device))
    except CelError as error:
        return str(error)


def restricted(device: dict[str, Any], paths: frozenset[Path]) -> dict[str, Any]:
    """The device with nothing but what is at the paths."""
    driver = device["driver"]

    def kept(kind: str) -> dict[str, Any]:
        qualified = {
            name if "/" in name else f"{driver}/{name}": value
            for name, value in device[kind].items()
        }
        return {
            name: value
            for name, value in qualified.items()
            if Path(kind, *name.split("/", 1)) in paths
        }

    return {
        "driver": driver if Path("driver") in paths else "elsewhere.io",
        "attributes": kept("attributes"),
        "capacity": kept("capacity"),
        "allowMultipleAllocations": Path("allowMultipleAllocations") in paths
        and device.get("allowMultipleAllocations", False),
    }


@pytest.mark.parametrize("seed", range(8))
def test_nothing_beside_the_paths_changes_the_answer(seed: int) -> None:
    source = random.Random(seed)
    compared = 0
    while compared < 150:
        expression = str(Generator(source).selector())
        device = random_device(source)
        try:
            program = Program(expression)
        except CompileError:
            continue
        if program.paths is None or "bad" in device["attributes"]:
            continue
        assert answer(program, restricted(device, program.paths)) == answer(program, device)
        compared += 1
