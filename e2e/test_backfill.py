"""Backfill on a real API server: nodes are kept for a group, and who ends before may use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.test_groups import CRD, LABEL, create_group, wait_note

pytestmark = pytest.mark.e2e

BACKFILL = {"enabled": [{"name": "Backfill"}]}
PLUGINS = {
    "multiPoint": {
        "enabled": [{"name": "Coscheduling"}, {"name": "Backfill"}],
        "disabled": [{"name": "PrioritySort"}],
    },
    "podGroupPostFilter": BACKFILL,
}
AT_ONCE = {"name": "Backfill", "args": {"reserveAfter": "0s"}}
WHY = "reserved for group {}/g until 20"


@pytest.fixture
def bayplan(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[Bayplan]:
    """A scheduler that reserves room for groups at once; no PodGroup is left behind."""
    cluster.kubectl("apply", "-f", str(CRD))
    cluster.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=300s")
    profile = {"schedulerName": OTHER, "plugins": PLUGINS, "pluginConfig": [AT_ONCE]}
    yield start(cluster.config(profiles=[profile]))
    cluster.kubectl("delete", "podgroups", "--all", namespace=cluster.namespace)


def lasting(name: str, cpu: str, seconds: int) -> Json:
    """A Pod that says how long it runs."""
    return pod(name, OTHER, cpu=cpu, activeDeadlineSeconds=seconds)


def test_nodes_are_kept_for_a_group_until_it_has_them(cluster: Cluster, bayplan: Bayplan) -> None:
    cluster.nodes(NodeSpec("b1", cpu="4"), NodeSpec("b2", cpu="4"))
    cluster.create(lasting("one", "1", 3000), lasting("four", "4", 2000))
    cluster.wait_bound("one", "four")
    create_group(cluster, "g", 2)
    cluster.create(*(pod(f"g-{i}", OTHER, {LABEL: "g"}, cpu="4") for i in range(2)))
    wait_note(cluster, "g", "Reserved: 2 nodes until 20")

    cluster.create(pod("unknown", OTHER, cpu="1"), lasting("long", "1", 86400))
    why = WHY.format(cluster.namespace)
    for name in ("unknown", "long"):
        cluster.wait_condition(name, text=why)
    cluster.create(lasting("short", "1", 60))
    cluster.wait_bound("short")

    for name in ("one", "four", "short"):
        cluster.delete(name)
    cluster.wait_bound("g-0", "g-1")
    for name in ("unknown", "long"):
        cluster.wait_condition(name, text="2 Insufficient cpu")
    cluster.delete("g-0")
    cluster.wait_bound("unknown", "long")

    def reserved() -> float:
        return bayplan.metric("bayplan_plugin_value", name="reserved_nodes")

    wait_until(lambda: reserved() == 0, SOON, "no node reserved")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
