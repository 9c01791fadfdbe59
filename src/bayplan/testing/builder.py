"""What all builders have in common, and the builder for kinds that have none of their own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Generic, Self, TypeVar

import msgspec

from bayplan.api.kinds import Kind

Json = dict[str, Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_uids = count(1)
_versions = count(1)


def next_version() -> str:
    """A resourceVersion that no other object has."""
    return f"v{next(_versions)}"


class Builder(Generic[T_co]):
    """Collects an object as JSON, under the API's field names, and decodes it.

    What has no method of its own goes through `meta`, `spec`, `status` and `top`.

    Attributes:
        kind: what it builds.
        json: the object so far.
    """

    def __init__(self, kind: Kind[T_co], name: str) -> None:
        self.kind = kind
        self.json: Json = {"metadata": {"name": name, "uid": f"uid-{next(_uids)}"}}
        self._meta: Json = self.json["metadata"]
        self._spec: Json = self.json.setdefault("spec", {})
        self._status: Json = self.json.setdefault("status", {})

    def obj(self) -> T_co:
        """The object, as if the API server had sent it."""
        return self.kind.decode(msgspec.json.encode(self.json))

    @property
    def key(self) -> str:
        """Namespace and name, or the name alone."""
        namespace, name = self._meta.get("namespace"), self._meta["name"]
        return f"{namespace}/{name}" if namespace else str(name)

    @property
    def path(self) -> str:
        """Where it is in the API."""
        return self.kind.path(self._meta.get("namespace", ""), self._meta["name"])

    def top(self, **fields: object) -> Self:
        """Set fields of the object itself."""
        self.json.update(fields)
        return self

    def meta(self, **fields: object) -> Self:
        """Set fields of metadata."""
        self._meta.update(fields)
        return self

    def spec(self, **fields: object) -> Self:
        """Set fields of spec."""
        self._spec.update(fields)
        return self

    def status(self, **fields: object) -> Self:
        """Set fields of status."""
        self._status.update(fields)
        return self

    def uid(self, uid: str) -> Self:
        """Set metadata.uid; every builder has one of its own otherwise."""
        return self.meta(uid=uid)

    def namespace(self, namespace: str) -> Self:
        """Set the namespace; ``default`` otherwise, where the kind has namespaces."""
        return self.meta(namespace=namespace)

    def version(self, resource_version: int | str) -> Self:
        """Set metadata.resourceVersion."""
        return self.meta(resourceVersion=str(resource_version))

    def new_version(self) -> Self:
        """Set a resourceVersion that no other object has, as the API server does at every write."""
        return self.version(next_version())

    def label(self, key: str, value: str = "") -> Self:
        """Add a label."""
        self._meta.setdefault("labels", {})[key] = value
        return self

    def labels(self, labels: Mapping[str, str]) -> Self:
        """Add labels."""
        self._meta.setdefault("labels", {}).update(labels)
        return self

    def annotation(self, key: str, value: str) -> Self:
        """Add an annotation."""
        self._meta.setdefault("annotations", {})[key] = value
        return self


def make_object(kind: Kind[T], name: str) -> Builder[T]:
    """A builder of an object of any kind, a CRD's included."""
    builder = Builder(kind, name)
    return builder.namespace("default") if kind.namespaced else builder
