"""FullObjects: complete Pods and nodes from the API server, for extenders.

The cache holds only what scheduling reads. An extender must get complete objects, so
they are fetched when a call needs them, and cached while their resourceVersion stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bayplan.api.kinds import NODE, POD
from bayplan.api.lists import ObjectList, PartialObject
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.client.http import Http

_decode_partial = msgspec.json.Decoder(PartialObject).decode


class FullObjects:
    """Fetches whole objects; raises ApiError where it cannot."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._nodes: dict[str, tuple[str, msgspec.Raw]] = {}

    def pod(self, pod: Pod) -> msgspec.Raw:
        """The Pod's JSON."""
        return msgspec.Raw(self._http.get(POD.path(pod.namespace, pod.name)))

    def nodes(self, nodes: Iterable[Node]) -> list[msgspec.Raw]:
        """The nodes' JSON, in their order; nodes that have been deleted meanwhile are left out."""
        versions = [(n.name, n.metadata.resource_version) for n in nodes]
        if any(self._nodes.get(name, ("",))[0] != version for name, version in versions):
            self._fetch()
        return [self._nodes[name][1] for name, _ in versions if name in self._nodes]

    def _fetch(self) -> None:
        listed = msgspec.json.decode(self._http.get(NODE.path()), type=ObjectList[msgspec.Raw])
        items = [(_decode_partial(raw).metadata, raw) for raw in listed.items or ()]
        self._nodes = {m.name: (m.resource_version, msgspec.Raw(bytes(raw))) for m, raw in items}
