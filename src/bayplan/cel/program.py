"""Compiled selectors, and what they answer for a device.

Source: k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

from typing import Final

from bayplan.cel.compiler import compile_tree
from bayplan.cel.comprehensions import new_frame
from bayplan.cel.device import Device
from bayplan.cel.errors import AbortedError, CelError, EvaluationError
from bayplan.cel.golang.quoting import printable
from bayplan.cel.parser import parse, too_deep
from bayplan.cel.paths import Path, paths_of
from bayplan.cel.values import (
    LISTS,
    Duration,
    Extension,
    Map,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)

_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)
_CONVERSIONS: Final[dict[type, str]] = {
    int: "unsupported type conversion from 'int' to bool",
    Uint: "unsupported type conversion from 'uint' to bool",
    float: "type conversion error from Double to 'bool'",
    str: "unsupported native conversion from string to 'bool'",
    bytes: "type conversion error from Bytes to 'bool'",
    type(None): "type conversion error from 'null_type' to 'bool'",
    Map: "type conversion error from map to 'bool'",
    **dict.fromkeys(LISTS, "type conversion error from list to 'bool'"),
    Timestamp: "type conversion error from 'Timestamp' to 'bool'",
    Duration: "type conversion error from 'Duration' to 'bool'",
    TypeValue: "type conversion not supported for 'type'",
}


class Program:
    """A compiled selector.

    Attributes:
        expression: the source.
        paths: what it reads of a device: its answer, or error, is a function of the values there
            (type and presence included), for devices without an `error`; None if it may read
            anything.
    """

    __slots__ = ("_code", "_slots", "expression", "paths")

    def __init__(self, expression: str) -> None:
        """Compile `expression`.

        Raises:
            CompileError: it is not valid; the text is the one of kube-scheduler, but for syntax
                errors.
        """
        self.expression = expression
        try:
            tree = parse(expression)
            self._code, self._slots = compile_tree(tree, expression)
            self.paths: frozenset[Path] | None = paths_of(tree)
        except RecursionError:
            raise too_deep() from None

    def evaluate(self, device: Device) -> bool:
        """Whether the device matches.

        Raises:
            CelError: the expression has no answer for this device; the text is the one that
                kube-scheduler shows behind "CEL runtime error: ".
        """
        try:
            return self._evaluate(device)
        except CelError as error:
            text = printable(str(error))
            raise EvaluationError(text + _ADVICE if "no such key:" in text else text) from None
        except RecursionError:
            raise AbortedError("expression nests too deeply") from None

    def _evaluate(self, device: Device) -> bool:
        if device.error is not None:
            raise EvaluationError(device.error)
        value = self._code(new_frame(device.variable, self._slots))
        if type(value) is bool:
            return value
        return _to_bool(value)


def _to_bool(value: Value) -> bool:
    name = type_name(value)
    while isinstance(value, Optional) and value.present:
        value = value.value
    if type(value) is bool:
        return value
    if isinstance(value, Optional):
        problem = "optional.none() dereference"
    elif isinstance(value, Extension):
        problem = f"type conversion error from '{type(value).__name__}' to 'bool'"
    else:
        problem = _CONVERSIONS[type(value)]
    raise EvaluationError(f"CEL result of type {name} could not be converted to bool: {problem}")
