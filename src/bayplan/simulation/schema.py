"""Schema: the fields of the kinds that a file may hold, their types and permitted values.

`fields.json` beside this module has them, made from the official client's models and from
``deploy/crds`` (`tests/simulation/client_fields.py`). One walk over an object checks it: types,
enumerations, quantities, times and 64-bit ranges, and unknown fields. The walk carries no path; the
path of an error is built on the way back.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from bayplan.api import quantity

Check = Callable[[Any], bool]
"""Checks a value; True when it holds a field that the API does not have."""

_ZONED = re.compile(r".*(?:[Zz]|[+-]\d\d:\d\d)")
_MAX = 2**63 - 1
_NAMES = {dict: "object", list: "array", type(None): "null"}
_LIKENESS = 0.75


class UnusableError(Exception):
    """A field that the API server would refuse; the text begins with the field's path."""

    def __init__(self, problem: str, *path: str | int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = list(path)

    def __str__(self) -> str:
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)
        return f"{path.removeprefix('.')}: {self.problem}" if path else self.problem


class Schema:
    """The checks of every kind; see the module's docstring."""

    def __init__(self, kinds: Mapping[str, str], types: Mapping[str, Mapping[str, str]]) -> None:
        self._kinds = kinds
        self._types = types
        self._checks: dict[str, Check] = {}

    def check(self, kind: str, data: Any) -> list[str]:
        """The fields of ``data`` that the API does not have, each with a suggestion.

        Raises:
            UnusableError: a field has another type or value than the API permits.
        """
        name = self._kinds[kind]
        return list(self._unknown(name, data, "")) if self._checker(name)(data) else []

    def __contains__(self, kind: str) -> bool:
        return kind in self._kinds

    def _checker(self, name: str) -> Check:
        """The check of a type: one of the API's by name, ``[X]``, ``{X}``, ``A|B`` or a leaf."""
        check = self._checks.get(name)
        if check is None:
            if name in self._types:
                # Types may contain themselves: registered before its fields are looked at.
                fields: dict[str, Check | type] = {}
                check = self._checks[name] = _object_check(fields)
                for field, kind in self._types[name].items():
                    fields[field] = _PLAIN.get(kind) or self._checker(kind)
            elif name[0] == "[":
                check = _list_check(self._checker(name[1:-1]))
            elif name[0] == "{":
                check = _map_check(self._checker(name[1:-1]))
            else:
                check = _LEAVES.get(name) or _enumeration_check(tuple(name.split("|")))
            self._checks[name] = check
        return check

    def _unknown(self, name: str, data: Any, path: str) -> Iterator[str]:
        if name[0] in "[{":
            pairs = enumerate(data) if name[0] == "[" else data.items()
            for key, item in pairs:
                yield from self._unknown(name[1:-1], item, f"{path}[{key}]")
        elif name in self._types:
            for key, item in data.items():
                where = f"{path}.{key}" if path else key
                if key in self._types[name]:
                    yield from self._unknown(self._types[name][key], item, where)
                else:
                    close = difflib.get_close_matches(key, self._types[name], 1, _LIKENESS)
                    yield f"{where}: unknown field" + (f', is "{close[0]}" meant?' if close else "")


def _expected(name: str, value: Any) -> UnusableError:
    given = _NAMES.get(type(value), type(value).__name__)
    return UnusableError(f"Expected `{name}`, got `{given}`")


def _object_check(fields: Mapping[str, Check | type]) -> Check:
    def check(value: Any) -> bool:
        if type(value) is not dict:
            raise _expected("object", value)
        has_unknown = False
        for key, item in value.items():
            field = fields.get(key)
            # A text where a text belongs is by far the most frequent case.
            if field is type(item):
                continue
            if field is None:
                has_unknown = True
            elif isinstance(field, type):
                raise UnusableError(_expected(field.__name__, item).problem, key)
            else:
                try:
                    has_unknown |= field(item)
                except UnusableError as error:
                    error.path.insert(0, key)
                    raise
        return has_unknown

    return check


def _list_check(item_check: Check) -> Check:
    def check(value: Any) -> bool:
        if type(value) is not list:
            raise _expected("array", value)
        return _check_each(enumerate(value), item_check)

    return check


def _map_check(value_check: Check) -> Check:
    def check(value: Any) -> bool:
        if type(value) is not dict:
            raise _expected("object", value)
        return _check_each(value.items(), value_check)

    return check


def _check_each(items: Iterable[tuple[str | int, Any]], check: Check) -> bool:
    has_unknown = False
    for place, item in items:
        try:
            has_unknown |= check(item)
        except UnusableError as error:
            error.path.insert(0, place)
            raise
    return has_unknown


def _enumeration_check(values: tuple[str, ...]) -> Check:
    permitted = frozenset(("", *values))

    def check(value: Any) -> bool:
        if type(value) is not str:
            raise _expected("str", value)
        if value not in permitted:
            raise UnusableError(f"{value!r} is none of {', '.join(values)}")
        return False

    return check


def _type_check(name: str, *types: type) -> Check:
    def check(value: Any) -> bool:
        if type(value) not in types:
            raise _expected(name, value)
        return False

    return check


def _check_int(value: Any) -> bool:
    if type(value) is not int:
        raise _expected("int", value)
    if not -_MAX <= value <= _MAX:
        raise UnusableError("is beyond 64 bits")
    return False


def _check_time(value: Any) -> bool:
    if type(value) is not str:
        raise _expected("str", value)
    if not _ZONED.fullmatch(value):
        raise UnusableError(f"{value!r} has no time zone")
    return False


@cache
def _quantity_problem(value: str | float) -> str:
    try:
        amount = quantity.parse(value)
    except quantity.QuantityError as error:
        return str(error)
    return f"{value!r} is negative" if amount < 0 else ""


def _check_quantity(value: Any) -> bool:
    if type(value) not in (str, int, float):
        raise _expected("str", value)
    if problem := _quantity_problem(value):
        raise UnusableError(problem)
    return False


_PLAIN: dict[str, type] = {"string": str, "bool": bool}
_LEAVES: dict[str, Check] = {
    "string": _type_check("str", str),
    "int": _check_int,
    "bool": _type_check("bool", bool),
    "number": _type_check("float", int, float),
    "time": _check_time,
    "quantity": _check_quantity,
    "any": lambda _: False,
}


@cache
def schema() -> Schema:
    """The schema that the package ships."""
    text = resources.files(__package__).joinpath("fields.json").read_text(encoding="utf-8")
    described = json.loads(text)
    return Schema(described["kinds"], described["types"])
