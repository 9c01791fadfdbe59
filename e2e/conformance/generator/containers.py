"""Containers: requests and limits of every kind, init and sidecars, ports, resize statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import FPGA, GPU, IMAGES

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice

CPU_STEPS = (50, 100, 250, 500, 1000, 1500, 2000, 4000)
MEMORY_STEPS = (64, 100, 256, 512, 1024, 2048, 6144)
HOST_IPS = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::1")


class ContainerMaker:
    """Makes the containers of one Pod and sums up what they ask for, for the Pod's resources."""

    def __init__(self, dice: Dice, host_network: bool) -> None:
        self.dice = dice
        self.host_network = host_network
        self.milli = 0
        self.mebibytes = 0
        self.plain_ports = 0
        self.ports: set[tuple[str, int, str]] = set()

    def regular(self) -> list[dict[str, Any]]:
        """One to three containers."""
        count = self.dice.randint(2, 3) if self.dice.has("severalContainers") else 1
        return [self._container(f"main-{number}") for number in range(count)]

    def init(self) -> list[dict[str, Any]]:
        """Init containers, some of them sidecars, in any order."""
        made: list[dict[str, Any]] = []
        while len(made) < 3 and self.dice.has("initContainers"):
            container = self._container(f"init-{len(made)}")
            if self.dice.has("sidecars"):
                container["restartPolicy"] = "Always"
            else:
                container.pop("ports", None)
            made.append(container)
        return made

    def pod_level(self) -> dict[str, Any]:
        """Resources of the Pod as a whole, never below what its containers ask for."""
        dice = self.dice
        if not dice.has("podLevelResources"):
            return {}
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        if dice.chance(0.8):
            milli = self.milli + dice.choice((0, 100, 1000))
            requests["cpu"] = f"{milli}m"
            limits["cpu"] = f"{2 * milli + 100}m"
        if dice.chance(0.6):
            mebibytes = self.mebibytes + dice.choice((0, 64, 512))
            requests["memory"] = f"{mebibytes}Mi"
            limits["memory"] = f"{2 * mebibytes + 64}Mi"
        shape = dice.choice(("requests", "limits", "both"))
        return without_empty(
            {
                "requests": requests if shape != "limits" else None,
                "limits": limits if shape != "requests" else None,
            }
        )

    def _container(self, name: str) -> dict[str, Any]:
        dice = self.dice
        return without_empty(
            {
                "name": name,
                "image": dice.choice(IMAGES),
                "resources": self._resources(),
                "ports": self._ports(),
            }
        )

    def _resources(self) -> dict[str, Any]:
        dice = self.dice
        if dice.has("noRequests"):
            return {}
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        big = 3 if dice.has("bigRequests") else 0
        if dice.chance(0.85):
            milli = dice.choice(CPU_STEPS[big : big + 5])
            self.milli += milli
            requests["cpu"] = dice.cpu(milli)
            if dice.has("limits"):
                limits["cpu"] = f"{milli}m"
                self.milli += milli
        if dice.chance(0.8):
            mebibytes = dice.choice(MEMORY_STEPS[big : big + 4])
            self.mebibytes += mebibytes + 6
            requests["memory"] = dice.size(mebibytes)
            if dice.has("limits"):
                limits["memory"] = f"{mebibytes + 6 + mebibytes // 10}Mi"
                self.mebibytes += mebibytes
        if dice.has("ephemeralStorage"):
            requests["ephemeral-storage"] = dice.size(dice.choice((100, 1024, 4096)))
        self._add_unovercommittable(requests, limits)
        if limits and dice.has("limitsOnly"):
            requests = {key: value for key, value in requests.items() if key not in limits}
        if dice.has("zeroRequests"):
            requests["cpu"] = "0"
        return without_empty({"requests": requests, "limits": limits})

    def _add_unovercommittable(self, requests: dict[str, str], limits: dict[str, str]) -> None:
        """Huge pages and extended resources: whole numbers, and the limit equals the request."""
        dice = self.dice
        amounts = {}
        if dice.has("hugepageRequests") and {"cpu", "memory"} & {*requests}:
            amounts[dice.choice(("hugepages-2Mi", "hugepages-1Gi"))] = dice.choice(("0", "2Gi"))
            amounts["hugepages-2Mi"] = dice.choice(("2Mi", "64Mi", "1Gi"))
        if dice.has("gpuRequests"):
            amounts[GPU] = str(dice.choice((0, 1, 1, 2)))
        if dice.has("extendedRequests"):
            amounts[FPGA] = "1"
        if dice.has("unknownResource"):
            amounts["example.com/unheard-of"] = dice.choice(("0", "1"))
        requests.update(amounts)
        limits.update(amounts)

    def _ports(self) -> list[dict[str, Any]]:
        dice = self.dice
        ports = []
        while dice.has("hostPorts"):
            host_port = dice.choice((80, 443, 8080))
            protocol = dice.choice(("", "TCP", "UDP", "SCTP"))
            ip = dice.choice(HOST_IPS)
            if (protocol or "TCP", host_port, ip) in self.ports:
                break
            self.ports.add((protocol or "TCP", host_port, ip))
            port = {"containerPort": host_port, "protocol": protocol, "hostIP": ip}
            if not self.host_network:
                port["hostPort"] = host_port
            ports.append(without_empty(port))
        if dice.chance(0.1):
            self.plain_ports += 1
            ports.append({"containerPort": 9000 + self.plain_ports})
        return ports


def resize_status(dice: Dice, spec: dict[str, Any]) -> dict[str, Any]:
    """The status of a running Pod whose containers are, or are to be, resized in place."""
    status: dict[str, Any] = {}
    for key, listed in (
        ("containerStatuses", spec["containers"]),
        ("initContainerStatuses", spec.get("initContainers", [])),
    ):
        states = [_container_status(dice, one["name"]) for one in listed if dice.chance(0.8)]
        if states:
            status[key] = states
    if dice.chance(0.5):
        status["conditions"] = [
            {
                "type": "PodResizePending",
                "status": "True",
                "reason": dice.choice(("Infeasible", "Deferred")),
            }
        ]
    if dice.chance(0.6 if "resources" in spec else 0.2):
        status["resources"] = {"requests": _amounts(dice)}
        status["allocatedResources"] = _amounts(dice)
    return status


def _container_status(dice: Dice, name: str) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": name,
        "image": "nginx",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    if dice.chance(0.8):
        status["allocatedResources"] = _amounts(dice)
    if dice.chance(0.8):
        status["resources"] = {"requests": _amounts(dice)}
    return status


def _amounts(dice: Dice) -> dict[str, str]:
    return {"cpu": f"{dice.choice(CPU_STEPS)}m", "memory": f"{dice.choice(MEMORY_STEPS)}Mi"}
