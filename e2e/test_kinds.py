"""A kind of the plugin's own whose CRD comes and goes while bayplan runs: the guide's example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster import NAME, OTHER, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = pytest.mark.e2e

GUIDE = (ROOT / "docs" / "plugins.md").read_text()
LOOKS_AGAIN = 60.0
"""Longest time until a kind that was not served is looked for again, in seconds."""
ZONE = "topology.kubernetes.io/zone"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "maintenances.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Maintenance", "plural": "maintenances", "singular": "maintenance"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
MAINTENANCE = {
    "apiVersion": "example.com/v1",
    "kind": "Maintenance",
    "metadata": {"name": "power"},
    "spec": {"zone": "z"},
}


def block(language: str, about: str) -> str:
    """The guide's code block that contains ``about``."""
    blocks = (part.partition("```")[0] for part in GUIDE.split(f"```{language}\n")[1:])
    return next(text for text in blocks if about in text)


@pytest.fixture
def granted(cluster: Cluster) -> Iterator[None]:
    """The rule of the guide, bound to bayplan's ServiceAccount; no CRD is left behind."""
    role = yaml.safe_load(block("yaml", "name: bayplan-maintenances"))
    name = role["metadata"]["name"]
    cluster.put(role)
    account = f"--serviceaccount={SYSTEM}:{NAME}"
    cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    yield
    cluster.kubectl("delete", "clusterrole,clusterrolebinding", name)
    cluster.kubectl("delete", "crd", "maintenances.example.com", "--ignore-not-found")


@pytest.mark.usefixtures("granted")
def test_a_crd_is_taken_up_when_it_appears_and_forgotten_when_it_goes(
    cluster: Cluster, start: Callable[..., Bayplan], tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "no_maintenance.py").write_text(block("python", "class NoMaintenance"))
    profile = {
        "schedulerName": OTHER,
        "plugins": {"multiPoint": {"enabled": [{"name": "NoMaintenance"}]}},
    }
    cluster.nodes(NodeSpec("n", labels={ZONE: "z"}))

    # It is ready although there is no such kind, and schedules.
    bayplan = start(cluster.config(profiles=[profile]), plugins)
    assert len(bayplan.lines("kind is not served")) == 1
    cluster.create(pod("before", OTHER))
    cluster.wait_bound("before")

    # The CRD is installed, and an object made.
    cluster.put(CRD)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "maintenances.example.com")
    cluster.put(MAINTENANCE)
    seen = {"kind": "Maintenance", "event": "events"}
    wait_until(
        lambda: bayplan.metric("bayplan_informer_events_total", **seen) > 0,
        LOOKS_AGAIN,
        "the kind taken up",
    )
    cluster.create(pod("during", OTHER))
    cluster.wait_condition("during", text="1 node(s) were under maintenance")

    # The CRD goes, and its objects with it: that wakes the Pod.
    cluster.kubectl("delete", "crd", "maintenances.example.com")
    cluster.wait_bound("during")
    wait_until(lambda: len(bayplan.lines("kind is not served")) == 2, SOON, "the kind gone")
    assert bayplan.endpoint.get("/readyz")
    assert bayplan.metric("bayplan_informer_failing", kind="Maintenance") == 0
