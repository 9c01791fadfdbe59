"""The dump on SIGUSR2: what is held, and what of it is wrong."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import structlog
from tests.core_harness import Cluster
from tests.groups import group_cluster, members, nodes, pod_group
from tests.scripted import scripted

from bayplan.app import debugger as debugger_module
from bayplan.app.debugger import Debugger
from bayplan.client.errors import ApiError
from bayplan.framework import WAIT, Status
from bayplan.testing import make_node, make_pod


class Lists:
    """Answers lists of names and uids; raises while it has none."""

    def __init__(self, nodes: list[str] | None, pods: dict[str, str]) -> None:
        self.nodes = nodes
        self.pods = pods
        self.asked: list[str] = []
        self.threads: set[str] = set()

    def get(self, path: str) -> bytes:
        """A list."""
        self.asked.append(path)
        self.threads.add(threading.current_thread().name)
        if self.nodes is None:
            raise ApiError("unreachable")
        if "nodes" in path:
            items = [{"metadata": {"name": name}} for name in self.nodes]
        else:
            items = [{"metadata": {"name": n, "uid": u}} for n, u in self.pods.items()]
        return json.dumps({"metadata": {}, "items": items}).encode()


def debugged(lists: Lists) -> tuple[Cluster, Debugger]:
    cluster = Cluster()
    cluster.add(make_node("n1").capacity(cpu="4", pods=9), make_node("n2"))
    cluster.add(make_pod("a").req(cpu="1").node("n1").uid("a"), make_pod("b").req(cpu="9").uid("b"))
    cluster.run()
    return cluster, Debugger(cluster.core, lists, cluster.inbox)  # type: ignore[arg-type]


def dumped(
    cluster: Cluster, debugger: Debugger, monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[dict[str, Any]]]:
    """What SIGUSR2 has logged in the end, by event."""
    monkeypatch.setattr(debugger_module, "log", structlog.get_logger())
    with structlog.testing.capture_logs() as lines:
        debugger.start().join()
        cluster.take_in()
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        found.setdefault(line["event"], []).append(dict(line))
    return found


def test_a_dump_shows_nodes_pods_and_that_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = Lists(["n1", "n2"], {"a": "a", "b": "b"})
    cluster, debugger = debugged(lists)
    said = dumped(cluster, debugger, monkeypatch)
    assert [(line["node"], line["pods"]) for line in said["Node in cache"]] == [
        ("n1", ["default/a"]),
        ("n2", []),
    ]
    (waiting,) = said["Pod in queue"]
    assert (waiting["pod"], waiting["state"], waiting["attempts"]) == (
        "default/b",
        "unschedulable",
        1,
    )
    (recount,) = said["Recount"]
    assert recount["columns"] == {}
    assert not recount["counters"]
    (compared,) = said["Comparison with the API server"]
    assert not any(compared[key] for key in compared if key.startswith(("missing", "surplus")))
    assert lists.asked[1].endswith(
        "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
    )


def test_differences_are_named() -> None:
    cluster, debugger = debugged(Lists(["n1", "n3"], {"a": "a", "c": "c"}))
    assert debugger.compare(debugger.listed()) == {
        "missing nodes": ["n3"],
        "surplus nodes": ["n2"],
        "missing pods": ["c"],
        "surplus pods": ["b"],
    }
    cluster.cache.nodes.pod_count[0] += 1
    assert debugger.recount()["columns"] == {"pod_count": 1}


def test_without_the_api_server_the_rest_is_dumped(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, debugger = debugged(Lists(None, {}))
    said = dumped(cluster, debugger, monkeypatch)
    assert said["Comparison with the API server failed"][0]["error"] == "unreachable"
    assert "Recount" in said


def test_the_api_server_is_not_asked_on_the_scheduling_thread() -> None:
    lists = Lists(["n1", "n2"], {})
    cluster, debugger = debugged(lists)
    debugger.start().join()
    assert lists.threads == {"debugger"}
    assert "Dump()" in repr(cluster.inbox)
    cluster.take_in()
    assert lists.threads == {"debugger"}


def test_who_waits_in_permit_and_who_is_held_is_dumped(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = scripted("Hold", pre_enqueue=Status.unschedulable("not today"))
    cluster = Cluster(scripted("Wait", permit=(WAIT, 60.0)), hold, bare=True)
    cluster.plugin(hold).script = {}
    cluster.add(make_node("n1").capacity(cpu="4", pods=9), make_pod("waits"))
    cluster.run()
    cluster.plugin(hold).script = {"pre_enqueue": Status.unschedulable("not today")}
    cluster.add(make_pod("held"))
    debugger = Debugger(cluster.core, Lists(None, {}), cluster.inbox)  # type: ignore[arg-type]
    said = dumped(cluster, debugger, monkeypatch)
    (waits,) = said["Pod waits in Permit"]
    assert (waits["pod"], waits["node"], waits["plugins"]) == ("default/waits", "n1", ["Wait"])
    (held,) = [line for line in said["Pod in queue"] if line["pod"] == "default/held"]
    assert (held["state"], held["held_by"]) == ("gated", "Hold: not today")


def test_a_group_is_dumped_with_its_members_and_what_was_said_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = group_cluster()
    cluster.add(pod_group("g", minMember=5), *nodes(1), *members("g", 5))
    cluster.run()
    debugger = Debugger(cluster.core, Lists(None, {}), cluster.inbox)  # type: ignore[arg-type]
    said = dumped(cluster, debugger, monkeypatch)
    (line,) = said["Group in queue"]
    assert (line["group"], line["state"]) == ("default/g", "unschedulable")
    assert line["members"] == [f"default/g-{i}" for i in range(5)]
    assert line["message"].startswith("NoRoom: at most 4 of 5 fit")
    assert {pod["state"] for pod in said["Pod in queue"]} == {"grouped"}
