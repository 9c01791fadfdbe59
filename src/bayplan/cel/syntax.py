"""The syntax tree of an expression, macros already expanded into nodes of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from bayplan.cel.values import Value


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Value
    position: int


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier; a leading dot skips the variables of macros."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, `operand.?field`, or `has(operand.field)`."""

    operand: Node
    field: str
    position: int
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[index]`, or `operand[?index]`."""

    operand: Node
    index: Node
    position: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function or a method; operators have names such as `_+_`."""

    function: str
    target: Node | None
    arguments: tuple[Node, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Logic:
    """A chain of `&&` or of `||`."""

    operator: OneOf["&&", "||"]
    terms: tuple[Node, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node
    position: int


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list; the elements at the indexes `optional` have a `?`."""

    elements: tuple[Node, ...]
    optional: frozenset[int]
    position: int


@dataclass(frozen=True, slots=True)
class MapNode:
    """A map; the entries at the indexes `optional` have a `?`."""

    entries: tuple[tuple[Node, Node], ...]
    optional: frozenset[int]
    position: int


@dataclass(frozen=True, slots=True)
class Quantifier:
    """all(), exists() or exists_one() over `range`."""

    kind: OneOf["all", "exists", "one"]
    range: Node
    variables: tuple[str, ...]
    predicate: Node
    position: int


@dataclass(frozen=True, slots=True)
class Transform:
    """map(), filter(), transformList(), transformMap() or transformMapEntry() over `range`."""

    kind: OneOf["list", "map", "entries"]
    range: Node
    variables: tuple[str, ...]
    condition: Node | None
    result: Node
    position: int


@dataclass(frozen=True, slots=True)
class BindMacro:
    """cel.bind(variable, value, body): the value is computed when it is first used."""

    variable: str
    value: Node
    body: Node
    position: int


Node: TypeAlias = (
    Literal
    | Name
    | Select
    | Index
    | Call
    | Logic
    | Conditional
    | ListNode
    | MapNode
    | Quantifier
    | Transform
    | BindMacro
)
