"""Subscriptions: callbacks for changes, held by weak references.

A subscription ends when it is closed, or when its subscriber is garbage-collected: the publisher
keeps no object alive. So an index of a plugin is freed with the plugin, and a replaced generation
of plugins leaves nothing behind.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from operator import call, is_not
from types import MethodType
from typing import Any, Generic, TypeGuard, TypeVar, cast

T = TypeVar("T")

_is_there = cast("Callable[[Any], TypeGuard[Any]]", partial(is_not, None))


class Subscription:
    """One subscriber of one publisher."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel

    def close(self) -> None:
        """Tell the subscriber nothing more; closing twice does no harm."""
        self._cancel()


class Subscribers(Generic[T]):
    """The subscribers of one publisher, in order of subscription.

    Bound methods and listener objects are referenced weakly, functions strongly. A subscriber may
    be added or removed during a notification.
    """

    def __init__(self) -> None:
        self._references: tuple[Callable[[], T | None], ...] = ()

    def __iter__(self) -> Iterator[T]:
        # Without a frame of Python for each: some are notified of every Pod.
        return filter(_is_there, map(call, self._references))

    def __len__(self) -> int:
        return len(self._references)

    def add(self, subscriber: T) -> Subscription:
        """From now on ``subscriber`` is one of them."""
        reference = self._reference(subscriber)
        self._references = (*self._references, reference)
        return Subscription(lambda: self._remove(reference))

    def _reference(self, subscriber: T) -> Callable[[], T | None]:
        if isinstance(subscriber, MethodType):
            return weakref.WeakMethod(subscriber, self._remove)
        if callable(subscriber):
            return lambda: subscriber
        return weakref.ref(subscriber, self._remove)

    def _remove(self, reference: object) -> None:
        self._references = tuple(r for r in self._references if r is not reference)
