"""The values of CEL as Python objects, distinguished by their exact type.

| CEL | Python | | CEL | Python |
|---|---|---|---|---|
| bool | bool | | list | list (`Concatenation`, `Accumulator`) |
| int | int, within 64 bits | | map | Map |
| uint | Uint | | null | None |
| double | float | | type | TypeValue |
| string | str | | timestamp | Timestamp |
| bytes | bytes | | duration | Duration |

Optional values are `Optional`; the types of Kubernetes (`Quantity`, `Semver`, `URL`, `IP`, `CIDR`,
`Format`) are defined beside their functions. As True == 1 and Uint(1) == 1 in Python, nothing here
may be compared or looked up without its type: see `equality.py` and `map_key`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any, ClassVar, Final, TypeAlias

from bayplan.cel.budget import BUDGET
from bayplan.cel.errors import AbortedError

Value: TypeAlias = Any  # CEL is dynamic: which type it is, is a question at run time

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned integer within 64 bits."""


class Duration(int):
    """A span of time in nanoseconds, within 64 bits."""


@dataclass(slots=True, eq=False)
class Timestamp:
    """A point in time: nanoseconds since 1970 in UTC.

    Attributes:
        offset: seconds east of UTC that it was written with, for its text only.
    """

    nanoseconds: int
    offset: int = 0


class Accumulator(list[Value]):
    """An empty list bound to a name: cel-go extends such a list in place."""


class Concatenation(list[Value]):
    """A list made by `+`: unlike other lists it does not ignore errors of comparing elements."""


@dataclass(slots=True, eq=False)
class Optional:
    """An optional value: `value` when `present`. Use `optional_of` and `NONE` to make one."""

    present: bool
    value: Value = None


NONE: Final = Optional(False)


def optional_of(value: Value) -> Optional:
    """An optional that has `value`."""
    return Optional(True, value)


@dataclass(slots=True, eq=False)
class TypeValue:
    """A type as a value, equal to those of the same name."""

    name: str


class Extension:
    """A value of Kubernetes' own types; each class has the name of the type in Go.

    Comparing it with a value of any other type is an error, where it is the left operand.
    """

    __slots__ = ()
    type_name: ClassVar[str]
    hashable: ClassVar[bool] = True

    def same_type(self, other: Value) -> bool:
        """Whether cel-go would compare itself with `other`."""
        return type(other) is type(self)

    def go_name(self) -> str:
        """What `%T` prints."""
        return f"cel.{type(self).__name__}"

    def equals(self, other: Any) -> bool:
        """Whether both are equal; `other` is of the same type."""
        return bool(self == other)

    def text(self) -> str:
        """What `%v` prints."""
        raise NotImplementedError

    def key(self) -> object:
        """The identity as a key of a map: the object itself, where Go holds a pointer."""
        return id(self)


MISSING: Final = object()


class Map:
    """A map: `entries` has (key, value) by `map_key(key)`.

    A map with a `default` finds it for every key, but does not contain, count or iterate it.
    One of `strings` takes no other keys: looking for them finds nothing, whatever they are.
    """

    __slots__ = ("default", "entries", "strings")

    def __init__(
        self, entries: dict[object, tuple[Value, Value]], default: Value = MISSING
    ) -> None:
        """Take over `entries`."""
        self.entries = entries
        self.default = default
        self.strings = False

    @classmethod
    def of_strings(cls, values: dict[str, Value], default: Value = MISSING) -> Map:
        """A map of strings."""
        result = cls({key: (key, value) for key, value in values.items()}, default)
        result.strings = True
        return result

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Value]:
        return iter([key for key, _ in self.entries.values()])

    def lookup(self, key: Value) -> Value:
        """The value of `key`, or `MISSING`; numbers of other types are found by their value."""
        if type(key) is str:
            entry = self.entries.get(key)
            return entry[1] if entry is not None else MISSING
        if self.strings or not self.entries:
            return MISSING
        for candidate in same_numbers(key):
            if type(candidate) is float and type(key) is not float:
                continue  # cel-go looks for integers only
            entry = self.entries.get(map_key(candidate))
            if entry is not None:
                return entry[1]
        return MISSING

    def find(self, key: Value) -> Value:
        """The value of `key`, else the default, else `MISSING`."""
        value = self.lookup(key)
        return self.default if value is MISSING else value


def same_numbers(key: Value) -> Iterator[Value]:
    """The key, and if the key is a number, the equal values of the other number types."""
    yield key
    kind = type(key)
    if kind in (int, Uint):
        yield float(key)
        if kind is int and key >= 0:
            yield Uint(key)
        elif kind is Uint and key <= INT_MAX:
            yield int(key)
    elif kind is float and key.is_integer():
        if INT_MIN < key < 2.0**63:
            yield int(key)
        if 0 <= key < 2.0**64:
            yield Uint(int(key))


def map_key(key: Value) -> object:
    """A Python key; two are equal if a Go map takes the values as one key.

    Raises:
        AbortedError: Go cannot hash the key; cel-go panics.
    """
    kind = type(key)
    if kind is str:
        return key
    if kind is bytes or (isinstance(key, Extension) and not key.hashable):
        name = GO_TYPES.get(kind) or key.go_name()
        raise AbortedError(f"internal error: runtime error: hash of unhashable type {name}")
    if kind is float:
        return (kind, object()) if isnan(key) else (kind, key)  # NaN is not found again
    if kind in (bool, int, Uint, Duration, type(None)):
        return kind, key
    if kind is Timestamp:
        return kind, key.nanoseconds, key.offset
    if isinstance(key, Extension):
        return kind, key.key()
    return object()  # lists and maps are pointers in Go: another one each time


_NAMES: Final[dict[type, tuple[str, str]]] = {
    bool: ("bool", "types.Bool"),
    int: ("int", "types.Int"),
    Uint: ("uint", "types.Uint"),
    float: ("double", "types.Double"),
    str: ("string", "types.String"),
    bytes: ("bytes", "types.Bytes"),
    type(None): ("null_type", "types.Null"),
    list: ("list", "*types.baseList"),
    Accumulator: ("list", "*types.mutableList"),
    Concatenation: ("list", "*types.concatList"),
    Map: ("map", "*types.baseMap"),
    TypeValue: ("type", "*types.Type"),
    Timestamp: ("google.protobuf.Timestamp", "types.Timestamp"),
    Duration: ("google.protobuf.Duration", "types.Duration"),
    Optional: ("optional_type", "*types.Optional"),
}
TYPE_NAMES: Final = {kind: name for kind, (name, _) in _NAMES.items()}
GO_TYPES: Final = {kind: name for kind, (_, name) in _NAMES.items()}
LISTS: Final = frozenset({list, Accumulator, Concatenation})
COMPARABLE: Final = frozenset({bool, int, Uint, float, str, bytes, Timestamp, Duration})


def type_name(value: Value) -> str:
    """The name of the type of `value` in errors."""
    return TYPE_NAMES.get(type(value)) or str(value.type_name)


def go_type(value: Value) -> str:
    """The name that Go's `%T` prints for `value`."""
    return GO_TYPES.get(type(value)) or str(value.go_name())


def weight(value: Value, limit: int = BUDGET + 1) -> int:
    """The number of steps to iterate over all of `value`, counted up to `limit`."""
    if isinstance(value, (str, bytes)):
        return 1 + len(value) // 10
    if isinstance(value, Map):
        value = [item for _, item in value.entries.values()]
    total = 1
    if type(value) in LISTS:
        for element in value:
            total += weight(element, limit - total)
            if total > limit:
                break
    return total
