"""The network of one cluster: a bridge on this machine, and one /24 for all that is on it.

The machine is .1, the nodes are .10 and the following, and each node has 62 addresses for Pods.
"""

import json
import random
import subprocess
from pathlib import Path

from e2e.provider.process import StartError

RANGE = "10.213"
SERVICES = "10.96.0.0/16"
API_SERVER = "10.96.0.1"
"""The address of the Service kubernetes."""


class Network:
    """A network that is not there yet; its addresses are.

    Args:
        folder: of the run: gives the bridge its name, and tells later runs whether it is in use.
        nodes: how many, 3 at most.

    Attributes:
        bridge: name of the interface.
        host: address of this machine.
    """

    def __init__(self, folder: Path, nodes: int) -> None:
        self._nodes = range(nodes)
        self._folder = folder
        self.bridge = f"bp-{folder.name[-8:]}"
        in_use = _ip("-o", "address") + _ip("-o", "route")
        octets = [n for n in range(256) if f"{RANGE}.{n}." not in in_use]
        if not octets:
            raise StartError(f"no free network: all of {RANGE}.0.0/16 is in use")
        self._base = f"{RANGE}.{random.choice(octets)}"
        self.host = f"{self._base}.1"

    def node(self, number: int) -> str:
        """Return the address of a node: 0, 1 or 2."""
        return f"{self._base}.{10 + number}"

    def pods(self, number: int) -> str:
        """Return the range of the Pods of a node."""
        return f"{self._base}.{64 * (number + 1)}/26"

    def routes(self, number: int) -> list[str]:
        """Return what a node needs to reach the Pods of the others: range, address, range, ..."""
        others = [node for node in self._nodes if node != number]
        return [part for node in others for part in (self.pods(node), self.node(node))]

    def start(self) -> None:
        """Make the bridge, with routes to the Pods of all nodes."""
        remove_unused()
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("link", "set", self.bridge, "alias", str(self._folder))
        _ip("address", "add", f"{self.host}/26", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for number in self._nodes:
            _ip("route", "add", self.pods(number), "via", self.node(number))

    def stop(self) -> None:
        """Remove the bridge, if it is there, and so the routes."""
        if self.bridge in _bridges():
            _ip("link", "delete", self.bridge)


def remove_unused() -> None:
    """Remove the bridges of runs that were killed: their folders are gone."""
    for bridge, folder in _bridges().items():
        if folder and not Path(folder).exists():
            _ip("link", "delete", bridge)


def _bridges() -> dict[str, str]:
    """Folder of the run by bridge, for ours."""
    links = json.loads(_ip("-json", "link", "show", "type", "bridge") or "[]")
    named = [link for link in links if link.get("ifname", "").startswith("bp-")]
    return {link["ifname"]: link.get("ifalias", "") for link in named}


def _ip(*arguments: str) -> str:
    run = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        raise StartError(f"ip {' '.join(arguments)}: {run.stderr.strip()}")
    return run.stdout
