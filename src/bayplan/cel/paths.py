"""What a selector reads of a device, found in its syntax tree.

Most selectors name the attributes and capacities that they look at. Devices that agree on those
have the same answer, so a table of devices needs to evaluate a selector only once for each
combination of values. A selector that does anything else with a map of the device, such as
iterating it or computing a key, may read all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from bayplan.cel import syntax
from bayplan.cel.syntax import Node


class Path(NamedTuple):
    """A value of a device.

    Attributes:
        kind: "driver", "allowMultipleAllocations", "attributes" or "capacity".
        domain: of the name of the attribute or capacity; "" for the first two kinds.
        name: the rest of that name.
    """

    kind: str
    domain: str = ""
    name: str = ""


class _AnyError(Exception):
    """The selector may read anything."""


# A place in the device on the way to a path: () is the device, then the kind, then the domain.
_Place = tuple[str, ...]
Scope: TypeAlias = dict[str, _Place | None]
_SCALARS: Final = frozenset({"driver", "allowMultipleAllocations"})


def paths_of(tree: Node) -> frozenset[Path] | None:
    """The paths that `tree` reads, or None for anything."""
    finder = _Finder()
    try:
        finder.read(tree, {})
    except _AnyError:
        return None
    return frozenset(finder.paths)


class _Finder:
    def __init__(self) -> None:
        self.paths: set[Path] = set()

    def read(self, node: Node, scope: Scope) -> None:
        """Note what `node` reads, whose value may be used in any way."""
        place = self.place(node, scope)
        if place is not None:
            raise _AnyError  # a map of the device itself

    def place(self, node: Node, scope: Scope) -> _Place | None:
        """The map of the device that `node` stands for, or None; other parts of `node` are read."""
        match node:
            case syntax.Name():
                return self.name(node, scope)
            case syntax.Select():
                return self.step(self.place(node.operand, scope), node.field)
            case syntax.Index():
                return self.index(node, scope)
            case syntax.BindMacro():
                value = self.place(node.value, scope)
                return self.place(node.body, {**scope, node.variable: value})
            case syntax.Call(function="@in"):
                self.membership(node, scope)
            case syntax.Quantifier() | syntax.Transform():
                self.macro(node, scope)
            case _:
                for part in _parts(node):
                    self.read(part, scope)
        return None

    def name(self, node: syntax.Name, scope: Scope) -> _Place | None:
        if node.name in scope:
            return scope[node.name]
        return () if node.name.removeprefix(".") == "device" else None

    def step(self, place: _Place | None, key: str) -> _Place | None:
        if place is None:
            return None
        if len(place) == 2:
            self.paths.add(Path(place[0], place[1], key))
        elif place == () and key in _SCALARS:
            self.paths.add(Path(key))
        else:
            return (*place, key)
        return None

    def index(self, node: syntax.Index, scope: Scope) -> _Place | None:
        place = self.place(node.operand, scope)
        if (
            place is not None
            and isinstance(node.index, syntax.Literal)
            and type(node.index.value) is str
        ):
            return self.step(place, node.index.value)
        self.read(node.index, scope)
        if place is not None:
            raise _AnyError
        return None

    def membership(self, node: syntax.Call, scope: Scope) -> None:
        key, container = node.arguments
        place = self.place(container, scope)
        if place is not None:
            if len(place) != 2 or not isinstance(key, syntax.Literal) or type(key.value) is not str:
                raise _AnyError  # which domains there are is not a path
            self.step(place, key.value)
        self.read(key, scope)

    def macro(self, node: syntax.Quantifier | syntax.Transform, scope: Scope) -> None:
        self.read(node.range, scope)
        inner = {**scope, **dict.fromkeys(node.variables)}
        if isinstance(node, syntax.Quantifier):
            self.read(node.predicate, inner)
            return
        if node.condition is not None:
            self.read(node.condition, inner)
        self.read(node.result, inner)


def _parts(node: Node) -> Sequence[Node]:
    """The nodes in a node, but for those of macros."""
    match node:
        case syntax.Call():
            return [*node.arguments, *([node.target] if node.target else [])]
        case syntax.Logic():
            return node.terms
        case syntax.Conditional():
            return [node.condition, node.then, node.otherwise]
        case syntax.ListNode():
            return node.elements
        case syntax.MapNode():
            return [part for entry in node.entries for part in entry]
    return ()
