"""Where the programs of a control plane come from: `KUBEBUILDER_ASSETS`, else Go modules.

`KUBE` says which version of Kubernetes to build: the reference unless it is set.
"""

import os
from pathlib import Path

from e2e.provider.golang import ROOT, GoProgram

REFERENCE = "1.37"
KUBERNETES = {REFERENCE: (1, 37, 2), "1.36": (1, 36, 3), "1.35": (1, 35, 4), "1.34": (1, 34, 4)}
STAGES = ROOT / "e2e" / "kwok" / "stages.yaml"

KWOK = GoProgram("kwok", ROOT / "e2e" / "kwok", "sigs.k8s.io/kwok/cmd/kwok")
# kube-scheduler's word on decisions and on configurations.
ORACLE = GoProgram("oracle", ROOT / "e2e", "./oracle")
CONFIGCHECK = GoProgram("configcheck", ROOT / "e2e", "./configcheck")
# The word of its allocator on devices.
ALLOCJUDGE = GoProgram("allocjudge", ROOT / "e2e", "./allocjudge")
# Kubernetes' own CEL for devices.
CELJUDGE = GoProgram("celjudge", ROOT / "e2e", "./celjudge")
# Renders charts/.
HELM = GoProgram("helm", ROOT / "e2e" / "helm", "helm.sh/helm/v4/cmd/helm")
# Judges the alerts of deploy/: without Prometheus' ways to find targets, which rules do not need.
PROMTOOL = GoProgram(
    *("promtool", ROOT / "e2e" / "promtool", "github.com/prometheus/prometheus/cmd/promtool"),
    tags=("remove_all_sd",),
)
# A source of load and prices, from the same modules.
PROMETHEUS = GoProgram(
    *("prometheus", ROOT / "e2e" / "prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
    tags=PROMTOOL.tags,
)
# The metrics API, behind the aggregator of the API server.
METRICS_SERVER = GoProgram(
    *(
        "metrics-server",
        ROOT / "e2e" / "metrics-server",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
    ),
)
# Judges the workflows of .github/.
ACTIONLINT = GoProgram(
    "actionlint", ROOT / "e2e" / "actionlint", "github.com/rhysd/actionlint/cmd/actionlint"
)
# krew, and its judge of manifests.
KREW = GoProgram("krew", ROOT / "e2e" / "krew", "sigs.k8s.io/krew/cmd/krew")
VALIDATE_KREW_MANIFEST = GoProgram(
    *("validate-krew-manifest", ROOT / "e2e" / "krew"),
    "sigs.k8s.io/krew/cmd/validate-krew-manifest",
)
OTHER_KUBE_SCHEDULER = "bayplan agrees with kube-scheduler of another version"
BESIDE = (KWOK, ORACLE, CONFIGCHECK)  # needed whatever the cluster is


def is_reference() -> bool:
    """Whether `KUBE` names the version whose kube-scheduler bayplan agrees with."""
    return (os.environ.get("KUBE") or REFERENCE) == REFERENCE


def control_plane() -> GoProgram:
    """Return the control plane of the version that `KUBE` names.

    Raises:
        LookupError: it is none of `KUBERNETES`.
    """
    version = os.environ.get("KUBE") or REFERENCE
    if version not in KUBERNETES:
        raise LookupError(f"no Kubernetes {version}: it is one of {', '.join(KUBERNETES)}")
    return GoProgram(
        "controlplane",
        ROOT / "e2e",
        "./controlplane",
        version_variables(version),
        ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
        "go.mod" if version == REFERENCE else f"kube-{version}.mod",
    )


def version_variables(version: str) -> dict[str, str]:
    """Return what makes a program of Kubernetes say that version, one of `KUBERNETES`."""
    major, minor, patch = KUBERNETES[version]
    return {
        "k8s.io/component-base/version.gitVersion": f"v{major}.{minor}.{patch}",
        "k8s.io/component-base/version.gitMajor": str(major),
        "k8s.io/component-base/version.gitMinor": str(minor),
    }


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
    return control_plane().binary().with_name(name)
