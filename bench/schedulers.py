"""The two schedulers: started the same way, with the same configuration and permissions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.provider import ControlPlane, Part
from e2e.provider.kubeconfig import cert_kubeconfig
from e2e.provider.process import Endpoint, free_port

KUBE_SCHEDULER = "kube-scheduler"
BAYPLAN = "bayplan"
SCHEDULERS = (KUBE_SCHEDULER, BAYPLAN)

API_SERVER_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority",)
"""No controller manager runs: nodes are Ready as they are created, priorities as they are given."""

POD_GROUPS_SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true"
"""What the API server needs beside its feature gates to have PodGroups of Kubernetes."""

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
"""


def start(
    name: str, cluster: ControlPlane, config: Path | None = None, flags: Sequence[str] = ()
) -> Part:
    """Start a scheduler; its log is in the folder of the control plane.

    Args:
        name: one of SCHEDULERS.
        cluster: a control plane of our own.
        config: a KubeSchedulerConfiguration in place of CONFIG.
        flags: more of its flags.
    """
    if config is None:
        config = cluster.folder / "bench-config.yaml"
        config.write_text(CONFIG)
    if name == KUBE_SCHEDULER:
        part = cluster.start_kube_scheduler(config, *flags)
        assert part is not None
        return part
    return _start_bayplan(cluster, config, flags)


def _start_bayplan(cluster: ControlPlane, config: Path, flags: Sequence[str]) -> Part:
    # As the user that kube-scheduler is, so that the API server has the same permissions to check.
    pair = cluster.authority.issue("bayplan", "system:kube-scheduler", "")
    server = cluster.parts["kube-apiserver"].endpoint.url
    kubeconfig = cluster.folder / "bayplan.kubeconfig"
    cert_kubeconfig(kubeconfig, server, cluster.authority.cert, pair)
    port = free_port()
    argv = [sys.executable, "-m", "bayplan", "run", f"--config={config}"]
    argv += [f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    argv += [*cluster.serving_flags(), *flags]
    endpoint = Endpoint(f"https://127.0.0.1:{port}", cluster.context)
    part = Part(BAYPLAN, argv, cluster.folder / "bayplan.log", endpoint, "/healthz")
    cluster.parts[BAYPLAN] = part
    return part.start()
