"""AppGroups: the AppGroup and the workload of a Pod, by labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from bayplan.api.kinds import Kind
from bayplan.api.meta import Object
from bayplan.cache.objects import ObjectStore

GROUP = "appgroup.diktyo.x-k8s.io"
"""The label with the name of the AppGroup."""
WORKLOAD = "appgroup.diktyo.x-k8s.io.workload"
"""The label with the selector of the workload."""
ObjectT = TypeVar("ObjectT", bound=Object)


def first_of(
    objects: ObjectStore, kind: Kind[ObjectT], namespaces: Iterable[str], name: str
) -> ObjectT | None:
    """The object called ``name`` in the first of the namespaces that has one."""
    there = (objects.get(kind, f"{namespace}/{name}") for namespace in namespaces)
    return next((obj for obj in there if obj is not None), None)
