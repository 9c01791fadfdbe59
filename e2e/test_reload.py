"""Another configuration and other plugins while Pods are being scheduled, on a real API server."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from e2e.cluster import OTHER, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

PLUGIN = """
from bayplan.framework import Plugin, Status


class OnlyOn(Plugin):
    def filter(self, state, pod, node):
        if not node.name.startswith("{prefix}"):
            return Status.unschedulable("not there")
"""
NO_EXCEPTIONS = {
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "GeneratorExit": """
        from bayplan.framework import Plugin

        class OnlyOn(Plugin):
            def __init__(self, args, handle):
                raise GeneratorExit

            def filter(self, state, pod, node):
                return None
    """,
}
"""What a plugin file raises that is no Exception: at the import, and when the plugin is made."""
RELOADED = "Configuration reloaded"
KEPT = "Configuration not reloaded; the previous one goes on"


class Files:
    """The plugin and the configuration of one scheduler, as files that a test rewrites."""

    def __init__(self, folder: Path, config: Path) -> None:
        self.folder, self.config = folder, config
        self.plugin("old")

    def plugin(self, prefix: str) -> None:
        new = self.folder / "..new"
        new.write_text(dedent(PLUGIN).format(prefix=prefix))
        new.rename(self.folder / "only_on.py")

    def configure(self, **fields: Any) -> None:
        document = yaml.safe_load(self.config.read_text()) | fields
        self.config.write_text(yaml.safe_dump(document))


@pytest.fixture
def files(cluster: Cluster, tmp_path: Path) -> Files:
    enabled = {"multiPoint": {"enabled": [{"name": "OnlyOn"}]}}
    return Files(tmp_path, cluster.config(profiles=[{"schedulerName": OTHER, "plugins": enabled}]))


def test_a_changed_plugin_decides_while_pods_are_scheduled_and_none_is_lost(
    cluster: Cluster, start: Callable[..., Bayplan], files: Files
) -> None:
    cluster.nodes(*(NodeSpec(f"{p}-{i}", cpu="32") for p in ("old", "new") for i in range(3)))
    bayplan = start(files.config, files.folder)
    names = []
    for batch in range(12):
        if batch == 4:
            files.plugin("new")
        names += cluster.create(
            *(pod(f"p{batch}-{i}", OTHER, cpu="10m") for i in range(20)),
        )
    wait_until(lambda: bayplan.lines(RELOADED), SOON, "the new plugin")
    late = cluster.create(*(pod(f"late-{i}", OTHER, cpu="10m") for i in range(20)))
    nodes = cluster.wait_bound(*names, *late)
    where = Counter(node.split("-")[0] for node in nodes.values())
    assert where["old"] > 0
    assert {nodes[name].split("-")[0] for name in late} == {"new"}
    bound = Counter(line["pod"] for line in bayplan.lines("Successfully bound pod to node"))
    assert set(bound.values()) == {1}, "nothing is bound twice"
    assert len(bound) == len(names) + len(late)
    assert bayplan.metric("bayplan_reloads_total", result="success") == 1
    assert bayplan.metric("bayplan_plugin_failures_total") == 0
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_pods_that_the_old_plugin_rejected_are_tried_again(
    cluster: Cluster, start: Callable[..., Bayplan], files: Files
) -> None:
    cluster.nodes(NodeSpec("new-0"))
    bayplan = start(files.config, files.folder)
    cluster.create(pod("p", OTHER))
    cluster.wait_condition("p", text="not there")
    files.plugin("new")
    bayplan.signal(signal.SIGHUP)
    assert cluster.wait_bound("p") == {"p": "new-0"}


def test_what_is_wrong_changes_nothing_and_is_said(
    cluster: Cluster, start: Callable[..., Bayplan], files: Files
) -> None:
    # A Lease of its own, since other tests' scheduler holds the one that bayplan may use.
    lease = {"leaderElect": True, "resourceName": "e2e-reload", "resourceNamespace": SYSTEM}
    files.configure(leaderElection=lease)
    cluster.nodes(NodeSpec("old-0"), NodeSpec("new-0"))
    bayplan = start(files.config, files.folder, kubeconfig=cluster.plane.kubeconfig)
    wait_until(lambda: bayplan.lines("Leading"), SOON, "it leads")
    good = files.config.read_text()

    files.config.write_text(good.replace("OnlyOn", "OnlyOf"))
    wait_until(lambda: bayplan.lines(KEPT), SOON, "a complaint")
    assert 'unknown plugin "OnlyOf"' in bayplan.lines(KEPT)[-1]["err"]
    assert bayplan.metric("bayplan_reload_failing") == 1
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "old-0"}

    files.config.write_text(good)
    files.configure(parallelism=3)
    text = "restart bayplan for a change of parallelism"
    wait_until(lambda: bayplan.lines(KEPT)[-1]["err"] == text, SOON, "another complaint")

    files.config.write_text(good)
    for name, code in NO_EXCEPTIONS.items():
        (files.folder / "only_on.py").write_text(dedent(code))
        wait_until(
            lambda name=name: name in bayplan.lines(KEPT)[-1]["err"],  # type: ignore[misc]
            SOON,
            f"a complaint about {name}",
        )
        assert bayplan.metric("bayplan_reload_failing") == 1
    loop = files.folder / "loop.py"
    loop.symlink_to(loop)
    files.plugin("old")
    wait_until(lambda: "symbolic links" in bayplan.lines(KEPT)[-1]["err"], SOON, "another one")
    loop.unlink()

    files.plugin("new")
    wait_until(lambda: bayplan.lines(RELOADED), SOON, "a good configuration")
    assert bayplan.metric("bayplan_reload_failing") == 0
    cluster.create(pod("q", OTHER))
    assert cluster.wait_bound("q") == {"q": "new-0"}

    def reasons() -> set[str]:
        items = json.loads(cluster.kubectl("get", "events", "-o=json", namespace=SYSTEM))["items"]
        return {e["reason"] for e in items if e["involvedObject"].get("kind") == "Lease"}

    expected = {"LeaderElection", "ReloadFailed", "ConfigurationReloaded"}
    wait_until(lambda: expected <= reasons(), SOON, "events on the Lease")
