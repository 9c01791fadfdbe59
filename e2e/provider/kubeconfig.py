"""Kubeconfig files for the users of a control plane: self-contained, readable by the owner only."""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.provider.pki import KeyPair


def cert_kubeconfig(path: Path, server: str, ca: Path, pair: KeyPair) -> Path:
    """Write the kubeconfig of a user who is known by a client certificate."""
    user = {
        "client-certificate-data": _base64(pair.cert),
        "client-key-data": _base64(pair.key),
    }
    cluster = {"server": server, "certificate-authority-data": _base64(ca)}
    return _write(path, cluster, user)


def token_kubeconfig(path: Path, like: Path, token: str) -> Path:
    """Write the kubeconfig of a bearer token, for the current cluster of the kubeconfig `like`."""
    return _write(path, current_cluster(like), {"token": token})


def current_cluster(kubeconfig: Path) -> Mapping[str, Any]:
    """Return what `kubeconfig` says of the cluster of its current context.

    Raises:
        LookupError: there is no such context or cluster.
    """
    document = yaml.safe_load(kubeconfig.read_text())
    context = _named(document["contexts"], document["current-context"])["context"]
    cluster: Mapping[str, Any] = _named(document["clusters"], context["cluster"])["cluster"]
    return cluster


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise LookupError(f"no entry named {name!r}")


def _base64(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()


def _write(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Path:
    name = "bayplan-e2e"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
