"""Plugins that never return, in a real process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.error import HTTPError

import pytest

from bayplan.engine.faults import PLUGIN_TIMEOUT
from e2e.cluster import OTHER, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = pytest.mark.e2e

PLUGIN = """
import socket, time
from bayplan.framework import Plugin


class Endless(Plugin):
    def filter(self, state, pod, node):
        if pod.name.startswith("endless"):
            {code}
"""

ENDLESS = {
    "sleeps": "time.sleep(3600)",
    "loops": "while True: pass",
    "waits in a C function": "socket.create_server(('', 0)).accept()",
}
ENDLESS_FILTER = 'running Filter plugin "Endless": has not returned for'
STUBBORN = """
            while True:
                try:
                    time.sleep(3600)
                except BaseException:
                    pass
"""
"""Code that no exception ends."""


@pytest.fixture
def endless(tmp_path: Path) -> Callable[..., Any]:
    """Writes the plugin with that code: folder, and the profile that has it."""

    def write(code: str) -> tuple[Path, dict[str, Any]]:
        (tmp_path / "endless.py").write_text(dedent(PLUGIN).format(code=code))
        enabled = {"multiPoint": {"enabled": [{"name": "Endless"}]}}
        return tmp_path, {"schedulerName": OTHER, "plugins": enabled}

    return write


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS.keys())
def test_sigterm_is_answered_whatever_a_plugin_does(
    cluster: Cluster, start: Callable[..., Bayplan], endless: Callable[..., Any], code: Any
) -> None:
    folder, profile = endless(code)
    cluster.nodes(NodeSpec("n"))
    bayplan = start(cluster.config(profiles=[profile]), folder)
    cluster.create(pod("endless", OTHER))
    wait_until(lambda: bayplan.lines("Plugin takes long"), SOON, "a warning")
    [line] = bayplan.lines("Plugin takes long")
    assert (line["plugin"], line["point"], line["pod"]) == (
        "Endless",
        "Filter",
        f"{cluster.namespace}/endless",
    )
    assert "endless.py" in line["stack"]
    assert bayplan.metric("bayplan_running_attempt_seconds") >= 1
    bayplan.signal(signal.SIGTERM)
    assert bayplan.wait(20) == 1


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_call_that_does_not_return_is_ended_and_all_other_pods_are_placed(
    cluster: Cluster, start: Callable[..., Bayplan], endless: Callable[..., Any], code: Any
) -> None:
    folder, profile = endless(code)
    cluster.nodes(NodeSpec("n"))
    bayplan = start(cluster.config(profiles=[profile]), folder, flags=["--watchdog-limit=4"])
    cluster.create(*(pod(f"endless-{i}", OTHER) for i in range(2)))
    cluster.create(*(pod(f"p-{i}", OTHER) for i in range(5)))
    cluster.wait_bound(*(f"p-{i}" for i in range(5)))
    for i in range(2):
        cluster.wait_condition(f"endless-{i}", text=f"{ENDLESS_FILTER} 2 s", reason=PLUGIN_TIMEOUT)
    assert bayplan.endpoint.get("/livez")
    bayplan.signal(signal.SIGTERM)
    assert bayplan.wait(20) == 0


def test_a_pod_that_stops_one_leader_does_not_stop_the_next(
    own: Cluster, endless: Callable[..., Any]
) -> None:
    """Two replicas with the same plugin; that one Pod would stop each, one after the other."""
    folder, profile = endless(STUBBORN.strip())
    lease = {"leaderElect": True, "resourceName": "bayplan", "resourceNamespace": SYSTEM}
    config = own.config(profiles=[profile], leaderElection=lease)
    own.nodes(NodeSpec("n"))
    stuck = own.bayplan(config, folder, flags=["--watchdog-limit=3"]).start()
    wait_until(lambda: stuck.lines("Leading"), SOON, "it leads")
    other = own.bayplan(config, folder, flags=["--watchdog-limit=3"]).start()
    own.create(pod("endless", OTHER), pod("p", OTHER))
    own.wait_bound("p")
    said = own.wait_condition("endless", text=f"{ENDLESS_FILTER} 1.5 s", reason=PLUGIN_TIMEOUT)
    wait_until(lambda: ("FailedScheduling", said) in own.events("endless"), SOON, "an event")
    own.create(pod("q", OTHER))
    own.wait_bound("q")
    with pytest.raises(HTTPError) as answer:
        stuck.endpoint.get("/livez")
    assert answer.value.code == 503
    said = answer.value.read().decode()
    assert "plugin Endless (Filter) has not returned for 3 s" in said
    assert stuck.metric("leader_election_master_status") == 0
    assert other.metric("leader_election_master_status") == 1
    stuck.signal(signal.SIGTERM)
    assert stuck.wait(20) == 1

    # Whoever mends the Pod has it tried again, as soon as that is seen.
    own.kubectl("label", "pod", "endless", "patient=yes", namespace=own.namespace)
    wait_until(lambda: other.lines("Plugin takes long"), SOON, "an attempt of the changed Pod")
    other.kill()
