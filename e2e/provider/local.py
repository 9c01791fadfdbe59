"""Control planes that run as processes on this machine: from `KUBEBUILDER_ASSETS`, or built.

etcd and the components talk TLS under the run's own authority; RBAC is on; ServiceAccount tokens
are issued. Data lives in the folder of the run and is gone with it.
"""

from pathlib import Path
from typing import ClassVar

from e2e.provider.control_plane import ADMIN_GROUP, ControlPlane
from e2e.provider.kubeconfig import cert_kubeconfig
from e2e.provider.pki import Authority
from e2e.provider.process import Part, free_port
from e2e.provider.programs import assets, control_plane, program
from e2e.provider.waiting import wait_until

SERVICE_ACCOUNTS = "https://kubernetes.default.svc"
PROXY = "front-proxy-client"
"""As whom the API server asks aggregated APIs; kubeadm's name."""


class BuiltControlPlane(ControlPlane):
    """etcd and Kubernetes built from their Go modules."""

    provider: ClassVar[str] = "build"
    owns_parts: ClassVar[bool] = True

    @classmethod
    def prepare(cls) -> None:
        """Build the control plane, unless it is in the cache."""
        control_plane().binary()

    def start(self) -> None:
        """Start etcd, then kube-apiserver."""
        etcd = self._start_etcd()
        api_server = self._start_api_server(etcd.endpoint.url)
        self._server = api_server.endpoint.url
        admin = self.authority.issue("admin", "admin", ADMIN_GROUP)
        cert_kubeconfig(self.kubeconfig, self._server, self.authority.cert, admin)

    def start_controller_manager(self, controllers: str = "*", *flags: str) -> None:
        """Run kube-controller-manager, and wait until Pods can be made in the default namespace."""
        kubeconfig = self._user("kube-controller-manager")
        self._component(
            "kube-controller-manager",
            [
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                f"--controllers={controllers}",
                "--leader-elect=false",
                "--use-service-account-credentials",
                f"--service-account-private-key-file={self._token_key}",
                f"--root-ca-file={self.authority.cert}",
                # Its default of 20 a second makes it take minutes for 1,000 nodes.
                "--kube-api-qps=2000",
                "--kube-api-burst=4000",
                *flags,
            ],
            "/healthz",
        )
        self._wait_for_service_account()

    def _wait_for_service_account(self) -> None:
        api_server = self.parts["kube-apiserver"].endpoint
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: api_server.answers(path), 30, "ServiceAccount default/default")

    def _start_etcd(self) -> Part:
        port = free_port()
        pair = self._serving
        flags = [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=https://127.0.0.1:{port}",
            f"--advertise-client-urls=https://127.0.0.1:{port}",
            "--listen-peer-urls=https://127.0.0.1:0",
            "--client-cert-auth",
            f"--trusted-ca-file={self.authority.cert}",
            f"--cert-file={pair.cert}",
            f"--key-file={pair.key}",
            f"--peer-trusted-ca-file={self.authority.cert}",
            f"--peer-cert-file={pair.cert}",
            f"--peer-key-file={pair.key}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        return self._run("etcd", flags, port, "/health")

    def _start_api_server(self, etcd: str) -> Part:
        self.authority.new_key("service-accounts")
        pair = self._serving
        flags = [
            f"--etcd-servers={etcd}",
            f"--etcd-cafile={self.authority.cert}",
            f"--etcd-certfile={pair.cert}",
            f"--etcd-keyfile={pair.key}",
            f"--client-ca-file={self.authority.cert}",
            "--authorization-mode=Node,RBAC",
            f"--service-account-issuer={SERVICE_ACCOUNTS}",
            f"--service-account-signing-key-file={self._token_key}",
            f"--service-account-key-file={self._token_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Nobody reaches the API server through the Service kubernetes, and its address is
            # the loopback, which the reconciler refuses.
            "--endpoint-reconciler-type=none",
            *self._aggregation(),
            *self.api_server_flags,
        ]
        return self._component("kube-apiserver", flags, "/readyz")

    def _aggregation(self) -> list[str]:
        """Flags with which it serves APIs of others, known to these by an authority of its own."""
        front = Authority(self.folder / "front-proxy")
        pair = front.issue("front-proxy-client", PROXY)
        return [
            f"--requestheader-client-ca-file={front.cert}",
            f"--requestheader-allowed-names={PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pair.cert}",
            f"--proxy-client-key-file={pair.key}",
        ]

    @property
    def _token_key(self) -> Path:
        return self.folder / "pki" / "service-accounts.key"

    def _user(self, name: str, group: str = "") -> Path:
        """Write a kubeconfig for the component `name`, known as `system:<name>`, and return it."""
        pair = self.authority.issue(name, f"system:{name}", group)
        path = self.folder / f"{name}.kubeconfig"
        return cert_kubeconfig(path, self._server, self.authority.cert, pair)


class AssetsControlPlane(BuiltControlPlane):
    """The binaries of `KUBEBUILDER_ASSETS`; what is not among them (kwok, often more) is built."""

    provider: ClassVar[str] = "assets"

    def _program(self, name: str) -> Path:
        return program(name, assets())
