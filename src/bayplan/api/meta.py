"""Metadata and selectors that all kinds share."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, Self

import msgspec


class ObjectReference(NamedTuple):
    """What an event is about, where it is not a Pod."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = "v1"
    resource_version: str = ""


class ObjectFault(NamedTuple):
    """What is wrong with an object of a user: a reason in one word, and a sentence."""

    regarding: ObjectReference
    reason: str
    message: str


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, gc=False, frozen=True):
    """A value decoded from the API: compared by content, free of cycles."""


class OwnerReference(Wire, frozen=True):
    """One owner of an object; an object has at most one controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(Wire, frozen=True):
    """The part of ObjectMeta that scheduling reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((o for o in self.owner_references if o.controller), None)


class Condition(Wire, frozen=True):
    """One condition of a Pod or a PodGroup."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


class LabelSelectorRequirement(Wire, frozen=True):
    """One expression of a selector: ``key operator values``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """metav1.LabelSelector; see `bayplan.api.selectors` for its meaning."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Object(Wire, frozen=True):
    """Any object that is cached by namespace and name."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """metadata.namespace, empty for cluster-wide kinds."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels."""
        return self.metadata.labels

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-wide object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class GenericObject(Object, frozen=True):
    """An object of a kind without a type of its own: the metadata, and all else as JSON.

    Attributes:
        data: the whole object as JSON, without ``metadata.managedFields``. Shared: do not change.
    """

    data: dict[str, Any] = {}

    def __getitem__(self, field: str) -> Any:
        """A field at the top, such as ``widget["spec"]``; raises KeyError."""
        return self.data[field]

    @classmethod
    def decode(cls, data: bytes | msgspec.Raw) -> Self:
        """The object from its JSON; raises msgspec.ValidationError."""
        fields = msgspec.json.decode(data, type=dict[str, Any])
        metadata = fields.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
        return cls(msgspec.convert(metadata or {}, ObjectMeta), fields)
