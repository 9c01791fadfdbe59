"""Device objects of one test: slices, classes, claims, templates, taint rules."""

from __future__ import annotations

from typing import Any

from e2e.belongings import OURS
from e2e.cluster import SOON, Cluster, pod
from e2e.provider import wait_until

Json = dict[str, Any]
DRIVER = "gpu.example.com"
PROTECTION = "resource.kubernetes.io/delete-protection"
_GROUP = "resource.k8s.io", "v1"


class Devices:
    """Makes and shows device objects."""

    def __init__(self, cluster: Cluster) -> None:
        from kubernetes import client  # noqa: PLC0415  takes a second, not spent by all

        self.namespace = cluster.namespace
        self.api: Any = client.CustomObjectsApi(cluster.api.api_client)
        self._cluster_wide: list[tuple[str, str]] = []

    def make(self, plural: str, name: str, spec: Json) -> None:
        """An object that belongs to no namespace; `clear` removes it."""
        body = {"metadata": {"name": name, "labels": {OURS: ""}}, "spec": spec}
        self.api.create_cluster_custom_object(*_GROUP, plural, body)
        self._cluster_wide.append((plural, name))

    def device_class(self, name: str = "gpu", expression: str = "", **spec: Any) -> None:
        """A class of all devices that the expression selects."""
        text = expression or f'device.driver == "{DRIVER}"'
        self.make("deviceclasses", name, {"selectors": selected(text)} | spec)

    def slice(self, node: str, *devices: Json, pool: str = "", **spec: Any) -> None:
        """A pool of one slice; for one node unless ``node`` is empty."""
        pool = pool or node
        place = {"nodeName": node} if node else {}
        about = {"name": pool, "generation": 1, "resourceSliceCount": spec.pop("count", 1)}
        body = {"driver": DRIVER, "pool": about, **place} | spec
        name = spec.pop("name", f"{pool}-{len(self._cluster_wide)}")
        body.pop("name", None)
        self.make("resourceslices", name, body | ({"devices": list(devices)} if devices else {}))

    def gpus(self, node: str, count: int, **fields: Any) -> None:
        """A node with that many equal devices."""
        self.slice(node, *({"name": f"gpu-{n:03}", **fields} for n in range(count)))

    def claim(self, name: str, *requests: Json, **spec: Any) -> None:
        """A claim for one device of the class ``gpu`` unless given other requests."""
        devices = {"requests": requests or (exactly(),)} | spec
        body = {"metadata": {"name": name}, "spec": {"devices": devices}}
        self.api.create_namespaced_custom_object(*_GROUP, self.namespace, "resourceclaims", body)

    def template(self, name: str, *requests: Json, **spec: Any) -> None:
        """A template of such claims."""
        devices = {"requests": requests or (exactly(),)} | spec
        body = {"metadata": {"name": name}, "spec": {"spec": {"devices": devices}}}
        self.api.create_namespaced_custom_object(
            *_GROUP, self.namespace, "resourceclaimtemplates", body
        )

    def claims(self) -> dict[str, Json]:
        """All claims as they are, by name."""
        listed = self.api.list_namespaced_custom_object(*_GROUP, self.namespace, "resourceclaims")
        return {claim["metadata"]["name"]: claim for claim in listed["items"]}

    def held(self, name: str) -> list[str]:
        """The devices of a claim."""
        allocation = self.claims()[name].get("status", {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results", [])
        return [f"{r['pool']}/{r['device']}" for r in results]

    def report(self, name: str, *conditions: str) -> None:
        """As a driver does: these conditions of all devices of the claim are True."""
        claim = self.claims()[name]
        listed = [
            {
                "type": condition,
                "status": "True",
                "reason": "Test",
                "message": "by the test",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for condition in conditions
        ]
        claim["status"]["devices"] = [
            {key: result[key] for key in ("driver", "pool", "device")} | {"conditions": listed}
            for result in claim["status"]["allocation"]["devices"]["results"]
        ]
        where = (*_GROUP, self.namespace, "resourceclaims", name)
        self.api.replace_namespaced_custom_object_status(*where, claim)

    def allocate_as(self, name: str, other: str, user: Json) -> None:
        """As a scheduler does that does not know better: give a Pod another claim's devices."""
        claims = self.claims()
        claim = claims[name]
        who = {key: user["metadata"][key] for key in ("name", "uid")}
        claim["status"] = {
            "allocation": claims[other]["status"]["allocation"],
            "reservedFor": [{"resource": "pods"} | who],
        }
        claim["metadata"].setdefault("finalizers", []).append(PROTECTION)
        where = (*_GROUP, self.namespace, "resourceclaims", name)
        claim = self.api.replace_namespaced_custom_object(*where, claim) | {
            "status": claim["status"]
        }
        self.api.replace_namespaced_custom_object_status(*where, claim)

    def clear(self) -> None:
        """Remove all of it, which takes until no Pod uses the claims."""
        for plural in ("resourceclaims", "resourceclaimtemplates"):
            self.api.delete_collection_namespaced_custom_object(*_GROUP, self.namespace, plural)
        wait_until(lambda: not self.claims(), SOON, "the end of all claims")
        for plural, name in self._cluster_wide:
            self.api.delete_cluster_custom_object(*_GROUP, plural, name)

    def taken_twice(self) -> list[str]:
        """Devices that two claims hold as a whole."""
        held = [
            f"{r['driver']}/{r['pool']}/{r['device']}"
            for claim in self.claims().values()
            for r in (claim.get("status", {}).get("allocation") or {})
            .get("devices", {})
            .get("results", [])
            if "shareID" not in r and not r.get("adminAccess")
        ]
        return sorted({device for device in held if held.count(device) > 1})


def selected(expression: str) -> list[Json]:
    """One CEL selector."""
    return [{"cel": {"expression": expression}}]


def exactly(name: str = "r", **fields: Any) -> Json:
    """A request for devices of the class ``gpu``."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def pod_using(name: str, scheduler: str, *claims: str, template: str = "", **more: Any) -> Json:
    """A Pod with these claims, and one made from the template."""
    entries: list[Json] = [{"name": f"c{i}", "resourceClaimName": c} for i, c in enumerate(claims)]
    if template:
        entries.append({"name": "made", "resourceClaimTemplateName": template})
    return pod(name, scheduler, resourceClaims=entries, **more)
