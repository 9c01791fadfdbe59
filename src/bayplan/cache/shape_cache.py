"""ShapeCache: an LRU cache of values by Pod shape."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from bayplan.api.pod import PodShape

V = TypeVar("V")

SHAPES_KEPT = 4096
"""How many shapes a plugin caches values for that also depend on its arguments."""


class ShapeCache(Generic[V]):
    """Values by shape, at most ``capacity`` of them.

    Unlike `PodShape.memo` it is freed with its owner, so values may be large. ``dropped`` is called
    with every value that is evicted.
    """

    def __init__(self, capacity: int, dropped: Callable[[V], None]) -> None:
        self._capacity = capacity
        self._dropped = dropped
        self._values: OrderedDict[int, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, shape: PodShape) -> V | None:
        """The value of ``shape``, or None."""
        value = self._values.get(shape.id)
        if value is not None:
            self._values.move_to_end(shape.id)
        return value

    def put(self, shape: PodShape, value: V) -> None:
        """Keep ``value`` for ``shape`` in place of what was there."""
        old = self._values.pop(shape.id, None)
        self._values[shape.id] = value
        if old is None and len(self._values) > self._capacity:
            _, old = self._values.popitem(last=False)
        if old is not None:
            self._dropped(old)
