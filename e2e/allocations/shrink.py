"""Makes a problem small: list entries and fields go, as long as the answers still differ."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from e2e.allocations.generator import Problem

Path = tuple[str | int, ...]
_KEPT = frozenset({"metadata", "name", "driver", "pool", "spec", "devices", "deviceClassName"})
"""Fields without which a problem makes no sense."""


def shrink(problem: Problem, fails: Callable[[Problem], bool]) -> Problem:
    """The smallest problem found that still fails."""
    removed = True
    while removed:
        removed = False
        for path in list(_paths(problem)):
            smaller = _without(problem, path)
            if smaller is not None and fails(smaller):
                problem, removed = smaller, True
                break
    return problem


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """What could be left out, the outermost first."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    for key, _ in children:
        if path and key not in _KEPT:
            yield (*path, key)
    for key, child in children:
        yield from _paths(child, (*path, key))


def _without(problem: Problem, path: Path) -> Problem | None:
    smaller = copy.deepcopy(problem)
    parent: Any = smaller
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return smaller
