"""Macros: calls that bind variables, turned into nodes of the syntax tree by the parser."""

from __future__ import annotations

from typing import Literal

from bayplan.cel import syntax
from bayplan.cel.syntax import Node

_ACCUMULATOR = "__result__"
_QUANTIFIERS: dict[str, Literal["all", "exists", "one"]] = {
    "all": "all",
    "exists": "exists",
    "exists_one": "one",
}
_TRANSFORMS: dict[str, Literal["list", "map", "entries"]] = {
    "transformList": "list",
    "transformMap": "map",
    "transformMapEntry": "entries",
}


class MacroError(Exception):
    """A macro was given something it cannot take, at a place in the source."""

    def __init__(self, position: int, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.position = position


def expand(call: syntax.Call) -> Node:
    """What `call` stands for: itself, if it is no macro.

    Raises:
        MacroError: it is one, with arguments that it cannot take.
    """
    target, arguments, count = call.target, call.arguments, len(call.arguments)
    if target is None:
        return _has(arguments[0]) if call.function == "has" and count == 1 else call
    match call.function:
        case "all" | "exists" | "exists_one" if count in (2, 3):
            names = _variables(arguments[:-1], "argument must be a simple name")
            kind = _QUANTIFIERS[call.function]
            return syntax.Quantifier(kind, target, names, arguments[-1], call.position)
        case "existsOne" if count == 3:
            names = _variables(arguments[:-1], "argument must be a simple name")
            return syntax.Quantifier("one", target, names, arguments[-1], call.position)
        case "map" if count in (2, 3):
            names = _variables(arguments[:1])
            condition = arguments[1] if count == 3 else None
            return syntax.Transform("list", target, names, condition, arguments[-1], call.position)
        case "filter" if count == 2:
            names = _variables(arguments[:1])
            return syntax.Transform(
                "list", target, names, arguments[1], arguments[0], call.position
            )
        case "transformList" | "transformMap" | "transformMapEntry" if count in (3, 4):
            names = _variables(arguments[:2], "argument must be a simple name")
            condition = arguments[2] if count == 4 else None
            shape = _TRANSFORMS[call.function]
            return syntax.Transform(shape, target, names, condition, arguments[-1], call.position)
        case "bind" if count == 3 and isinstance(target, syntax.Name) and target.name == "cel":
            name = _simple_name(
                arguments[0], "cel.bind() variable names must be simple identifiers"
            )
            return syntax.BindMacro(name, arguments[1], arguments[2], call.position)
        case "optMap" | "optFlatMap" if count == 2:
            return _optional(call, target)
        case "sortBy" if count == 2:
            return _sort_by(call, target)
    return call


def _simple_name(argument: Node, message: str) -> str:
    if not isinstance(argument, syntax.Name):
        raise MacroError(argument.position, message)
    return argument.name


def _variables(
    arguments: tuple[Node, ...], message: str = "argument is not an identifier"
) -> tuple[str, ...]:
    names = tuple(_simple_name(argument, message) for argument in arguments)
    if len(set(names)) < len(names):
        raise MacroError(arguments[1].position, f"duplicate variable name: {names[0]}")
    for name, argument in zip(names, arguments, strict=True):
        if name == _ACCUMULATOR:
            message = "iteration variable overwrites accumulator variable"
            raise MacroError(argument.position, message)
    return names


def _has(argument: Node) -> Node:
    if not isinstance(argument, syntax.Select) or argument.optional or argument.test:
        raise MacroError(argument.position, "invalid argument to has() macro")
    return syntax.Select(argument.operand, argument.field, argument.position, test=True)


def _optional(call: syntax.Call, target: Node) -> Node:
    message = f"{call.function}() variable name must be a simple identifier"
    name = _simple_name(call.arguments[0], message)
    at = call.position
    body: Node = syntax.BindMacro(name, syntax.Call("value", target, (), at), call.arguments[1], at)
    if call.function == "optMap":
        body = syntax.Call("optional.of", None, (body,), at)
    none = syntax.Call("optional.none", None, (), at)
    return syntax.Conditional(syntax.Call("hasValue", target, (), at), body, none, at)


def _sort_by(call: syntax.Call, target: Node) -> Node:
    at = call.position
    if isinstance(target, (syntax.Literal, syntax.MapNode)):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select"
        raise MacroError(target.position, f"{message} expression")
    elements = syntax.Name("@elements", at)
    names = _variables(call.arguments[:1])
    keys = syntax.Transform("list", elements, names, None, call.arguments[1], at)
    return syntax.BindMacro(
        "@elements", target, syntax.Call("@sortByAssociatedKeys", elements, (keys,), at), at
    )
