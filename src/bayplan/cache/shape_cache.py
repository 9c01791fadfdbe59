"""ShapeCache: what was derived for Pod shapes lately, the least recently used dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from bayplan.api.pod import PodShape

V = TypeVar("V")

SHAPES_KEPT = 4096
"""For how many shapes a plugin keeps what it works out of them with its settings."""


class ShapeCache(Generic[V]):
    """Values by shape, at most ``capacity`` of them.

    Unlike `PodShape.memo` it ends with its owner, so a value may hold on to things that cost
    memory; ``dropped`` is called with every value that leaves.
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
