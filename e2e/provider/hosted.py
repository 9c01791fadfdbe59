"""Control planes that are not our processes: kind in Docker, and any cluster by kubeconfig."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from e2e.provider.control_plane import ControlPlane, UnsupportedError
from e2e.provider.golang import ROOT
from e2e.provider.process import StartError
from e2e.provider.waiting import step


def given_kubeconfig() -> Path | None:
    """Return the cluster that the user gives us: `BAYPLAN_KUBECONFIG`.

    Not `KUBECONFIG`: to have a cluster at hand is not yet to want nodes and Pods made in it.
    """
    path = os.environ.get("BAYPLAN_KUBECONFIG")
    return Path(path) if path else None


def kind_answers() -> bool:
    """Say whether kind is installed and Docker answers."""
    if not (shutil.which("kind") and shutil.which("docker")):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


class ExistingControlPlane(ControlPlane):
    """A cluster by kubeconfig: `BAYPLAN_KUBECONFIG`, or `KUBECONFIG` with PROVIDER=existing."""

    provider: ClassVar[str] = "existing"
    borrowed: ClassVar[bool] = True

    def start(self) -> None:
        """Take the user's kubeconfig; whether the cluster answers, its first user finds out."""
        _refuse(self.api_server_flags)
        path = given_kubeconfig() or Path(os.environ.get("KUBECONFIG") or "/nowhere")
        if not path.is_file():
            raise StartError(f"no kubeconfig: {path} (set BAYPLAN_KUBECONFIG)")
        self.kubeconfig = path


class KindControlPlane(ControlPlane):
    """kind in Docker, with the image of bayplan loaded. Unverified: it has not been run yet."""

    provider: ClassVar[str] = "kind"
    image: ClassVar[str] = "bayplan:e2e"
    cluster: ClassVar[str] = "bayplan-e2e"

    def start(self) -> None:
        """Create the cluster, build the image from the Dockerfile and load it into the nodes."""
        _refuse(self.api_server_flags)
        for name in ("kind", "docker"):
            if not shutil.which(name):
                raise StartError(f"PROVIDER=kind needs {name}, which is not installed")
        config = Path(__file__).with_name("kind.yaml")
        with step("creating the kind cluster"):
            _run("kind", "create", "cluster", "--name", self.cluster, "--config", str(config),
                 "--kubeconfig", str(self.kubeconfig), "--wait", "180s")  # fmt: skip
        with step("building and loading the image"):
            _run("docker", "build", "--tag", self.image, str(ROOT))
            _run("kind", "load", "docker-image", self.image, "--name", self.cluster)

    def stop(self) -> None:
        """Delete the cluster and end what was started beside it."""
        if shutil.which("kind"):
            _run("kind", "delete", "cluster", "--name", self.cluster)
        super().stop()


def _refuse(api_server_flags: tuple[str, ...]) -> None:
    if api_server_flags:
        raise UnsupportedError(f"flags for an API server that is not ours: {api_server_flags}")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StartError(f"{' '.join(command[:3])}: {error}") from error
