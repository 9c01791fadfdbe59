"""Devices: what drivers offer on which nodes, and what takes some of it away.

In half of the clusters. Few devices a pool, since a search that fails takes exponential time in
their number. All of it is valid for the API server, which looks at every slice alone: a pool may
well be incomplete, or invalid as a whole.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import ACCELERATOR, ZONE

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

Json = dict[str, Any]

DRIVERS = ("gpu.example.com", "nic.example.com")
CLASSES = ("gpu", "nic", "any", "special")
OLD, NEW = "2025-01-01T00:00:00Z", "2025-06-01T00:00:00Z"
MODELS = ("a100", "h100", "t4")
EXPRESSIONS = (
    "true",
    "device.driver == 'gpu.example.com'",
    "device.attributes[device.driver].?model.orValue('') in ['a100', 'h100']",
    "'model' in device.attributes[device.driver] && device.attributes[device.driver].numa < 2",
    "'gpu.example.com' in device.attributes",
    "has(device.attributes[device.driver].healthy) && device.attributes[device.driver].healthy",
    "device.capacity[device.driver].?memory.orValue(quantity('0')).compareTo(quantity('4Gi')) >= 0",
    "device.allowMultipleAllocations",
    "device.attributes[device.driver].?driverVersion.orValue(semver('0.0.1'))"
    ".isGreaterThan(semver('1.3.0'))",
)
SHARED = {"cel": {"expression": "device.allowMultipleAllocations"}}
FAULTY = (
    "device.attributes['other.example.com'].model == 'a100'",
    "device.attributes[device.driver].model",
    "device.attributes[device.driver].numa / 0 == 1",
    "device.capacity[device.driver].memory.compareTo(quantity('4Gi')) >= 0",
)
"""Admitted, and in error for some devices or for all."""
TAINTS = (
    {"key": "broken", "effect": "NoSchedule"},
    {"key": "broken", "value": "yes", "effect": "NoExecute"},
    {"key": "old", "value": "no", "effect": "None"},
)


@dataclass(frozen=True)
class Offer:
    """A device that a claim may hold, and the only node that reaches it; "" for several."""

    driver: str
    pool: str
    device: Json
    node: str


class DeviceMaker:
    """Makes slices, classes and taint rules; `offers` are the devices that nobody holds yet."""

    def __init__(self, dice: Dice, world: World) -> None:
        self.dice = dice
        self.world = world
        self.present = random.Random(f"devices {dice.cluster_seed}").random() < 0.5
        self.offers: list[Offer] = []
        self._slices = 0

    def add_infrastructure(self) -> None:
        """Add everything that claims may ask for."""
        if not self.present:
            return
        self._add_classes()
        self._add_accelerators()
        share = self.dice.choice((0.2, 0.5, 0.9))
        for node in self.world.nodes:
            for driver in DRIVERS:
                if self.dice.chance(share):
                    self._add_pool(driver, node, node)
        for number in range(self.dice.randint(0, 3)):
            self._add_pool(self.dice.choice(DRIVERS), f"shared-{number}", "")
        for number in range(3):
            if self.dice.has("deviceTaintRules"):
                self._add_rule(number)

    def _add_accelerators(self) -> None:
        """Nodes that offer by themselves what elsewhere devices are for."""
        for item in self.world.items:
            if item["kind"] == "Node" and self.dice.has("accelerators"):
                offered = item["status"].get("allocatable") or item["status"]["capacity"]
                offered[ACCELERATOR] = self.dice.choice(("0", "1", "2"))

    def selectors(self) -> list[Json]:
        """None to two selectors; faulty ones where the cluster has such."""
        dice = self.dice
        expressions = dice.choices(EXPRESSIONS, k=dice.choice((0, 0, 0, 1, 1, 2)))
        if dice.density("faultySelectors") and dice.chance(0.03):
            expressions.append(dice.choice(FAULTY))
        return [{"cel": {"expression": text}} for text in expressions]

    def _add_classes(self) -> None:
        """Of several classes for one resource the newest counts, then the first by name.

        That one comes last: kube-scheduler forgets the own resource of a class that comes after it.
        """
        dates = {name: self.dice.choice((OLD, NEW)) for name in CLASSES if self.dice.chance(0.3)}
        names = sorted(CLASSES, reverse=True)
        for name in sorted(names, key=lambda name: dates.get(name, "")):
            self._add_class(name, dates.get(name))

    def _add_class(self, name: str, backing_since: str | None) -> None:
        spec: Json = {}
        if name in ("gpu", "nic"):
            spec["selectors"] = [{"cel": {"expression": f"device.driver == '{name}.example.com'"}}]
        elif name == "special":
            spec["selectors"] = self.selectors()
        metadata = {"name": name}
        if self.dice.has("deviceConfig"):
            spec["config"] = [opaque(self.dice)]
        if backing_since:
            # For its score, kube-scheduler takes no device for one that several may share.
            spec["selectors"] = [s for s in spec.get("selectors", ()) if s != SHARED]
            spec["extendedResourceName"] = ACCELERATOR
            metadata["creationTimestamp"] = backing_since
        spec = without_empty(spec)
        self.world.add("resource.k8s.io/v1", "DeviceClass", metadata=metadata, spec=spec)

    def _add_rule(self, number: int) -> None:
        dice = self.dice
        driver, node = dice.choice(DRIVERS), dice.choice(self.world.nodes)
        selector = dice.choice(
            (
                {"driver": driver},
                {"driver": driver, "pool": node},
                {"pool": node},
                {"driver": driver, "pool": node, "device": "dev-0-0"},
                {"device": "dev-0-1"},
                None,
            )
        )
        spec = without_empty({"deviceSelector": selector, "taint": dice.choice(TAINTS)})
        metadata = {"name": f"rule-{number}"}
        self.world.add("resource.k8s.io/v1", "DeviceTaintRule", metadata=metadata, spec=spec)

    def _add_pool(self, driver: str, pool: str, node: str) -> None:
        """A pool of one or two slices, on ``node`` or where several nodes reach it."""
        dice = self.dice
        specs = [self._devices(driver, part) for part in range(dice.choice((1, 1, 1, 2)))]
        for spec in specs:
            self._place(spec, node)
        if dice.has("deviceCounters") and (not node or dice.chance(0.2)):
            specs.append(self._counters(specs, node))
        for spec in specs:
            spec["driver"] = driver
            about = {"name": pool, "generation": 2, "resourceSliceCount": len(specs)}
            spec["pool"] = about
        if dice.has("brokenPools"):
            specs = self._break(specs)
        for spec in specs:
            self._slices += 1
            metadata = {"name": f"slice-{self._slices:04}"}
            self.world.add("resource.k8s.io/v1", "ResourceSlice", metadata=metadata, spec=spec)
            for device in spec.get("devices", []):
                self.offers.append(Offer(driver, pool, device, node))

    def _break(self, specs: list[Json]) -> list[Json]:
        """Another generation, a missing slice, a device twice, or counters that do not exist."""
        dice = self.dice
        one = dice.choice(specs)
        match dice.randint(0, 3):
            case 0:
                one["pool"]["generation"] = dice.choice((1, 3))
            case 1:
                return [spec for spec in specs if spec is not one] if len(specs) > 1 else []
            case 2 if one.get("devices"):
                for spec in specs:
                    spec["pool"]["resourceSliceCount"] += 1
                return [*specs, {**one, "pool": {**one["pool"]}}]
            case _ if one.get("devices"):
                draw = {"counterSet": "nowhere", "counters": {"memory": {"value": "1"}}}
                one["devices"][0]["consumesCounters"] = [draw]
        return specs

    def _place(self, spec: Json, node: str) -> None:
        if node:
            spec["nodeName"] = node
        elif spec.get("devices") and self.dice.has("perDeviceNodes"):
            spec["perDeviceNodeSelection"] = True
            for device in spec["devices"]:
                device.update(self._reach(single=True))
        else:
            spec.update(self._reach(single=False))

    def _reach(self, *, single: bool) -> Json:
        dice = self.dice
        if single and dice.chance(0.3):
            return {"nodeName": dice.choice(self.world.nodes)}
        if dice.chance(0.4):
            return {"allNodes": True}
        expression = {"key": ZONE, "operator": "In", "values": dice.some(self.world.zones, 1, 2)}
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}

    def _devices(self, driver: str, part: int) -> Json:
        number = self.dice.randint(1, 4)
        return {"devices": [self._device(f"dev-{part}-{i}", driver) for i in range(number)]}

    def _device(self, name: str, driver: str) -> Json:
        dice = self.dice
        device: Json = {
            "name": name,
            "attributes": self._attributes(driver),
            "allowMultipleAllocations": dice.has("sharedDevices") or None,
        }
        if dice.chance(0.4):
            device["capacity"] = self._capacity(shared=bool(device["allowMultipleAllocations"]))
        if dice.has("deviceTaints"):
            device["taints"] = dice.some(TAINTS, 1, 2)
        if dice.has("bindingConditions"):
            device["bindingConditions"] = ["example.com/ready"]
            device["bindingFailureConditions"] = ["example.com/failed"]
            device["bindsToNode"] = dice.chance(0.5) or None
        return without_empty(device)

    def _attributes(self, driver: str) -> Json:
        dice = self.dice
        prefix = dice.choice(("", "", f"{driver}/"))
        attributes: Json = {
            f"{prefix}model": {"string": dice.choice(MODELS)},
            f"{prefix}numa": {"int": dice.randint(0, 2)},
            "healthy": {"bool": dice.chance(0.8)},
            "driverVersion": {"version": dice.choice(("1.2.3", "1.10.0"))},
            "shared.example.com/switch": {"int": dice.randint(0, 1)},
        }
        return {key: value for key, value in attributes.items() if not dice.has("bareDevices")}

    def _capacity(self, *, shared: bool) -> Json:
        dice = self.dice
        memory: Json = {"value": dice.choice(("10Gi", "4Gi", "2Gi"))}
        cores: Json = {"value": dice.choice(("4", "2500m"))}
        if shared and dice.has("requestPolicies"):
            memory["requestPolicy"] = dice.choice(
                (
                    {"default": "1Gi", "validValues": ["1Gi", "2Gi"]},
                    {"default": "1Gi", "validRange": {"min": "512Mi", "step": "512Mi"}},
                    {"default": "1Gi", "validRange": {"min": "1Gi", "max": "2Gi"}},
                )
            )
        if shared and dice.has("requestPolicies"):
            cores["requestPolicy"] = {"default": "500m", "validRange": {"min": "250m"}}
        return {"memory": memory, **({"cores": cores} if dice.chance(0.4) else {})}

    def _counters(self, specs: list[Json], node: str) -> Json:
        """A slice of counters that the devices of ``specs`` draw from."""
        dice = self.dice
        counters = {"memory": {"value": dice.choice(("4Gi", "8Gi"))}, "slots": {"value": "2"}}
        for spec in specs:
            for device in spec["devices"]:
                if dice.chance(0.8):
                    draw = {"memory": {"value": dice.choice(("1Gi", "2Gi", "5Gi"))}}
                    if dice.chance(0.5):
                        draw["slots"] = {"value": "1"}
                    device["consumesCounters"] = [{"counterSet": "set", "counters": draw}]
        slice_: Json = {"sharedCounters": [{"name": "set", "counters": counters}]}
        self._place(slice_, node)
        return slice_


def opaque(dice: Dice) -> Json:
    """Configuration for a driver."""
    parameters = {"kind": "Config", "n": dice.randint(0, 3)}
    return {"opaque": {"driver": dice.choice(DRIVERS), "parameters": parameters}}
