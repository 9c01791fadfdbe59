"""ResourceClaims with no API server, made of templates.

Stands for kube-controller-manager's claim controller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bayplan.api.kinds import RESOURCE_CLAIM
from bench.objects import Item, collection

Json = dict[str, Any]
TEMPLATE = "ResourceClaimTemplate"


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
