"""What nodes are made of, got without installing anything, and kept in the cache.

Debian packages are downloaded and unpacked; kubelet, kube-proxy and containerd are built from their
Go modules (kubelet needs a newer containerd than Debian has).
"""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.provider.golang import ROOT, GoProgram, cache_dir, locked
from e2e.provider.kubelet.box import run_logged
from e2e.provider.programs import REFERENCE, version_variables
from e2e.provider.waiting import step

PACKAGES = (
    *("containerd", "runc", "containernetworking-plugins", "docker.io", "iptables"),
    *("debootstrap", "debian-archive-keyring"),
    # Libraries of these that a small machine may not have.
    *("libip4tc2", "libip6tc2", "libxtables12", "libnfnetlink0", "libnetfilter-conntrack3"),
    *("libnftnl11", "libmnl0", "libseccomp2", "libdevmapper1.02.1"),
)
TOOLS = ("apt-get", "dpkg-deb", "ip", "nsenter", "unshare", "mount", "hostname", "tar")

_NODE, _CONTAINERD = ROOT / "e2e" / "node", ROOT / "e2e" / "containerd"
KUBELET = GoProgram(
    *("kubelet", _NODE, "./kubelet", version_variables(REFERENCE)),
    ("kube-proxy", "dra-test-driver"),
)
PAUSE = GoProgram("pause", _NODE, "./pause")
CONTAINERD = tuple(
    GoProgram(name, _CONTAINERD, f"github.com/containerd/containerd/v2/cmd/{name}")
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)


def missing() -> list[str]:
    """Say what this machine lacks to run kubelets; empty where they can run."""
    if platform.system() != "Linux":
        return [f"Linux: this is {platform.system()}"]
    if os.geteuid() != 0:
        return ["root: boxes, mounts and cgroups are made"]
    lacks = [f"the program {tool}" for tool in TOOLS if not shutil.which(tool)]
    if (os.environ.get("KUBE") or REFERENCE) != REFERENCE:
        lacks.append(f"KUBE={REFERENCE}: kubelets are of that version alone")
    if not lacks:
        boxed = ["unshare", "--cgroup", "--mount", "--pid", "--net", "--fork"]
        mount = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        run = subprocess.run([*boxed, *mount], capture_output=True, text=True, check=False)
        if run.returncode:
            lacks.append(f"the right to make namespaces and mounts: {run.stderr.strip()}")
    return lacks


@contextmanager
def software_lock() -> Iterator[None]:
    """Let one process at a time make or copy what is in the cache."""
    with locked(cache_dir() / "kubelet.lock"):
        yield


def cached(name: str, key: object, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, made by `make` unless it was made for the same `key` before.

    The caller holds `software_lock`.
    """
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    folder = cache_dir().resolve() / "kubelet" / f"{name}-{digest}"
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with step(f"making {name} for kubelets"):
            make(partial)
        partial.rename(folder)
    return folder


def unpacked() -> Path:
    """Return the folder with the Debian packages, as they are below /."""
    return cached("packages", (PACKAGES, _release()), _unpack)


def _release() -> str:
    return Path("/etc/os-release").read_text()


def _unpack(folder: Path) -> None:
    debs = folder / "debs"
    debs.mkdir()
    packages = list(PACKAGES)
    if subprocess.run(["apt-cache", "show", "docker-cli"], capture_output=True, check=False).stdout:
        packages.append("docker-cli")  # a part of docker.io before Debian 13
    download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *packages]
    run_logged(download, folder / "apt.log", {}, debs)
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(deb), str(folder)], check=True)
    shutil.rmtree(debs)
    for name in ("iptables", "ip6tables"):  # links that the installation of the package makes
        for verb in ("", "-save", "-restore"):
            (folder / "usr" / "sbin" / f"{name}{verb}").symlink_to("xtables-legacy-multi")


def environment() -> dict[str, str]:
    """Return what finds the unpacked programs and the built ones, these first."""
    root = unpacked()
    libraries = root / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    folders = [program.binary().parent for program in (KUBELET, *CONTAINERD)]
    folders += [root / "usr" / "sbin", root / "usr" / "bin"]
    return {
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": str(libraries),
        "XTABLES_LIBDIR": str(libraries / "xtables"),
        "DEBOOTSTRAP_DIR": str(root / "usr" / "share" / "debootstrap"),
    }
