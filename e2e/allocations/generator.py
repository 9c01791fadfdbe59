"""Random problems: a few pools in every state that they can be in, and claims of every kind.

Small numbers on purpose: with many devices most claims fit, and a search that fails takes long. A
problem is JSON as `allocjudge` reads it. Slices come in the order of their names, because the
order in which kube-scheduler's cache lists them is random.
"""

from __future__ import annotations

import random
from typing import Any

Problem = dict[str, Any]

DRIVERS = ("gpu.example.com", "nic.example.com")
MODELS = ("a100", "h100", "t4")
EXPRESSIONS = (
    "true",
    "device.driver == 'gpu.example.com'",
    "device.attributes[device.driver].model == 'a100'",
    "device.attributes[device.driver].numa < 2",
    "device.attributes[device.driver].healthy",
    "'model' in device.attributes['gpu.example.com']",
    "device.allowMultipleAllocations",
    "device.attributes['other.example.com'].model == 'a100'",
    "device.attributes[device.driver].?model.orValue('') in ['a100', 'h100']",
    "device.capacity[device.driver].memory.compareTo(quantity('4Gi')) >= 0",
    "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.3.0'))",
    "device.attributes['gpu.example.com'].exists(name, name.startsWith('h'))",
    "device.attributes['gpu.example.com'].model",
)
WEIGHTS = (6, 4, 3, 3, 3, 3, 1, 0.2, 3, 0.5, 0.4, 0.4, 0.1)
TAINTS = (
    {"key": "broken", "effect": "NoSchedule"},
    {"key": "broken", "value": "yes", "effect": "NoExecute"},
    {"key": "old", "value": "no", "effect": "None"},
)
TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "broken", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "broken", "operator": "Equal", "value": "yes"},
    {"key": "broken", "operator": "Exists", "tolerationSeconds": 30},
)
AMOUNTS = ("1Gi", "2Gi", "2048Mi", "1024Mi", "1536Mi", "500M", "10Gi", "3", "0.5Gi")
CORES = ("1", "500m", "1500m", "2", "0.25", "2.000", "1e0")


def generate(seed: int) -> Problem:
    """The problem of a seed."""
    return _Generator(random.Random(seed)).problem()


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        # Features are drawn once a problem, so that many problems have only a few of them.
        self._features = {
            name: rng.random() < share
            for name, share in {
                "attributes": 0.85,
                "gaps": 0.25,
                "capacity": 0.4,
                "shares": 0.35,
                "counters": 0.35,
                "taints": 0.3,
                "conditions": 0.2,
                "per device": 0.25,
                "broken pools": 0.2,
                "constraints": 0.4,
                "lists": 0.35,
                "admin": 0.2,
                "config": 0.4,
                "faults": 0.08,
                "many": 0.05,
                "limits": 0.06,
            }.items()
        }

    def problem(self) -> Problem:
        rng = self._rng
        nodes = [_node(i) for i in range(rng.randint(1, 3))]
        slices = self._slices([n["metadata"]["name"] for n in nodes])
        return {
            "nodes": nodes,
            "classes": self._classes(),
            "slices": sorted(slices, key=lambda s: str(s["metadata"]["name"])),
            "allocated": self._allocated(slices),
            "claims": [self._claim(i) for i in range(rng.choice((1, 1, 1, 2, 3)))],
        }

    def _has(self, feature: str, share: float = 1.0) -> bool:
        return self._features[feature] and self._rng.random() < share

    def _classes(self) -> list[dict[str, Any]]:
        classes = []
        for name in ("any", "gpu", "special"):
            spec: dict[str, Any] = {}
            if name == "gpu":
                spec["selectors"] = [_selector("device.driver == 'gpu.example.com'")]
            if name == "special":
                spec["selectors"] = self._selectors()
            if self._has("config"):
                spec["config"] = [self._opaque() for _ in range(self._rng.randint(1, 2))]
            classes.append({"metadata": {"name": name, "uid": name}, "spec": spec})
        return classes

    def _opaque(self) -> dict[str, Any]:
        driver = self._rng.choice(DRIVERS)
        parameters = {"kind": "Config", "n": self._rng.randint(0, 3)}
        return {"opaque": {"driver": driver, "parameters": parameters}}

    def _selectors(self) -> list[dict[str, Any]]:
        number = self._rng.choice((0, 0, 0, 1, 1, 2))
        return [_selector(e) for e in self._rng.choices(EXPRESSIONS, WEIGHTS, k=number)]

    def _slices(self, nodes: list[str]) -> list[dict[str, Any]]:
        slices: list[dict[str, Any]] = []
        for driver in DRIVERS[: self._rng.choice((1, 1, 2))]:
            for pool in self._rng.sample(
                ("pool-a", "pool-b", *nodes), self._rng.choice((1, 1, 2, 3))
            ):
                slices += self._pool(driver, pool, nodes)
        self._rng.shuffle(slices)
        for number, one in enumerate(slices):
            one["metadata"] = {"name": f"slice-{number:02}", "uid": f"slice-{number}"}
        return slices

    def _pool(self, driver: str, pool: str, nodes: list[str]) -> list[dict[str, Any]]:
        rng = self._rng
        generation = rng.randint(1, 2)
        slices = [self._slice(driver, nodes, part) for part in range(rng.choice((1, 1, 2)))]
        if self._has("counters"):
            slices.append(self._counter_slice(driver, nodes))
            self._draw_counters(slices)
        count = len(slices)
        for one in slices:
            one["spec"]["pool"] = {"name": pool, "generation": generation}
            one["spec"]["pool"]["resourceSliceCount"] = count
        if self._has("broken pools", 0.6):
            self._break(slices)
        return slices

    def _break(self, slices: list[dict[str, Any]]) -> None:
        rng = self._rng
        one = rng.choice(slices)
        match rng.randint(0, 4):
            case 0:
                one["spec"]["pool"]["resourceSliceCount"] += 1
            case 1:
                one["spec"]["pool"]["generation"] += rng.choice((-1, 1))
            case 2 if one["spec"].get("devices"):
                one["spec"]["devices"].append(dict(one["spec"]["devices"][0]))
            case 3 if one["spec"].get("devices"):
                draw = {"counterSet": "nowhere", "counters": {"memory": {"value": "1"}}}
                one["spec"]["devices"][0]["consumesCounters"] = [draw]
            case _:
                slices.remove(one)

    def _slice(self, driver: str, nodes: list[str], part: int) -> dict[str, Any]:
        rng = self._rng
        number = rng.randint(2, 40 if self._has("many") else 5)
        if self._has("limits"):
            number = 40
        devices = [self._device(f"dev-{part}-{i}", driver) for i in range(number)]
        spec: dict[str, Any] = {"driver": driver, "devices": devices}
        if self._has("per device"):
            spec["perDeviceNodeSelection"] = True
            for device in devices:
                device.update(self._place(nodes))
        else:
            spec.update(self._place(nodes))
        return {"spec": spec}

    def _place(self, nodes: list[str]) -> dict[str, Any]:
        rng = self._rng
        match rng.randint(0, 5):
            case 0 | 1 | 2:
                return {"nodeName": rng.choice((nodes[0], *nodes))}
            case 3:
                return {"allNodes": True}
        values = rng.sample(("a", "b"), rng.randint(1, 2))
        expressions = [{"key": "zone", "operator": "In", "values": values}]
        if rng.random() < 0.3:
            expressions.append({"key": "special", "operator": "DoesNotExist"})
        term: dict[str, Any] = {"matchExpressions": expressions}
        if rng.random() < 0.2:
            field = {"key": "metadata.name", "operator": "In", "values": [rng.choice(nodes)]}
            term["matchFields"] = [field]
        return {"nodeSelector": {"nodeSelectorTerms": [term]}}

    def _device(self, name: str, driver: str) -> dict[str, Any]:
        rng = self._rng
        device: dict[str, Any] = {"name": name}
        if self._has("attributes") and not self._has("gaps", 0.1):
            device["attributes"] = self._attributes(driver)
        if self._has("capacity", 0.8):
            device["capacity"] = self._capacity()
        if self._has("shares", 0.6):
            device["allowMultipleAllocations"] = rng.random() < 0.8
        if self._has("taints", 0.4):
            device["taints"] = rng.sample(TAINTS, rng.randint(1, 2))
        if self._has("conditions", 0.2):
            device["bindingConditions"] = ["ready"]
            device["bindingFailureConditions"] = ["failed"]
            if rng.random() < 0.5:
                device["bindsToNode"] = True
        return device

    def _attributes(self, driver: str) -> dict[str, Any]:
        rng = self._rng
        prefix = rng.choice(("", "", f"{driver}/", "gpu.example.com/"))
        attributes: dict[str, Any] = {}
        if not self._has("gaps", 0.2):
            attributes[f"{prefix}model"] = {"string": rng.choice(MODELS)}
        if not self._has("gaps", 0.2):
            attributes[f"{prefix}numa"] = {"int": rng.randint(0, 2)}
        if not self._has("gaps", 0.4):
            attributes["healthy"] = {"bool": rng.random() < 0.8}
        if rng.random() < 0.3:
            version = rng.choice(("1.2.3", "1.10.0"))
            attributes["driverVersion"] = {"version": version}
        if self._has("faults", 0.3):
            attributes["driverVersion"] = rng.choice(({"version": "one"}, {"strings": ["one"]}))
        return attributes

    def _capacity(self) -> dict[str, Any]:
        rng = self._rng
        capacity: dict[str, Any] = {"memory": {"value": rng.choice(("10Gi", "4Gi", "2Gi"))}}
        if rng.random() < 0.4:
            capacity["cores"] = {"value": rng.choice(("4", "2", "2500m"))}
        for name, one in capacity.items():
            if rng.random() < 0.5:
                one["requestPolicy"] = self._policy(name)
        return capacity

    def _policy(self, name: str) -> dict[str, Any]:
        rng = self._rng
        memory = name == "memory"
        policy: dict[str, Any] = {}
        if rng.random() < 0.8:
            policy["default"] = rng.choice(("1Gi", "2Gi", "1024Mi") if memory else ("1", "500m"))
        if rng.random() < 0.5:
            valid = ("1Gi", "2Gi", "4Gi") if memory else ("250m", "1", "2")
            policy["validValues"] = list(valid[: rng.randint(1, 3)])
            return policy
        span = {"min": rng.choice(("1Gi", "512Mi") if memory else ("500m", "0.25", "1"))}
        if rng.random() < 0.6:
            span["max"] = rng.choice(("4Gi", "2Gi", "1Gi") if memory else ("2", "3500m"))
        if rng.random() < 0.7:
            span["step"] = rng.choice(("1Gi", "256Mi", "100M") if memory else ("1", "250m", "0.5"))
        policy["validRange"] = span
        return policy

    def _counter_slice(self, driver: str, nodes: list[str]) -> dict[str, Any]:
        sets = [
            {
                "name": f"set-{i}",
                "counters": {
                    "memory": {"value": self._rng.choice(("4Gi", "8Gi"))},
                    "slots": {"value": self._rng.choice(("2", "4"))},
                },
            }
            for i in range(self._rng.randint(1, 2))
        ]
        spec: dict[str, Any] = {"driver": driver, "sharedCounters": sets, **self._place(nodes)}
        return {"spec": spec}

    def _draw_counters(self, slices: list[dict[str, Any]]) -> None:
        rng = self._rng
        sets = [s["name"] for one in slices for s in one["spec"].get("sharedCounters", [])]
        for one in slices:
            for device in one["spec"].get("devices", []):
                if rng.random() < 0.7:
                    device["consumesCounters"] = [
                        {
                            "counterSet": name,
                            "counters": {
                                "memory": {"value": rng.choice(("1Gi", "2Gi", "4Gi", "5Gi"))},
                                **({"slots": {"value": "1"}} if rng.random() < 0.5 else {}),
                            },
                        }
                        for name in rng.sample(sets, rng.choice((1, 1, len(sets))))
                    ]

    def _allocated(self, slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rng = self._rng
        share = rng.choice((0, 0, 0.2, 0.5))
        allocated = []
        for one in slices:
            spec = one["spec"]
            for device in spec.get("devices", []):
                if rng.random() >= share:
                    continue
                result = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"]}
                result["device"] = device["name"]
                shared = device.get("allowMultipleAllocations")
                for number in range(rng.randint(1, 2) if shared else 1):
                    held = self._held(device, number, shared=bool(shared))
                    allocated.append({**result, **held})
        return allocated

    def _held(self, device: dict[str, Any], number: int, *, shared: bool) -> dict[str, Any]:
        rng = self._rng
        if rng.random() < 0.1:
            return {"adminAccess": True}
        if shared == (rng.random() < 0.05):
            return {}
        held: dict[str, Any] = {"shareID": f"share-{number}"}
        if device.get("capacity") and rng.random() < 0.9:
            held["consumedCapacity"] = {
                name: rng.choice(("1Gi", "1")) for name in device["capacity"]
            }
        return held

    def _claim(self, number: int) -> dict[str, Any]:
        rng = self._rng
        requests = [self._request(f"r{i}") for i in range(rng.choice((1, 1, 2, 3)))]
        devices: dict[str, Any] = {"requests": requests}
        names = [r["name"] for r in requests] + [
            f"{r['name']}/{s['name']}" for r in requests for s in r.get("firstAvailable", [])
        ]
        if self._has("constraints"):
            devices["constraints"] = [self._constraint(names) for _ in range(rng.choice((1, 1, 2)))]
        if self._has("config"):
            devices["config"] = [
                {**self._opaque(), **self._some(names)} for _ in range(rng.randint(1, 3))
            ]
        metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"claim-{number}"}
        return {"metadata": metadata, "spec": {"devices": devices}}

    def _some(self, names: list[str]) -> dict[str, Any]:
        if self._rng.random() < 0.4:
            return {}
        return {"requests": self._rng.sample(names, self._rng.randint(1, min(3, len(names))))}

    def _constraint(self, names: list[str]) -> dict[str, Any]:
        rng = self._rng
        if self._has("faults", 0.1):
            return {}
        kind = rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        attribute = rng.choice(("model", "numa", "numa", "driverVersion", "healthy"))
        return {kind: f"{rng.choice(DRIVERS)}/{attribute}", **self._some(names)}

    def _request(self, name: str) -> dict[str, Any]:
        rng = self._rng
        if self._has("lists", 0.6) or self._has("limits", 0.7):
            alternatives = [{"name": f"s{i}", **self._exactly()} for i in range(rng.randint(1, 3))]
            return {"name": name, "firstAvailable": alternatives}
        exactly = self._exactly()
        if self._has("admin", 0.5):
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _exactly(self) -> dict[str, Any]:
        rng = self._rng
        classes = ("any", "gpu", "special")
        name = "missing" if self._has("faults", 0.1) else rng.choice(classes)
        exactly: dict[str, Any] = {"deviceClassName": name}
        if rng.random() < 0.1:
            exactly["allocationMode"] = "All"
        else:
            counts: tuple[int, ...] = (1, 1, 1, 1, 1, 2, 2, 3)
            if self._has("many", 0.5) or self._has("limits"):
                counts = (1, 5, 12, 20, 30, 32, 33)
            exactly.update({"allocationMode": "ExactCount", "count": rng.choice(counts)})
        if selectors := self._selectors():
            exactly["selectors"] = selectors
        if self._has("taints", 0.5):
            exactly["tolerations"] = rng.sample(TOLERATIONS, rng.randint(1, 2))
        if self._has("capacity", 0.5):
            requests = {"memory": rng.choice(AMOUNTS)}
            if rng.random() < 0.3:
                requests["cores"] = rng.choice(CORES)
            if self._has("faults", 0.3):
                requests = {"memory": rng.choice(("10E", "-1Gi", "1n", "9223372036854775807"))}
            exactly["capacity"] = {"requests": requests}
        return exactly


def _node(number: int) -> dict[str, Any]:
    labels = {"zone": "ab"[number % 2]}
    if number == 2:
        labels["special"] = "yes"
    return {"metadata": {"name": f"node-{number}", "labels": labels}}


def _selector(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}
