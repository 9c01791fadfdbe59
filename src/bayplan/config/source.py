"""From the text of a configuration file to plain data, read the way Kubernetes components read it.

They turn YAML 1.1 into JSON first, so plain scalars are resolved by the rules of the Go library
that does this, not by PyYAML's: `010` is eight, `1e3` is a number, `1:30` and `2001-01-01` are
texts, `y` is true. Text that begins with `{` is JSON and nothing else. A key that occurs twice is
an error.

Text may come from anybody who can write a ConfigMap, and is read beside a running scheduler: how
deep it is, how long its numbers are, and what its aliases come to are bounded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import yaml

from bayplan.config.errors import ConfigError, FieldError

if TYPE_CHECKING:
    from collections.abc import Iterable

_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
_NULL = frozenset(["", "~", "null", "Null", "NULL"])
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*|0[0-7]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+)")
_OLD_OCTAL = re.compile(r"[-+]?0[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Beyond it Go writes a whole float with an exponent, which is no integer to its JSON decoder.
_WHOLE_FLOAT_LIMIT = 1e21
_MOST_DIGITS = 400
"""Of a number; the largest that a float can be has 309."""
_MOST_LEVELS = 200
_MOST_ALIASED = 10_000
"""Values that aliases may stand for, beside those that are written out."""
_TOO_DEEP = FieldError("", f"is nested deeper than {_MOST_LEVELS} levels")


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a file, the keys that came twice, and whether more documents follow."""

    data: Any
    duplicates: tuple[FieldError, ...] = ()
    more: bool = False


def parse(text: str, *, large: bool = False, first_line: int = 1) -> Document:
    """Read the first document of `text`.

    Args:
        text: YAML or JSON.
        large: use libyaml where it is there: ten times as fast, in other words about what is wrong.
        first_line: where `text` begins in its file, for errors.

    Raises:
        ConfigError: `text` is neither YAML nor JSON; the error says in which line.
    """
    if text.lstrip().startswith("{"):
        return _parse_json(text, first_line)
    try:
        make_loader: Any = _FastLoader if large else _Loader
        return _parse_yaml(make_loader(text), len(text) + _MOST_ALIASED)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + first_line}: " if mark else ""
        raise ConfigError([FieldError("", f"{where}{error.problem or error.context}")]) from None
    except yaml.YAMLError as error:
        raise ConfigError([FieldError("", str(error).replace("\n", " "))]) from None
    except RecursionError:
        raise ConfigError([_TOO_DEEP]) from None


def _parse_json(text: str, first_line: int) -> Document:
    duplicates: list[FieldError] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(items)
        if len(data) < len(items):
            keys = Counter(key for key, _ in items)
            duplicates.extend(FieldError(k, "duplicate field") for k, n in keys.items() if n > 1)
        return data

    def no_number(name: str) -> None:
        raise ConfigError([FieldError("", f"{name} is no JSON number")])

    def number(digits: str) -> int:
        if len(digits) > _MOST_DIGITS:
            raise ConfigError([FieldError("", _too_long(digits))])
        return int(digits)

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=no_number, parse_int=number)
    except json.JSONDecodeError as error:
        line = error.lineno + first_line - 1
        raise ConfigError([FieldError("", f"line {line}: {error.msg}")]) from None
    except RecursionError:
        raise ConfigError([_TOO_DEEP]) from None
    return Document(data, tuple(duplicates))


class _GoTags(yaml.resolver.Resolver):
    """Gives plain scalars their tags by Go's rules."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _TAG + _kind_of_plain(value)
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return tag


class _Loader(_GoTags, yaml.SafeLoader):
    """Composes nodes, no deeper than `_MOST_LEVELS`."""

    _level = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._level += 1
        if self._level > _MOST_LEVELS:
            raise ConfigError([_TOO_DEEP])
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1


class _FastLoader(_GoTags, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes with libyaml."""


def _kind_of_plain(value: str) -> str:
    if value in _TRUE or value in _FALSE:
        return "bool"
    if value in _NULL:
        return "null"
    if value == "<<":
        return "merge"
    number = value.replace("_", "")
    if value[0] != "_" and _INT.fullmatch(number):
        return "int"
    if value[0] != "_" and (_FLOAT.fullmatch(number) or _NO_NUMBER.fullmatch(number)):
        return "float"
    return "str"


def _parse_yaml(loader: Any, most_values: int) -> Document:
    try:
        root = loader.get_node() if loader.check_node() else None
        if root is None:
            return Document(None)
        builder = _Builder(most_values)
        data = builder.build(root, "")
        return Document(data, tuple(builder.duplicates), loader.check_node())
    finally:
        loader.dispose()


@dataclass(slots=True)
class _Builder:
    """Turns composed nodes into data and remembers the keys that came twice.

    Attributes:
        left: how many values there may still be. A text has fewer values than characters, so more
            of them come of aliases.
    """

    left: int
    duplicates: list[FieldError] = field(default_factory=list)
    _open: list[yaml.Node] = field(default_factory=list)

    def build(self, node: yaml.Node, path: str) -> Any:
        self.left -= 1
        if self.left < 0:
            raise _error(f"{_at(path)}aliases stand for more than {_MOST_ALIASED} values", node)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, path)
        if node in self._open:
            raise _error("the anchor contains itself", node)
        if len(self._open) == _MOST_LEVELS:
            raise ConfigError([_TOO_DEEP])
        self._open.append(node)
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
            return self._mapping(cast("yaml.MappingNode", node), path)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged = {**self._merge(value_node, path), **merged}
                continue
            key = _key(key_node)
            where = f"{path}.{key}" if path else key
            self._note_doubles({key} & (own.keys() | merged.keys()), path, key_node)
            own[key] = self.build(value_node, where)
        return {**merged, **own}

    def _note_doubles(self, keys: Iterable[str], path: str, node: yaml.Node) -> None:
        line = node.start_mark.line + 1
        for key in sorted(keys):
            where = f"{path}.{key}" if path else key
            self.duplicates.append(FieldError(where, f"duplicate field (line {line})"))

    def _merge(self, node: yaml.Node, path: str) -> dict[str, Any]:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            merged: dict[str, Any] = {}
            for item in node.value:
                part = self._merge(item, path)
                self._note_doubles(merged.keys() & part.keys(), path, item)
                merged = {**part, **merged}
            return merged
        raise _error("<< takes a mapping or a list of mappings", node)


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag == f"{_TAG}null":
        raise _error("a key must be a text", node)
    value = _scalar(node)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _scalar(node: yaml.ScalarNode, path: str = "") -> str | int | float | bool | None:
    kind = node.tag.removeprefix(_TAG)
    value: str = node.value
    if kind == "null":
        return None
    if kind not in ("bool", "int", "float"):
        return value
    if _kind_of_plain(value or "~") not in {"bool": ("bool",)}.get(kind, ("int", "float")):
        raise _error(f'"{value}" is no {kind}', node)
    if kind != "bool" and len(value) > _MOST_DIGITS:
        raise _error(_at(path) + _too_long(value), node)
    return value in _TRUE if kind == "bool" else _number(value.replace("_", ""), node)


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _too_long(digits: str) -> str:
    return f"a number of {len(digits)} digits"


def _number(text: str, node: yaml.ScalarNode) -> int | float:
    if _INT.fullmatch(text):
        return int(text, 8 if _OLD_OCTAL.fullmatch(text) else 0)
    if _NO_NUMBER.fullmatch(text):
        raise _error(f"{text} is no JSON number", node)
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _WHOLE_FLOAT_LIMIT else number


def _error(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
