"""Checks a plugin class against the Protocols of `bayplan.framework.points` when it is loaded.

The framework finds a plugin's methods by name. So a misspelt method would never be called, and a
wrong signature would fail at the first Pod. Both are detected here. A public name that is very
similar to one of the contract counts as misspelt. Other names, and all names that begin with an
underscore, are not checked.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bayplan.framework.interface import Depends, Normalizer, Plugin, PodPart
from bayplan.framework.points import (
    EXTRAS,
    FORMS,
    extension_points,
    has,
    has_method,
    methods,
)

_FORMS = (*(form for forms in FORMS.values() for form in forms), *EXTRAS)
METHODS: Mapping[str, type] = {method: form for form in _FORMS for method in methods(form)}
"""Every method that the framework calls, and the Protocol that describes it."""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "Args": (type, type(None)),
    "filter_depends": (Depends,),
    "score_depends": (Depends,),
    "reads": (PodPart,),
    "normalizer": (Normalizer, type(None)),
    "pure": (bool,),
    "idle": (frozenset,),
    "blocking": (bool,),
}
_ATTRIBUTES = [
    name
    for name, value in vars(Plugin).items()
    if not name.startswith("_") and not inspect.isroutine(value)
]
_NEAR = 0.85
"""Names with at least this similarity, from 0 to 1, count as misspelt."""


def problems(cls: type[Plugin]) -> list[str]:
    """What is wrong with ``cls``, each with class, member and what is expected."""
    members = dict(_own_members(cls))
    errors = [
        f"{cls.__name__}.{name}{_line(value)}: {problem}"
        for name, value in members.items()
        if (problem := _member_problem(name, value))
    ]
    errors += [f"{cls.__name__}: {problem}" for problem in _missing(cls)]
    if not extension_points(cls) and not errors:
        errors.append(
            f'{cls.__name__}: plugin "{cls.name}" has no method of any extension point (filter, '
            "score, permit, ...)"
        )
    return errors


def expected(method: str) -> str:
    """How the framework calls ``method``, and what it takes as an answer."""
    signature = inspect.signature(getattr(METHODS[method], method))
    names = [name for name in signature.parameters if name != "self"]
    return f"{method}({', '.join(['self', *names])}) -> {signature.return_annotation}"


def _own_members(cls: type[Plugin]) -> Iterator[tuple[str, Any]]:
    """The public members of the class and its bases, but not of `Plugin` and Protocols."""
    for base in reversed(cls.__mro__):
        if base not in Plugin.__mro__ and not vars(base).get("_is_protocol"):
            for name, value in vars(base).items():
                if not name.startswith("_") or name == "__init__":
                    yield name, value


def _member_problem(name: str, value: Any) -> str:
    if name == "__init__":
        return _signature_problem(value, 2, "__init__(self, args, handle)")
    if name in METHODS:
        return _method_problem(name, value)
    if name in _KINDS:
        if isinstance(value, _KINDS[name]):
            return ""
        kinds = " or ".join("None" if k is type(None) else k.__name__ for k in _KINDS[name])
        return f"must be {kinds}, not {value!r}"
    routine = inspect.isroutine(value)
    near = "" if name in _ATTRIBUTES else _nearest(name, METHODS if routine else _ATTRIBUTES)
    if near:
        what = expected(near) if routine else near
        return f"unknown; did you mean {what}? A name of your own may begin with _"
    return ""


def _method_problem(name: str, value: Any) -> str:
    if not callable(value) and not isinstance(value, staticmethod | classmethod):
        return f"must be a method, {expected(name)}, not {value!r}"
    if inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value):
        return f"must be a plain function, {expected(name)}: no async, no yield"
    protocol = inspect.signature(getattr(METHODS[name], name))
    return _signature_problem(value, len(protocol.parameters) - 1, expected(name))


def _signature_problem(value: Any, arguments: int, wanted: str) -> str:
    """Whether ``value`` cannot be called with so many arguments, ``self`` not counted."""
    function: Callable[..., object] = getattr(value, "__func__", value)
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin that does not say
        return ""
    given = arguments if isinstance(value, staticmethod) else arguments + 1
    try:
        signature.bind(*range(given))
    except TypeError:
        return f"takes {signature}, must be {wanted}"
    return ""


def _missing(cls: type[Plugin]) -> Iterator[str]:
    for form in _FORMS:
        names = methods(form)
        there = [name for name in names if has_method(cls, form, name)]
        needed_by = there[0] if there else form.__name__
        for name in names:
            if (there or form in cls.__mro__) and name not in there:
                yield f"{needed_by} needs {expected(name)}"
    for form, point in EXTRAS.items():
        if has(cls, form) and point is not None and not any(has(cls, f) for f in FORMS[point]):
            called = " or ".join(methods(f)[0] for f in FORMS[point])
            yield f"{methods(form)[0]} is never called without {called}"


def _nearest(name: str, names: Mapping[str, object] | list[str]) -> str:
    squashed = {_squashed(n): n for n in names}
    near = difflib.get_close_matches(_squashed(name), squashed, n=1, cutoff=_NEAR)
    return squashed[near[0]] if near else ""


def _squashed(name: str) -> str:
    return name.replace("_", "").lower()


def _line(value: Any) -> str:
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    return f" (line {code.co_firstlineno})" if code is not None else ""
