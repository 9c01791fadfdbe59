"""The wheel on the Python of another system: a Debian made by debootstrap."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from e2e.provider.choose import chosen
from e2e.provider.golang import ROOT
from e2e.provider.kubelet import KubeletControlPlane
from e2e.provider.kubelet.images import debian
from e2e.provider.kubelet.software import software_lock

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        chosen() is not KubeletControlPlane, reason="takes root and debootstrap: PROVIDER=kubelet"
    ),
]


@pytest.mark.parametrize(("suite", "python"), [("trixie", "3.13"), ("forky", "3.14")])
def test_it_works_in_a_clean_environment_of_debian(tmp_path: Path, suite: str, python: str) -> None:
    """As `make try-wheel` does on this machine."""
    root = tmp_path / "root"
    project = root / "project"
    with software_lock():
        base = debian(suite)
        with tarfile.open(base / "base.tar") as tar:
            tar.extractall(root, filter="fully_trusted")  # device files, too
    build = (sys.executable, "-m", "build", "--quiet", "--wheel", f"--outdir={project}/dist", ROOT)
    subprocess.run(build, check=True)
    (project / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "cluster.yaml", project / "docs")
    shutil.copy(ROOT / "e2e" / "try-wheel.sh", project)
    for name in ("resolv.conf", "hosts"):
        shutil.copy(Path("/etc") / name, root / "etc")
    steps = "cd /project && sh try-wheel.sh python3 /project/clean"
    certificates = "PIP_CERT=/etc/ssl/certs/ca-certificates.crt"  # for a mirror of PyPI
    clean = ("env", "--ignore-environment", "PATH=/usr/bin:/bin", certificates)
    command = ("chroot", root, *clean, "sh", "-c", steps)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Python {python}." in run.stdout
    assert "No broken requirements found." in run.stdout
