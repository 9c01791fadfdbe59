"""ResourceClaims with no API server: made of templates, and written as an API server would.

Stands for kube-controller-manager's claim controller and for the API server's part in the writes of
DynamicResources. A claim is stored as JSON, as there, so that a write costs what its body costs.
It counts for the time of a Pod with claims, about a tenth: looks at the clock would cost as much.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from bayplan.api.kinds import RESOURCE_CLAIM
from bench.objects import Item, collection

Json = dict[str, Any]
TEMPLATE = "ResourceClaimTemplate"
_VERSION = 1_000_000
"""The version of the first write; greater than those of the objects that are there before."""


class ClaimController:
    """Puts the claims that a Pod names by template before the Pod, and their names into it."""

    def __init__(self) -> None:
        self._specs: dict[str, Json] = {}

    def expanded(self, item: Item) -> Iterator[Item]:
        """What the scheduler sees of an object that is created."""
        if item.kind == TEMPLATE:
            self._specs[item.name] = json.loads(item.body)["spec"]["spec"]
        elif item.kind == "Pod" and b"resourceClaimTemplateName" in item.body:
            yield from self._with_claims(item)
        else:
            yield item

    def _with_claims(self, item: Item) -> Iterator[Item]:
        pod = json.loads(item.body)
        meta = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": item.name, "uid": meta["uid"]}
        statuses = []
        for wanted in pod["spec"]["resourceClaims"]:
            name = f"{item.name}-{wanted['name']}"
            statuses.append({"name": wanted["name"], "resourceClaimName": name})
            claim = {
                "metadata": {
                    "name": name,
                    "namespace": meta["namespace"],
                    "uid": f"claim-{meta['uid']}-{wanted['name']}",
                    "resourceVersion": "1",
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": self._specs[wanted["resourceClaimTemplateName"]],
            }
            path = collection(RESOURCE_CLAIM.name, meta["namespace"])
            yield Item(RESOURCE_CLAIM.name, path, name, json.dumps(claim).encode())
        pod["status"] = {"resourceClaimStatuses": statuses}
        yield Item(item.kind, item.path, item.name, json.dumps(pod).encode())


class ClaimStore:
    """The claims as the API server has them, by path."""

    def __init__(self) -> None:
        self._claims: dict[str, Json] = {}
        self._versions = count(_VERSION)

    def add(self, item: Item) -> None:
        """A claim that is there from the start."""
        self._claims[f"{item.path}/{item.name}"] = json.loads(item.body)

    def create(self, path: str, body: bytes) -> bytes:
        """A claim that the scheduler makes: it gets a name and a uid."""
        claim = json.loads(body)
        version = str(next(self._versions))
        name = claim["metadata"]["generateName"] + version
        claim["metadata"] |= {"name": name, "uid": f"claim-{version}", "resourceVersion": version}
        claim["metadata"]["namespace"] = path.split("/")[-2]
        self._claims[f"{path}/{name}"] = claim
        return json.dumps(claim).encode()

    def patch(self, path: str, body: bytes) -> bytes:
        """The claim with the change; ``path`` is its own or that of its status."""
        path = path.removesuffix("/status")
        claim = self._claims[path]
        for part, fields in msgspec.json.decode(body).items():
            claim.setdefault(part, {}).update(fields)
        claim["metadata"]["resourceVersion"] = str(next(self._versions))
        return msgspec.json.encode(claim)
