"""Simulate: what PreEnqueue, Reserve and Permit plugins do to Pods that are placed in turn."""

from __future__ import annotations

from typing import Any

from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.framework import WAIT, Plugin, Status
from bayplan.simulation.simulate import simulate
from bayplan.testing import PodBuilder, make_node, make_pod


def placed(cluster: Cluster, *pods: PodBuilder) -> list[dict[str, Any]]:
    """What simulate says of ``pods`` on one node of 4 CPUs."""
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    shown = [pod.spec(schedulerName="bayplan").obj() for pod in pods]
    return simulate(cluster.core, shown)


def test_who_holds_a_pod_back_and_why_is_told() -> None:
    cluster = Cluster(scripted("Later", pre_enqueue=Status.unschedulable("not today")), bare=True)
    (result,) = placed(cluster, make_pod("p"))
    assert result == {
        "pod": "default/p",
        "node": None,
        "message": "held back by Later: not today",
    }


def test_a_refusal_by_permit_is_the_answer_and_frees_the_node() -> None:
    no = scripted("No", permit=lambda: Status.unschedulable("not now"))
    cluster = Cluster(no)
    first, second = placed(cluster, make_pod("a").req(cpu="3"), make_pod("b").req(cpu="3"))
    for result in (first, second):
        assert result["node"] is None
        assert result["message"] == "0/1 nodes are available: 1 not now."
    assert cluster.cache.nodes.pod_count.sum() == 0


def test_a_pod_that_waits_keeps_its_node_and_is_said_to_wait() -> None:
    cluster = Cluster(scripted("Hold", permit=(WAIT, 60.0)))
    first, second = placed(cluster, make_pod("a").req(cpu="3"), make_pod("b").req(cpu="3"))
    assert first["node"] == "n1"
    assert first["waits"] == {"Hold": 60.0}
    assert first["message"] == "waits in Permit for Hold (at most 60 s)"
    assert second["node"] is None
    assert "Insufficient cpu" in second["message"]


class Pairs(Plugin):
    """Lets Pods go two by two; ``odd`` rejects who waits alone when the third one comes."""

    def permit(self, _state: Any, pod: Any, _node_name: str) -> Any:
        for other in self.handle.waiting:
            if pod.labels.get("pair") == "no":
                other.reject(self.name, "its partner refused")
                return Status.unschedulable("alone for ever")
            other.allow(self.name)
            return None
        return WAIT, 60.0


def test_a_permit_plugin_may_let_a_waiting_pod_go_when_another_comes() -> None:
    first, second = placed(Cluster(Pairs), make_pod("a").req(cpu="1"), make_pod("b").req(cpu="1"))
    assert (first["node"], first["message"]) == ("n1", "")
    assert (second["node"], second["message"]) == ("n1", "")
    assert "waits" not in first


def test_a_permit_plugin_may_reject_a_waiting_pod_which_frees_its_node() -> None:
    cluster = Cluster(Pairs)
    results = placed(
        cluster, make_pod("a").req(cpu="3"), make_pod("b").req(cpu="1").label("pair", "no")
    )
    assert [result["node"] for result in results] == [None, None]
    assert results[0]["message"] == "0/1 nodes are available: 1 its partner refused."
    assert cluster.cache.nodes.recount() == {}
    assert cluster.cache.nodes.pod_count.sum() == 0
