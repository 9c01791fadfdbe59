"""Images for nodes, made without a registry: bayplan's from the Dockerfile, and one that waits.

What a node starts from is a store: the folder of a containerd that has them unpacked.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from e2e.provider.golang import ROOT
from e2e.provider.kubelet.box import HERE, Box
from e2e.provider.kubelet.software import CONTAINERD, PAUSE, cached, environment
from e2e.provider.waiting import say

IMAGE = "bayplan:0.1.0"  # as deploy/ has it
PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
PREVIOUS_IMAGE = "bayplan:previous"
CONTEXT = (
    "Dockerfile",
    ".dockerignore",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "requirements.lock",
)


def store() -> Path:
    """Return the folder of a containerd with all images; the caller holds `software_lock`.

    One is kept: nodes have links to its files, not the folder.
    """
    base = debian()
    programs = [program.binary().parent.name for program in (PAUSE, *CONTAINERD)]
    scripts = [(HERE / name).read_text() for name in ("image.sh", "store.sh")]
    key = (base.name, programs, scripts, _sources())
    folder = cached("store", key, lambda partial: _make_store(base, partial))
    for previous in folder.parent.glob("store-*"):
        if previous != folder:
            shutil.rmtree(previous)
    return folder / "containerd"


def previous(revision: str) -> Path:
    """Return bayplan as a git revision has it, to upgrade from; the caller holds `software_lock`.

    The folder has that revision's `deploy/`, and in `image.tar` its image, named `PREVIOUS_IMAGE`.

    Raises:
        LookupError: this repository has no such revision, as a shallow clone has not.
    """
    git = ["git", "-C", str(ROOT)]
    asked = [*git, "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}"]
    run = subprocess.run(asked, capture_output=True, text=True, check=False)
    if run.returncode:
        raise LookupError(f"no revision {revision} in this repository")
    commit = run.stdout.strip()

    def make(folder: Path) -> None:
        archive = subprocess.check_output([*git, "archive", commit, "deploy", "src", *CONTEXT])
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        _make_image(debian(), folder, PREVIOUS_IMAGE, folder / "image.tar")

    key = (debian().name, (HERE / "image.sh").read_text(), commit)
    return cached("previous", key, make)


def debian(suite: str = "trixie") -> Path:
    """Return the folder with `base.tar`, that Debian; the caller holds `software_lock`."""

    def make(folder: Path) -> None:
        made = (HERE / "base.sh", folder, suite)
        _box(folder).run(*made, log=folder / "log", **environment())

    return cached("base", (suite, (HERE / "base.sh").read_text()), make)


def _sources() -> str:
    digest = hashlib.sha256()
    for file in [ROOT / name for name in CONTEXT] + sorted((ROOT / "src").rglob("*.py")):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _box(folder: Path) -> Box:
    return Box(f"bayplan-build-{os.getpid()}", folder / "box")


def _make_store(base: Path, folder: Path) -> None:
    image, pause = folder / "bayplan.tar", folder / "pause.tar"
    _make_image(base, ROOT, IMAGE, image)
    _write_image(pause, PAUSE_IMAGE, PAUSE.binary())
    unpack = (HERE / "store.sh", folder / "containerd", image, pause)
    _box(folder).run(*unpack, log=folder / "store.log", **environment())
    image.unlink()


def _make_image(base: Path, project: Path, image: str, archive: Path) -> None:
    """Build the image of the project in that folder, and save it to a file."""
    name = re.search(r"^ARG PYTHON=(\S+)$", (project / "Dockerfile").read_text(), re.MULTILINE)
    assert name is not None
    tag, layers, folder = f"python:{name[1]}", base / "docker", archive.parent
    build = (HERE / "image.sh", base / "base.tar", tag, layers, project, image, archive)
    _box(folder).run(*build, log=folder / "image.log", **environment())
    of_base, of_image = map(int, Path(f"{archive}.sizes").read_text().split())
    say(f"  {image}: {of_image / 1e6:.0f} MB, of which {of_base / 1e6:.0f} MB are its base")


def _write_image(path: Path, name: str, program: Path) -> None:
    """Write an image of one static program, as `docker save` does."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, program.name, program.read_bytes(), 0o755)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        _add(tar, "config.json", json.dumps(config).encode())
        _add(tar, "layer.tar", layer.getvalue())
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
