"""What a selector reads of a device, found in its syntax tree.

Most selectors name the attributes and capacities that they look at. Devices that agree on those
have the same answer, so a table of devices needs to evaluate a selector only once for each
combination of values. A selector that does anything else with a map of the device, such as
iterating it or computing a key, may read all of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bayplan.cel.syntax import (
    BindMacro,
    Call,
    Conditional,
    Index,
    ListNode,
    Literal,
    Logic,
    MapNode,
    Name,
    Node,
    Quantifier,
    Select,
    Transform,
)


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

    def read(self, node: Node, scope: dict[str, _Place | None]) -> None:
        """Note what `node` reads, whose value may be used in any way."""
        place = self.place(node, scope)
        if place is not None:
            raise _AnyError  # a map of the device itself

    def place(self, node: Node, scope: dict[str, _Place | None]) -> _Place | None:
        """The map of the device that `node` stands for, or None; other parts of `node` are read."""
        match node:
            case Name():
                return self.name(node, scope)
            case Select():
                return self.step(self.place(node.operand, scope), node.field)
            case Index():
                return self.index(node, scope)
            case BindMacro():
                value = self.place(node.value, scope)
                return self.place(node.body, {**scope, node.variable: value})
            case Call(function="@in"):
                self.membership(node, scope)
            case _:
                self.children(node, scope)
        return None

    def name(self, node: Name, scope: dict[str, _Place | None]) -> _Place | None:
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

    def index(self, node: Index, scope: dict[str, _Place | None]) -> _Place | None:
        place = self.place(node.operand, scope)
        if place is not None and isinstance(node.index, Literal) and type(node.index.value) is str:
            return self.step(place, node.index.value)
        self.read(node.index, scope)
        if place is not None:
            raise _AnyError
        return None

    def membership(self, node: Call, scope: dict[str, _Place | None]) -> None:
        key, container = node.arguments
        place = self.place(container, scope)
        if place is not None:
            if len(place) != 2 or not isinstance(key, Literal) or type(key.value) is not str:
                raise _AnyError  # which domains there are is not a path
            self.step(place, key.value)
        self.read(key, scope)

    def children(self, node: Node, scope: dict[str, _Place | None]) -> None:
        match node:
            case Call():
                parts = [*node.arguments, *([node.target] if node.target else [])]
            case Logic():
                parts = [*node.terms]
            case Conditional():
                parts = [node.condition, node.then, node.otherwise]
            case ListNode():
                parts = [*node.elements]
            case MapNode():
                parts = [part for entry in node.entries for part in entry]
            case Quantifier() | Transform():
                parts = []
                self.macro(node, scope)
            case _:
                parts = []
        for part in parts:
            self.read(part, scope)

    def macro(self, node: Quantifier | Transform, scope: dict[str, _Place | None]) -> None:
        self.read(node.range, scope)
        inner = {**scope, **dict.fromkeys(node.variables)}
        if isinstance(node, Quantifier):
            self.read(node.predicate, inner)
            return
        if node.condition is not None:
            self.read(node.condition, inner)
        self.read(node.result, inner)
