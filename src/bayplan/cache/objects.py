"""ObjectStore: every watched object but Pods and Nodes, by kind and key, with change handlers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from bayplan.api.meta import Object

T = TypeVar("T")
ChangeHandler = Callable[[Any, Any], None]
"""``handler(old, new)``: old is None for an added object, new is None for a removed one."""


class ObjectStore:
    """Objects by kind name (``"PersistentVolumeClaim"``) and key (``namespace/name`` or name).

    Plugins that need another index (claims by volume, ...) keep it up to date with `on_change`.
    """

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = defaultdict(dict)
        self._handlers: dict[str, list[ChangeHandler]] = defaultdict(list)
        self._shared: dict[Any, Any] = {}

    def shared(self, make: Callable[..., T], *args: Any) -> T:
        """``make(*args)``, made once: an index that the plugins of all profiles share."""
        if make not in self._shared:
            self._shared[make] = make(*args)
        return self._shared[make]  # type: ignore[no-any-return]

    def get(self, kind: str, key: str) -> Any | None:
        """The object, or None."""
        return self._objects[kind].get(key)

    def all(self, kind: str) -> Iterable[Any]:
        """Every object of ``kind``."""
        return self._objects[kind].values()

    def keys(self, kind: str) -> set[str]:
        """The keys of every object of ``kind``."""
        return set(self._objects[kind])

    def on_change(self, kind: str, handler: ChangeHandler) -> None:
        """Call ``handler(old, new)`` after every change; at once for what is there already."""
        self._handlers[kind].append(handler)
        for obj in self._objects[kind].values():
            handler(None, obj)

    def set(self, kind: str, obj: Object) -> Any | None:
        """Add or replace ``obj``; returns what it replaced."""
        old = self._objects[kind].get(obj.key)
        self._objects[kind][obj.key] = obj
        self._tell(kind, old, obj)
        return old

    def remove(self, kind: str, key: str) -> Any | None:
        """Remove and return the object, or None when there was none."""
        old = self._objects[kind].pop(key, None)
        if old is not None:
            self._tell(kind, old, None)
        return old

    def _tell(self, kind: str, old: Any, new: Any) -> None:
        for handler in self._handlers[kind]:
            handler(old, new)
