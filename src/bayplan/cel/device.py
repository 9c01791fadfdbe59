"""A device as selectors see it: the variable `device`, with attributes converted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bayplan.cel.errors import EvaluationError
from bayplan.cel.functions.quantity import Quantity
from bayplan.cel.functions.semver import Semver
from bayplan.cel.values import Map, Value


@dataclass(frozen=True, slots=True)
class Version:
    """An attribute with a semantic version as its value."""

    text: str


Scalar: TypeAlias = bool | int | str | Version
Attribute: TypeAlias = Scalar | Sequence[Scalar] | None

_EMPTY = Map({})


class Device:
    """The input of a selector.

    A device that has an attribute without a value, or with an invalid version, has an `error`:
    every selector fails with it, whatever it looks at.

    Args:
        driver: name of the driver; the domain of names without one.
        attributes: by qualified name (`domain/id`, or `id` alone); `None` is an attribute that
            has no value of a known type.
        capacity: quantities as text, by qualified name.
        allow_multiple_allocations: the field of that name.
    """

    __slots__ = ("error", "variable")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Attribute] | None = None,
        capacity: Mapping[str, str] | None = None,
        allow_multiple_allocations: bool = False,
    ) -> None:
        """Convert the attributes.

        Raises:
            CelError: a capacity is no quantity.
        """
        self.error: str | None = None
        values: dict[str, Value] = {}
        for name, attribute in (attributes or {}).items():
            try:
                values[name] = _convert(attribute)
            except EvaluationError as reason:
                self.error = self.error or f"attribute {name}: {reason}"
        amounts = {name: Quantity.parse(text) for name, text in (capacity or {}).items()}
        self.variable = Map.of_strings(
            {
                "driver": driver,
                "allowMultipleAllocations": allow_multiple_allocations,
                "attributes": _by_domain(values, driver),
                "capacity": _by_domain(amounts, driver),
            }
        )


def _convert(attribute: Attribute) -> Value:
    if isinstance(attribute, Version):
        try:
            return Semver.parse(attribute.text)
        except EvaluationError as reason:
            raise EvaluationError(f"parse semantic version: {reason}") from None
    if attribute is None:
        raise EvaluationError("unsupported attribute value")
    if isinstance(attribute, (bool, int, str)):
        return attribute
    return [_convert(element) for element in attribute]


def _by_domain(values: Mapping[str, Value], driver: str) -> Map:
    domains: dict[str, dict[str, Value]] = {}
    for name, value in values.items():
        domain, slash, identifier = name.partition("/")
        if not slash:
            domain, identifier = driver, name
        domains.setdefault(domain, {})[identifier] = value
    return Map.of_strings({name: Map.of_strings(ids) for name, ids in domains.items()}, _EMPTY)
