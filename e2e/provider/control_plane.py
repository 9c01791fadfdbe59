"""What tests, demo and benchmark may ask of a control plane, wherever it comes from.

`ControlPlane` holds what all providers share: a folder of its own for a run, an authority for it,
and the parts that are started beside any cluster (kwok, another kube-scheduler).
"""

import fcntl
import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Self

import yaml

from e2e.provider.pki import Authority
from e2e.provider.process import Endpoint, Part, client_context, free_port, stop_all
from e2e.provider.programs import STAGES, program
from e2e.provider.waiting import step

PREFIX = "bayplan-e2e-"
ADMIN_GROUP = "system:masters"
SERVICES = ("bayplan.kube-system.svc", "bayplan-api.kube-system.svc")
"""Names of deploy/'s Services, for which the certificate of this run is good, too."""


class UnsupportedError(Exception):
    """This provider cannot do that: its control plane belongs to somebody else."""


class ControlPlane(ABC):
    """A Kubernetes control plane; as a context manager it is started, and stopped at the end.

    Args:
        api_server_flags: more flags for kube-apiserver, where it is ours.

    Attributes:
        provider: the name that the variable PROVIDER has for it.
        owns_parts: its API server and etcd are in `parts`, to be killed and started again.
        borrowed: the cluster is somebody's who goes on to use it.
        image: the image of bayplan that its nodes can run, or "" where nodes run nothing.
        kubeconfig: file of a user who may do everything; there from `start()` on.
        parts: the processes that run, by name ("etcd", "kube-apiserver", "kwok", ...).
        folder: for the files of this run; gone after `stop()`.
        context: trusts this run's authority; an administrator to all who trust it, too.
    """

    provider: ClassVar[str]
    owns_parts: ClassVar[bool] = False
    borrowed: ClassVar[bool] = False
    image: ClassVar[str] = ""

    def __init__(self, *api_server_flags: str) -> None:
        self.api_server_flags = api_server_flags
        self.parts: dict[str, Part] = {}
        self.folder, self._lock = _new_folder()
        self.authority = Authority(self.folder / "pki")
        self._serving = self.authority.issue("server", "bayplan-e2e", ADMIN_GROUP, *SERVICES)
        self.context = client_context(self.authority, self._serving)
        self.kubeconfig = self.folder / "admin.kubeconfig"

    @abstractmethod
    def start(self) -> None:
        """Bring up the API server.

        Raises:
            StartError: it did not come up.
            UnsupportedError: flags for an API server of somebody else.
        """

    @classmethod  # noqa: B027
    def prepare(cls) -> None:
        """Get into the cache what `start` needs."""

    def stop(self) -> None:
        """End everything that was started, and remove this run's files."""
        stop_all(self.parts.values(), grace=0.5)  # nothing of them is kept
        self._lock.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_controller_manager(self, controllers: str = "*", *flags: str) -> None:  # noqa: B027
        """Run kube-controller-manager; a cluster that is not ours has its own, so nothing to do.

        Args:
            controllers: the value of its flag of that name, such as "*,-job".
            flags: more of its flags.
        """

    def start_kube_scheduler(self, config: Path | None = None, *flags: str) -> Part | None:
        """Run kube-scheduler; where a cluster has its own, only with `config`, as a further one.

        Args:
            config: a KubeSchedulerConfiguration; connection and leader election are set here.
            flags: more of its flags.

        Returns:
            The part, whose `endpoint.get("/metrics")` has its metrics; None when none was started.
        """
        if config is None and not self.owns_parts:
            return None
        kubeconfig = self._user("kube-scheduler")
        options = [f"--authentication-kubeconfig={kubeconfig}"]
        options += [f"--authorization-kubeconfig={kubeconfig}"]
        if config is None:
            options += [f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
        else:
            options += [f"--config={self._complete(config, kubeconfig)}"]
        return self._component("kube-scheduler", [*options, *flags], "/healthz")

    def start_kwok(self, node_lease_seconds: int = 40) -> Part:
        """Run kwok: nodes annotated `kwok.x-k8s.io/node: fake` become Ready, their Pods Running.

        Args:
            node_lease_seconds: how long a node's Lease lasts; it is renewed four times as often.
                Make it long for thousands of nodes: each renewal is a write to the API server.
        """
        port = free_port()
        return self._run(
            "kwok",
            [
                f"--config={STAGES}",
                f"--kubeconfig={self._user('kwok', ADMIN_GROUP)}",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                f"--node-lease-duration-seconds={node_lease_seconds}",
                f"--server-address=127.0.0.1:{port}",
                *self._pair_flags(),
            ],
            port,
            "/healthz",
        )

    def _user(self, name: str, group: str = "") -> Path:
        """Return a kubeconfig for a component; where we sign no certificates it is the admin's."""
        del name, group
        return self.kubeconfig

    def _component(self, name: str, flags: list[str], ready: str) -> Part:
        """Run a Kubernetes component on a secure port of its own."""
        port = free_port()
        listen = ["--bind-address=127.0.0.1", f"--secure-port={port}", *self._pair_flags()]
        return self._run(name, [*listen, *flags], port, ready)

    def serving_flags(self) -> list[str]:
        """Flags of a scheduler whose port shows our certificate, and trusts that of `Endpoint`."""
        return [*self._pair_flags(), f"--client-ca-file={self.authority.cert}"]

    def curl_options(self) -> list[str]:
        """With which curl is what `Endpoint` is."""
        pair = self._serving
        return [
            "--cacert",
            str(self.authority.cert),
            "--cert",
            str(pair.cert),
            "--key",
            str(pair.key),
        ]

    def _pair_flags(self) -> list[str]:
        pair = self._serving
        return [f"--tls-cert-file={pair.cert}", f"--tls-private-key-file={pair.key}"]

    def _run(self, name: str, flags: list[str], port: int, ready: str) -> Part:
        """Start a part, in place of one of the same name."""
        if name in self.parts:
            self.parts[name].stop()
        endpoint = Endpoint(f"https://127.0.0.1:{port}", self.context)
        argv = [str(self._program(name)), *flags]
        part = Part(name, argv, self.folder / f"{name}.log", endpoint, ready)
        self.parts[name] = part
        return part.start()

    def _program(self, name: str) -> Path:
        return program(name)

    def _complete(self, config: Path, kubeconfig: Path) -> Path:
        """Write a copy of a scheduler configuration that connects to this control plane."""
        document: dict[str, Any] = yaml.safe_load(config.read_text())
        document.setdefault("clientConnection", {})["kubeconfig"] = str(kubeconfig)
        document.setdefault("leaderElection", {})["leaderElect"] = False
        path = self.folder / "kube-scheduler.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def __enter__(self) -> Self:
        try:
            with step(f"starting a control plane ({self.provider})"):
                self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _new_folder() -> tuple[Path, IO[str]]:
    """Make a folder for this run, locked while we live; remove those of runs that were killed."""
    parent = Path(tempfile.gettempdir())
    for folder in parent.glob(f"{PREFIX}*"):
        _remove_if_left(folder)
    # Under another name until it is locked: somebody else may be removing folders just now.
    unlocked = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}"))
    lock = (unlocked / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return unlocked.rename(parent / unlocked.name.removeprefix("new-")), lock


def _remove_if_left(folder: Path) -> None:
    try:
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return  # in use, or somebody else's
