"""The controllers as a process, with what deploy/ gives them."""

from __future__ import annotations

import sys

import yaml

from e2e.cluster import OTHER, Cluster, Json
from e2e.provider import Part, token_kubeconfig
from e2e.provider.golang import ROOT
from e2e.provider.process import Endpoint, free_port

ACCOUNT = "bayplan-controllers"
OVERLAY = ROOT / "deploy" / "overlays" / "with-controllers"


class Controllers(Part):
    """One process of the controllers, with the token of its ServiceAccount."""

    def __init__(self, cluster: Cluster, number: int, *flags: str) -> None:
        port = free_port()
        folder = cluster.plane.folder
        token = cluster.token(ACCOUNT)
        kubeconfig = token_kubeconfig(folder / "controllers", cluster.plane.kubeconfig, token)
        argv = [sys.executable, "-m", "bayplan", "controllers", f"--kubeconfig={kubeconfig}"]
        argv += [f"--port={port}", f"--scheduler-name={OTHER}", *flags]
        endpoint = Endpoint(f"http://127.0.0.1:{port}", cluster.plane.context)
        log = folder / f"controllers-{number}.log"
        super().__init__(f"controllers-{number}", argv, log, endpoint, "/healthz")


def install(cluster: Cluster, *kinds: str) -> None:
    """Install what deploy/ has of the controllers, of these kinds."""
    objects = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(OVERLAY))))
    chosen = [one for one in objects if one["kind"] in kinds and _is_theirs(one)]
    path = cluster.plane.folder / "controllers.yaml"
    path.write_text(yaml.safe_dump_all(chosen))
    cluster.kubectl("apply", "-f", str(path))


def _is_theirs(one: Json) -> bool:
    return bool(one["kind"] == "CustomResourceDefinition" or one["metadata"]["name"] == ACCOUNT)
