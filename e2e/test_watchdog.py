"""Plugins that never return, in a real process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.error import HTTPError

import pytest

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
    assert bayplan.wait(20) == 0


def test_a_stuck_leader_gives_the_lease_up_and_another_goes_on(
    own: Cluster, endless: Callable[..., Any]
) -> None:
    folder, profile = endless("time.sleep(3600)")
    lease = {"leaderElect": True, "resourceName": "bayplan", "resourceNamespace": SYSTEM}
    config = own.config(profiles=[profile], leaderElection=lease)
    healthy = own.config(name=OTHER, leaderElection=lease)
    own.nodes(NodeSpec("n"))
    stuck = own.bayplan(config, folder, flags=["--watchdog-limit=3"]).start()
    wait_until(lambda: stuck.lines("Leading"), SOON, "it leads")
    other = own.bayplan(healthy).start()
    own.create(pod("endless", OTHER), pod("p", OTHER))
    own.wait_bound("endless", "p", timeout=3 + SOON)
    assert other.lines("Leading")
    with pytest.raises(HTTPError) as answer:
        stuck.endpoint.get("/livez")
    assert answer.value.code == 503
    said = answer.value.read().decode()
    assert "plugin Endless (Filter) has not returned for 3 s" in said
    assert stuck.metric("leader_election_master_status") == 0
    assert other.metric("leader_election_master_status") == 1
    stuck.signal(signal.SIGTERM)
    assert stuck.wait(20) == 0
    other.kill()
