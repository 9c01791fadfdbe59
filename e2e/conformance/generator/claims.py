"""ResourceClaims: of Pods that run, with devices; of Pods that wait, by template or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.devices import CLASSES, DeviceMaker, Offer, opaque
from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import ACCELERATOR, BY_CLASS

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

Json = dict[str, Any]

TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "broken", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "broken", "operator": "Equal", "value": "yes"},
    {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
)
ATTRIBUTES = (
    "gpu.example.com/model",
    "gpu.example.com/numa",
    "nic.example.com/model",
    "shared.example.com/switch",
)
ADMIN = "resource.kubernetes.io/admin-access"
API = "resource.k8s.io/v1"
FULL = 256
"""How many users a claim may have."""


class ClaimMaker:
    """Makes the claims of one cluster, and gives them to its Pods."""

    def __init__(self, dice: Dice, world: World, devices: DeviceMaker) -> None:
        self.dice = dice
        self.world = world
        self.devices = devices
        self._count = 0
        self._share = dice.choice((0.1, 0.3, 0.6))
        self._templates: dict[str, list[str]] = {}
        self._named: dict[str, list[str]] = {}
        self._admins: set[str] = set()

    def add_infrastructure(self) -> None:
        """Add templates, and claims that several Pods may use."""
        if not self.devices.present:
            return
        for item in self.world.items:
            if item["kind"] == "Namespace" and self.dice.has("adminNamespaces"):
                item["metadata"].setdefault("labels", {})[ADMIN] = "true"
                self._admins.add(item["metadata"]["name"])
        for namespace in self.world.namespaces:
            self._named[namespace] = []
            self._templates[namespace] = [f"template-{number}" for number in range(4)]
            for name in self._templates[namespace]:
                simple = self.dice.chance(0.3)
                spec = {"spec": self._preference() if simple else self._spec(namespace)}
                metadata = {"name": name, "namespace": namespace}
                self.world.add(API, "ResourceClaimTemplate", metadata=metadata, spec=spec)
            for _ in range(self.dice.randint(0, 3)):
                self._named[namespace].append(self._add_shared(namespace))

    def give(self, pod: Json) -> None:
        """Have the Pod use claims and resources for which there are devices, if it is to."""
        if not self.devices.present:
            return
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])):
            if self.dice.has("backedResources"):
                self._request_resource(container)
            elif self.world.scored and self.dice.chance(0.2):
                self._request_resource(container, self.dice.choice(self.world.scored))
        if not self.dice.chance(self._share):
            return
        node = pod["spec"].get("nodeName", "")
        entries: list[Json] = []
        statuses: list[Json] = []
        for number in range(self.dice.choice((1, 1, 1, 2))):
            entry: Json = {"name": f"claim-{number}"}
            entries.append(entry)
            statuses += self._held(entry, pod, node) if node else self._wanted(entry, pod)
        pod["spec"]["resourceClaims"] = entries
        if statuses:
            pod["status"]["resourceClaimStatuses"] = statuses

    def _request_resource(self, container: Json, name: str = ACCELERATOR) -> None:
        """Of a class, by the name that the class gives or by that of every class."""
        dice = self.dice
        if name == ACCELERATOR and dice.chance(0.3):
            name = BY_CLASS + dice.choice((*CLASSES, "nowhere"))
        amount = dice.choice(("0", "1", "1", "1", "2"))
        for kind in ("requests", "limits"):
            container.setdefault("resources", {}).setdefault(kind, {})[name] = amount

    def _held(self, entry: Json, pod: Json, node: str) -> list[Json]:
        """A claim of a Pod on a node: mostly with a device that the node reaches."""
        namespace = pod["metadata"]["namespace"]
        metadata = self._metadata(namespace)
        claim = self._add(metadata, {"devices": {"requests": [exactly("any")]}})
        if self.dice.chance(0.9):
            self._allocate(claim, node, [_user(pod)])
        if self.dice.has("heldClaimsWanted"):
            self._named[namespace].append(metadata["name"])
        entry["resourceClaimName"] = metadata["name"]
        return []

    def _wanted(self, entry: Json, pod: Json) -> list[Json]:
        """A claim of a Pod without a node; returns what its status says about it."""
        dice, namespace = self.dice, pod["metadata"]["namespace"]
        if dice.has("missingClaims"):
            entry[dice.choice(("resourceClaimName", "resourceClaimTemplateName"))] = "nowhere"
            return []
        if dice.chance(0.5):
            entry["resourceClaimTemplateName"] = dice.choice(self._templates[namespace])
            return self._made(entry["name"], pod) if dice.has("madeClaims") else []
        if self._named[namespace] and dice.chance(0.6):
            entry["resourceClaimName"] = dice.choice(self._named[namespace])
            return []
        metadata = self._metadata(namespace)
        if dice.has("deletedClaims"):
            metadata["deletionTimestamp"] = "2025-12-30T00:00:00Z"
            metadata["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        self._add(metadata, self._spec(namespace))
        entry["resourceClaimName"] = metadata["name"]
        return []

    def _made(self, name: str, pod: Json) -> list[Json]:
        """The claim that the controller has made, or has found not to be needed."""
        dice, about = self.dice, pod["metadata"]
        if dice.chance(0.15):
            return [{"name": name}]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
        if dice.chance(0.1):
            owner["uid"] = "somebody-else"
        metadata = self._metadata(about["namespace"])
        metadata["ownerReferences"] = [{**owner, "controller": True}]
        claim = self._add(metadata, self._spec(about["namespace"]))
        if dice.chance(0.2):
            self._allocate(claim, "", [_user(pod)] if dice.chance(0.5) else [])
        return [{"name": name, "resourceClaimName": metadata["name"]}]

    def _add_shared(self, namespace: str) -> str:
        dice, metadata = self.dice, self._metadata(namespace)
        allocated = dice.chance(0.5)
        spec = {"devices": {"requests": [exactly("any")]}} if allocated else self._spec(namespace)
        claim = self._add(metadata, spec)
        if allocated:
            users = FULL if dice.has("fullClaims") else dice.choice((0, 1, 2))
            self._allocate(claim, "", [_other_user(number) for number in range(users)])
        return str(metadata["name"])

    def _metadata(self, namespace: str) -> Json:
        self._count += 1
        return {
            "name": f"devices-{self._count:03}",
            "namespace": namespace,
            "uid": f"devices-{self._count:03}",
        }

    def _add(self, metadata: Json, spec: Json) -> Json:
        return self.world.add(API, "ResourceClaim", metadata=metadata, spec=spec)

    def _allocate(self, claim: Json, node: str, users: list[Json]) -> None:
        """Give the claim a device, of that node if there is one, which nobody else gets."""
        offers = self.devices.offers
        local = [offer for offer in offers if not node or offer.node in ("", node)]
        if not local:
            return
        offer = self.dice.choice(local)
        result = self._result(offer)
        if "shareID" not in result:
            # The same device may be offered twice, by slices of several generations.
            taken = (offer.driver, offer.pool, offer.device["name"])
            offers[:] = [o for o in offers if (o.driver, o.pool, o.device["name"]) != taken]
        allocation: Json = {"devices": {"results": [result]}}
        if offer.node:
            field = {"key": "metadata.name", "operator": "In", "values": [offer.node]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        claim["status"] = without_empty({"allocation": allocation, "reservedFor": users})
        if "bindingConditions" in result:
            self._report(claim["status"], result)

    def _result(self, offer: Offer) -> Json:
        dice, device = self.dice, offer.device
        result: Json = {
            "request": "r0",
            "driver": offer.driver,
            "pool": offer.pool,
            "device": device["name"],
        }
        for key in ("bindingConditions", "bindingFailureConditions"):
            if key in device:
                result[key] = device[key]
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-4000-8000-{dice.randrange(16**12):012x}"
            if device.get("capacity") and dice.chance(0.9):
                amounts = {"memory": "1Gi", "cores": "1"}
                result["consumedCapacity"] = {name: amounts[name] for name in device["capacity"]}
        return result

    def _report(self, status: Json, result: Json) -> None:
        """How far the binding of a device is: failed, too late, ready or on its way."""
        dice = self.dice
        late = dice.chance(0.3)
        status["allocation"]["allocationTimestamp"] = f"{2025 if late else 2199}-01-01T00:00:00Z"
        told = dice.choice(("example.com/ready", "example.com/failed", ""))
        if told:
            about = {key: result[key] for key in ("driver", "pool", "device")}
            if "shareID" in result:
                about["shareID"] = result["shareID"]
            condition = {
                "type": told,
                "status": dice.choice(("True", "True", "False")),
                "reason": "Told",
                "message": "",
                "lastTransitionTime": "2025-01-01T00:00:00Z",
            }
            status["devices"] = [{**about, "conditions": [condition]}]

    def _spec(self, namespace: str) -> Json:
        """What a claim asks for."""
        dice = self.dice
        requests = [
            self._request(f"r{i}", namespace in self._admins)
            for i in range(dice.choice((1, 1, 1, 2, 3)))
        ]
        names = [request["name"] for request in requests] + [
            f"{request['name']}/{sub['name']}"
            for request in requests
            for sub in request.get("firstAvailable", [])
        ]
        devices: Json = {"requests": requests}
        if dice.has("deviceConstraints"):
            devices["constraints"] = [self._constraint(names)]
        if dice.has("deviceConfig"):
            devices["config"] = [{**opaque(dice), **self._some(names)}]
        return {"devices": devices}

    def _preference(self) -> Json:
        """One device, rather of one class than of another: nodes fit that score differently."""
        classes = self.dice.some(("gpu", "nic"), 2)
        subs = [{"name": f"s{i}", "deviceClassName": name} for i, name in enumerate(classes)]
        return {"devices": {"requests": [{"name": "r0", "firstAvailable": subs}]}}

    def _constraint(self, names: list[str]) -> Json:
        kind = self.dice.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        return {kind: self.dice.choice(ATTRIBUTES), **self._some(names)}

    def _some(self, names: list[str]) -> Json:
        return {} if self.dice.chance(0.5) else {"requests": self.dice.some(names, 1, 2)}

    def _request(self, name: str, admin: bool) -> Json:
        dice = self.dice
        if dice.has("prioritizedLists"):
            count = dice.randint(1, 3)
            subs = [{"name": f"s{number}", **self._exact()} for number in range(count)]
            return {"name": name, "firstAvailable": subs}
        exact = self._exact()
        if admin and dice.has("adminAccess"):
            exact["adminAccess"] = True
        return {"name": name, "exactly": exact}

    def _exact(self) -> Json:
        dice = self.dice
        exact: Json = {"deviceClassName": dice.choice(CLASSES)}
        if dice.has("missingClasses") and dice.chance(0.2):
            exact["deviceClassName"] = "no-such-class"
        if dice.has("allDevices"):
            exact["allocationMode"] = "All"
        elif dice.chance(0.6):
            exact.update(allocationMode="ExactCount", count=dice.choice((1, 1, 1, 2, 2, 3)))
        if dice.has("deviceTolerations"):
            exact["tolerations"] = dice.some(TOLERATIONS, 1, 2)
        if dice.has("capacityRequests"):
            requests = {"memory": dice.choice(("1Gi", "1536Mi", "2048Mi", "0.5Gi", "500M", "3"))}
            if dice.chance(0.3):
                requests["cores"] = dice.choice(("1", "0.25", "1500m", "3"))
            exact["capacity"] = {"requests": requests}
        return without_empty({**exact, "selectors": self.devices.selectors()})


def exactly(class_name: str) -> Json:
    """A request for one device of a class."""
    return {"name": "r0", "exactly": {"deviceClassName": class_name}}


def _user(pod: Json) -> Json:
    about = pod["metadata"]
    return {"resource": "pods", "name": about["name"], "uid": about["uid"]}


def _other_user(number: int) -> Json:
    return {"resource": "pods", "name": f"other-{number}", "uid": f"other-{number}"}
