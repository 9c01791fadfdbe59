"""The manifest for krew, judged and installed by krew, and what is installed then."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from e2e.provider.golang import ROOT
from e2e.provider.programs import KREW, VALIDATE_KREW_MANIFEST

pytestmark = pytest.mark.e2e

NAME = "bayplan-0.1.0"
METADATA = "Metadata-Version: 2.1\nName: bayplan\nVersion: 0.1.0\nProvides-Extra: view\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """What `make krew` makes of a wheel that says what it was called with."""
    folder = tmp_path / "dist"
    folder.mkdir()
    with zipfile.ZipFile(folder / f"{NAME}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("bayplan/__init__.py", "")
        wheel.writestr("bayplan/__main__.py", "import sys\nprint(sys.argv[1:])\n")
        wheel.writestr(f"{NAME}.dist-info/METADATA", METADATA)
        wheel.writestr(f"{NAME}.dist-info/WHEEL", WHEEL)
        wheel.writestr(f"{NAME}.dist-info/RECORD", "")
    build = ROOT / "deploy" / "krew" / "build.sh"
    subprocess.run(["sh", str(build), str(folder), "https://example.com/bayplan"], check=True)
    return folder / "krew"


def judged(manifest: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [
        VALIDATE_KREW_MANIFEST.binary(),
        "-skip-install",
        "-manifest",
        manifest,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_krew_accepts_the_manifest(dist: Path) -> None:
    run = judged(dist / "bayplan.yaml")
    assert run.returncode == 0, run.stderr
    manifest = yaml.safe_load((dist / "bayplan.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = (dist / "bayplan-krew.tar.gz").read_bytes()
    assert platform["sha256"] == hashlib.sha256(archive).hexdigest()
    assert manifest["spec"]["version"] == "v0.1.0"
    assert platform["uri"].startswith("https://example.com/bayplan/releases/download/v0.1.0/")


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("version: v", "version: ", "version"),
        ("sha256: ", "sha256: z", "sha256"),
        ("bin: kubectl-bayplan", "bin: ''", "bin"),
        ("name: bayplan", "name: other", "name"),
    ],
)
def test_krew_tells_a_manifest_that_is_wrong(dist: Path, right: str, wrong: str, why: str) -> None:
    path = dist / "bayplan.yaml"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong))
    run = judged(path)
    assert run.returncode != 0
    assert why in run.stderr


def test_krew_installs_it_and_kubectl_finds_a_program_that_runs(dist: Path, tmp_path: Path) -> None:
    root, data = tmp_path / "krew", tmp_path / "data"
    env = {**os.environ, "KREW_ROOT": str(root), "KREW_NO_UPGRADE_CHECK": "1"}
    env |= {"XDG_DATA_HOME": str(data), "BAYPLAN_PYTHON": sys.executable}
    env.pop("PYTHONPATH", None)
    install: list[str | Path] = [KREW.binary(), "install", f"--manifest={dist / 'bayplan.yaml'}"]
    install.append(f"--archive={dist / 'bayplan-krew.tar.gz'}")
    run = subprocess.run(install, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    plugin = root / "bin" / "kubectl-bayplan"
    run = subprocess.run(
        [plugin, "why", "a b"], env=env, capture_output=True, text=True, check=True
    )
    assert run.stdout == "['why', 'a b']\n"
    assert f"the first run of {NAME}" in run.stderr
    run = subprocess.run([plugin, "view"], env=env, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("['view']\n", "")
    assert [path.name for path in (data / "bayplan").iterdir()] == [NAME]


def test_an_old_python_is_told(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / "bayplan-krew.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "BAYPLAN_PYTHON": "false"}
    run = subprocess.run(
        [tmp_path / "kubectl-bayplan"], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "needs Python 3.11 or later" in run.stderr
    assert not (tmp_path / "data").exists()
