"""ObjectStore: every watched object but Pods and Nodes, by kind and key, with change handlers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import structlog

from bayplan.api.kinds import Kind
from bayplan.api.meta import Object
from bayplan.cache.subscription import Subscribers, Subscription

log = structlog.get_logger("objects")

V = TypeVar("V")
T = TypeVar("T", bound=Object)
ChangeHandler = Callable[[T | None, T | None], object]
"""``handler(old, new)``: old is None for an added object, new is None for a removed one."""


class _ByKind(dict[Kind[object], dict[str, Any]]):
    def __missing__(self, kind: Kind[object]) -> dict[str, Any]:
        if not isinstance(kind, Kind):
            raise TypeError(f"{kind!r} is no Kind; see bayplan.api.kinds")
        return self.setdefault(kind, {})


class ObjectStore:
    """Objects by `Kind` and key (``namespace/name``, or the name of a cluster-wide object).

    Plugins that need another index (claims by volume, ...) keep it up to date with `on_change`.
    """

    def __init__(self) -> None:
        self._objects = _ByKind()
        self._handlers: dict[Kind[object], Subscribers[Any]] = defaultdict(Subscribers)
        self._shared: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    def shared(self, make: Callable[..., V], *args: Any) -> V:
        """``make(*args)``, made once: an index that the plugins of all profiles share.

        It lives as long as one of its users holds it.
        """
        index = self._shared.get(make)
        if index is None:
            index = self._shared[make] = make(*args)
        return index

    def get(self, kind: Kind[T], key: str) -> T | None:
        """The object, or None."""
        return self._objects[kind].get(key)

    def all(self, kind: Kind[T]) -> Collection[T]:
        """Every object of ``kind``."""
        return self._objects[kind].values()

    def keys(self, kind: Kind[T]) -> set[str]:
        """The keys of every object of ``kind``."""
        return set(self._objects[kind])

    def on_change(self, kind: Kind[T], handler: ChangeHandler[T]) -> Subscription:
        """Call ``handler(old, new)`` after every change; at once for what is there already.

        A bound method is called as long as its object is referenced elsewhere; see `Subscribers`.
        """
        subscription = self._handlers[kind].add(handler)
        for obj in self.all(kind):
            handler(None, obj)
        return subscription

    def set(self, kind: Kind[T], obj: T) -> T | None:
        """Add or replace ``obj``; returns what it replaced."""
        old = self.get(kind, obj.key)
        self._objects[kind][obj.key] = obj
        self._tell(kind, old, obj)
        return old

    def remove(self, kind: Kind[T], key: str) -> T | None:
        """Remove and return the object, or None when there was none."""
        old: T | None = self._objects[kind].pop(key, None)
        if old is not None:
            self._tell(kind, old, None)
        return old

    def _tell(self, kind: Kind[T], old: T | None, new: T | None) -> None:
        for handler in self._handlers[kind]:
            try:
                handler(old, new)
            except BaseException:  # whatever it is, it is the plugin's own affair
                if _module(handler).startswith("bayplan."):
                    raise  # an index of ours would be wrong from now on
                text = "a plugin's handler of changes broke"
                key = (new or old).key  # type: ignore[union-attr]
                log.exception(text, kind=kind.name, key=key, module=_module(handler))


def _module(handler: ChangeHandler[Any]) -> str:
    return getattr(handler, "__module__", "")
