"""Where the programs of a control plane come from: `KUBEBUILDER_ASSETS`, else Go modules."""

import os
from pathlib import Path

from e2e.provider.golang import ROOT, GoProgram

KUBERNETES = (1, 36, 3)
STAGES = ROOT / "e2e" / "kwok" / "stages.yaml"

CONTROL_PLANE = GoProgram(
    "controlplane",
    ROOT / "e2e",
    "./controlplane",
    {
        "k8s.io/component-base/version.gitVersion": "v{}.{}.{}".format(*KUBERNETES),
        "k8s.io/component-base/version.gitMajor": str(KUBERNETES[0]),
        "k8s.io/component-base/version.gitMinor": str(KUBERNETES[1]),
    },
    ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
)
KWOK = GoProgram("kwok", ROOT / "e2e" / "kwok", "sigs.k8s.io/kwok/cmd/kwok")
# kube-scheduler's word on decisions and on configurations.
ORACLE = GoProgram("oracle", ROOT / "e2e", "./oracle")
CONFIGCHECK = GoProgram("configcheck", ROOT / "e2e", "./configcheck")
# The word of its allocator on devices.
ALLOCJUDGE = GoProgram("allocjudge", ROOT / "e2e", "./allocjudge")
# Kubernetes' own CEL for devices.
CELJUDGE = GoProgram("celjudge", ROOT / "e2e", "./celjudge")
BESIDE = (KWOK, ORACLE, CONFIGCHECK)  # needed whatever the cluster is


def assets() -> Path | None:
    """Return the folder that `KUBEBUILDER_ASSETS` names, when it has an API server and etcd."""
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS") or "/nowhere")
    names = ("kube-apiserver", "etcd")
    return folder if all((folder / name).is_file() for name in names) else None


def program(name: str, folder: Path | None = None) -> Path:
    """Return the program `name` from `folder`, or built when it is not there."""
    if folder and (folder / name).is_file():
        return folder / name
    if name == "kwok":
        return KWOK.binary()
    return CONTROL_PLANE.binary().with_name(name)
