"""Makes a failing case small: objects go, then fields, as long as the same thing still fails."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from e2e.conformance.generator import Case

T = TypeVar("T")
Path = tuple[str | int, ...]

KEPT = frozenset(
    {"apiVersion", "kind", "metadata", "spec", "name", "namespace", "uid", "schedulerName"}
)
"""Fields that stay: without them an object is another one, or none."""


class Shrinker:
    """Shrinks one case.

    Args:
        fails: whether a case still fails in the way that matters, and is still valid.
        seconds: how long to go on looking for something smaller.
    """

    def __init__(self, fails: Callable[[Case], bool], seconds: float = 120) -> None:
        self._fails = fails
        self._end = time.monotonic() + seconds

    def shrink(self, case: Case, pod: str) -> Case:
        """The smallest case found that still fails for the Pod ``namespace/name``."""
        case = self._try(case, _alone(case.items, pod), case.config)
        items = self._fewer(case, case.items)
        case = replace(case, items=items)
        case = self._try(case, case.items, None)
        document: dict[str, Any] = {"items": case.items, "config": case.config}
        document = self._less(case, document)
        return replace(case, items=document["items"], config=document["config"])

    def _try(self, case: Case, items: list[dict[str, Any]], config: dict[str, Any] | None) -> Case:
        smaller = replace(case, items=items, config=config)
        return smaller if self._fails(smaller) else case

    def _fewer(self, case: Case, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Leave out ever smaller runs of objects, until no single one can be left out."""
        size = max(1, len(items) // 2)
        while time.monotonic() < self._end:
            start, before = 0, len(items)
            while start < len(items) and time.monotonic() < self._end:
                rest = items[:start] + items[start + size :]
                if self._fails(replace(case, items=rest)):
                    items = rest
                else:
                    start += size
            if size == 1 and len(items) == before:
                break
            size = max(1, size // 2)
        return items

    def _less(self, case: Case, document: dict[str, Any]) -> dict[str, Any]:
        """Leave out fields and list items, the outermost first."""
        tried: set[Path] = set()
        while time.monotonic() < self._end:
            path = next((one for one in _paths(document) if one not in tried), None)
            if path is None:
                break
            smaller = _without(document, path)
            if self._fails(replace(case, items=smaller["items"], config=smaller["config"])):
                document = smaller
                # What follows in a list has moved up; everything below it is worth another try.
                tried = {one for one in tried if one[: len(path) - 1] != path[:-1]}
            else:
                tried.add(path)
        return document


def _alone(items: list[dict[str, Any]], pod: str) -> list[dict[str, Any]]:
    """The items without all pending Pods but one."""

    def stays(item: dict[str, Any]) -> bool:
        key = f"{item['metadata'].get('namespace') or 'default'}/{item['metadata']['name']}"
        return item["kind"] != "Pod" or "nodeName" in item["spec"] or key == pod

    return [item for item in items if stays(item)]


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of everything that could be left out, breadth first within an object."""
    if isinstance(value, dict):
        children: list[tuple[str | int, Any]] = [*value.items()]
    elif isinstance(value, list):
        children = [*enumerate(value)]
    else:
        return
    for key, _ in children:
        # Objects themselves have been tried before their fields.
        if key not in KEPT and len(path) > 1:
            yield (*path, key)
    for key, child in children:
        yield from _paths(child, (*path, key))


def _without(document: dict[str, Any], path: Path) -> dict[str, Any]:
    copied = copy.deepcopy(document)
    parent: Any = copied
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return copied
