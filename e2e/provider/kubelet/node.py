"""One node: the files that configure its containerd, kubelet and kube-proxy, and its box."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.provider.kubelet.box import HERE, Box, only_child, run_logged
from e2e.provider.kubelet.images import PAUSE_IMAGE
from e2e.provider.kubelet.network import API_SERVER, Network
from e2e.provider.pki import Authority, KeyPair
from e2e.provider.process import Endpoint, Part

KUBELET_PORT = 10250

CONTAINERD_CONFIG = """\
version = 3
root = "{folder}/containerd"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true # without CAP_SYS_RESOURCE nobody may lower it
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{packages}/usr/lib/cni"]
conf_dir = "{folder}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{packages}/usr/sbin/runc"
"""


class Node:
    """A node that is not started yet.

    Args:
        number: 0 for the first.
        run: folder of the run; the node's own is below it.
        network: that has its addresses.
        authority: that signs its certificate.
        kubeconfig: writes a kubeconfig to a file, for the owner of a certificate.

    Attributes:
        name: of the Node.
        manifests: folder of its static Pods.
        kubeconfig: file with the credentials of its kubelet.
    """

    def __init__(
        self,
        number: int,
        run: Path,
        network: Network,
        authority: Authority,
        kubeconfig: Callable[[Path, KeyPair], Path],
    ) -> None:
        self.name = f"kubelet-{'abc'[number]}"
        self._number, self._network, self._authority = number, network, authority
        self.folder = run / self.name
        self.manifests = self.folder / "manifests"
        self.manifests.mkdir(parents=True)
        self.address = network.node(number)
        self._box = Box(f"{run.name}-{self.name}", self.folder / "box")
        user = f"system:node:{self.name}"
        self._pair = authority.issue(self.name, user, "system:nodes", self.address)
        self.kubeconfig = kubeconfig(self.folder / "kubeconfig", self._pair)
        proxy = authority.issue(f"{self.name}-proxy", "system:kube-proxy")
        kubeconfig(self.folder / "kube-proxy.kubeconfig", proxy)

    def part(
        self, store: Path, packages: Path, environment: Mapping[str, str], endpoint: Endpoint
    ) -> Part:
        """Write its files, and return the process that is the node; `endpoint` is its kubelet's.

        Args:
            store: containerd's folder with the images.
            packages: folder with the unpacked Debian packages.
            environment: finds all programs.
            endpoint: of its kubelet.
        """
        files = {
            "containerd.toml": CONTAINERD_CONFIG.format(
                folder=self.folder, pause=PAUSE_IMAGE, packages=packages
            ),
            "cni/10-bridge.conflist": json.dumps(self._cni()),
            "kubelet.json": json.dumps(self._kubelet()),
            "kube-proxy.json": json.dumps(self._proxy()),
            "resolv.conf": "options ndots:1\n",
        }
        for name, text in files.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)
        network = self._network
        veth = f"{network.bridge}-{self._number}"
        arguments = (store, self.folder, self.name, f"{self.address}/26", network.bridge, veth)
        boxed = self._box.argv(
            HERE / "node.sh", *arguments, *network.routes(self._number), net=True
        )
        self._env = ["env", *(f"{name}={value}" for name, value in environment.items())]
        argv = [*self._env, *boxed]
        self._part = Part(self.name, argv, self.folder / "kubelet.log", endpoint, "/healthz")
        return self._part

    def enter(self, *program: str | Path) -> list[str]:
        """Return the command that runs `program` in the box, once that is started.

        It sees the files, the network and the processes of the node, and ends with it.
        """
        first = only_child(self._part.pid)  # process 1 of the box; what started it is outside
        return [*self._env, "nsenter", f"--target={first}", "--all", *map(str, program)]

    def load(self, archive: Path) -> None:
        """Give the node the images of an archive, as `docker save` writes them.

        Raises:
            StartError: containerd does not take them.
        """
        load = ("ctr", "--namespace=k8s.io", "images", "import", archive)
        run_logged(self.enter(*load), self.folder / "load.log", {})

    def remove(self) -> None:
        """Wait for the end of all that it holds, and remove its cgroups."""
        self._box.remove()

    def _cni(self) -> dict[str, object]:
        ranges = [[{"subnet": self._network.pods(self._number)}]]
        ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge | {"ipam": ipam}]}

    def _kubelet(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "address": self.address,
            "port": KUBELET_PORT,
            "healthzBindAddress": "127.0.0.1",
            "tlsCertFile": str(self._pair.cert),
            "tlsPrivateKeyFile": str(self._pair.key),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._authority.cert)},
            },
            "authorization": {"mode": "Webhook"},
            "podLogsDir": str(self.folder / "pods"),
            "staticPodPath": str(self.manifests),
            "resolvConf": str(self.folder / "resolv.conf"),
            # Nobody answers there; without it each Pod gets a warning.
            "clusterDNS": [f"{API_SERVER}0"],
            "clusterDomain": "cluster.local",
            "maxPods": 50,
            # The machine's disk and memory are not ours alone: nothing is evicted because of them.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {
                "memory.available": "1Mi",
                "nodefs.available": "0%",
                "imagefs.available": "0%",
                "nodefs.inodesFree": "0%",
            },
        }

    def _proxy(self) -> dict[str, object]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "hostnameOverride": self.name,
            "clientConnection": {"kubeconfig": str(self.folder / "kube-proxy.kubeconfig")},
            "conntrack": {"maxPerCore": 0},
        }
