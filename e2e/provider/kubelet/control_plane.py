"""The provider `kubelet`: the control plane of local processes, and two nodes that run Pods."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from e2e.provider.control_plane import ADMIN_GROUP, PREFIX
from e2e.provider.kubeconfig import cert_kubeconfig
from e2e.provider.kubelet.box import cgroup_parents, remove_group
from e2e.provider.kubelet.images import IMAGE, previous, store
from e2e.provider.kubelet.network import API_SERVER, SERVICES, Network
from e2e.provider.kubelet.node import KUBELET_PORT, Node
from e2e.provider.kubelet.software import environment, missing, software_lock, unpacked
from e2e.provider.local import BuiltControlPlane
from e2e.provider.pki import KeyPair
from e2e.provider.process import Endpoint, StartError, stop_all
from e2e.provider.waiting import wait_until

NODES = 2


class KubeletControlPlane(BuiltControlPlane):
    """Control plane built from Go modules; nodes kubelet-a and kubelet-b run Pods.

    Attributes:
        nodes: the two of them, from `start` on.
    """

    provider: ClassVar[str] = "kubelet"
    image: ClassVar[str] = IMAGE

    def __init__(self, *api_server_flags: str) -> None:
        super().__init__(*api_server_flags)
        self.nodes: list[Node] = []
        self._network = Network(self.folder, NODES)
        addresses = (self._network.host, API_SERVER)
        self._serving = self.authority.issue("server", "bayplan-e2e", ADMIN_GROUP, *addresses)
        self.api_server_flags = (*self._flags(), *api_server_flags)

    @classmethod
    def prepare(cls) -> None:
        """Get all software and make the images, unless they are in the cache."""
        if lacks := missing():
            raise StartError(f"PROVIDER=kubelet needs {', and '.join(lacks)}")
        super().prepare()
        with software_lock():
            environment()
            store()

    def start(self) -> None:
        """Start etcd, kube-apiserver and two nodes, and wait until these are Ready."""
        self.prepare()
        super().start()
        _remove_unused_groups(self.folder.parent)
        self._network.start()
        self.nodes = [
            Node(n, self.folder, self._network, self.authority, self._kubeconfig)
            for n in range(NODES)
        ]
        with software_lock():  # until the nodes have their links to the store
            paths = store(), unpacked(), environment()
            for node in self.nodes:
                endpoint = Endpoint(f"https://{node.address}:{KUBELET_PORT}", self.context)
                self.parts[node.name] = node.part(*paths, endpoint)
            with ThreadPoolExecutor(NODES) as pool:
                list(pool.map(lambda node: self.parts[node.name].start(), self.nodes))
        api_server = self.parts["kube-apiserver"].endpoint
        for node in self.nodes:
            wait_until(partial(_ready, api_server, node.name), 60, f"{node.name} Ready")

    def stop(self) -> None:
        """End everything, and leave no bridge, no cgroup and no file behind."""
        stop_all(self.parts.values(), grace=0.5)
        for node in self.nodes:
            node.remove()
        self._network.stop()
        super().stop()

    def start_controller_manager(self, controllers: str = "*", *flags: str) -> None:
        """Run kube-controller-manager, with no folder of plugins outside of this run's."""
        plugins = f"--flex-volume-plugin-dir={self.folder / 'flex'}"
        super().start_controller_manager(controllers, plugins, *flags)

    def load_previous(self, revision: str) -> Path:
        """Give the nodes bayplan's image of a git revision; see `images.previous`."""
        with software_lock():
            folder = previous(revision)
        for node in self.nodes:
            node.load(folder / "image.tar")
        return folder

    def _flags(self) -> tuple[str, ...]:
        pair = self._serving
        return (
            # Nodes reach it at an address of their network, and Pods through the Service.
            "--bind-address=0.0.0.0",
            f"--advertise-address={self._network.host}",
            "--endpoint-reconciler-type=lease",
            f"--service-cluster-ip-range={SERVICES}",
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={pair.cert}",
            f"--kubelet-client-key={pair.key}",
            f"--kubelet-certificate-authority={self.authority.cert}",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def _kubeconfig(self, path: Path, pair: KeyPair) -> Path:
        """Write the kubeconfig of a part of a node."""
        server = self._server.replace("127.0.0.1", self._network.host)
        return cert_kubeconfig(path, server, self.authority.cert, pair)


def _ready(api_server: Endpoint, node: str) -> bool:
    with suppress(OSError):  # 404 until it has registered itself
        return b'"reason":"KubeletReady"' in api_server.get(f"/api/v1/nodes/{node}")
    return False


def _remove_unused_groups(runs: Path) -> None:
    """Remove the cgroups of runs that were killed: their folders in `runs` are gone."""
    for parent in cgroup_parents():
        for group in parent.glob(f"{PREFIX}*"):
            run = group.name[: len(PREFIX) + 8]
            processes = any(tasks.read_text() for tasks in group.rglob("cgroup.procs"))
            if not processes and not (runs / run).exists():
                remove_group(group)
