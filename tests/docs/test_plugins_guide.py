"""Every plugin that docs/plugins.md shows works as the text beside it says."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.docs.guide import SOURCES, instance, load
from tests.groups import gang

from bayplan.api.kinds import NAMESPACE
from bayplan.explain.explanation import explain
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SKIP
from bayplan.queue.states import QueueState
from bayplan.testing import (
    PROFILE,
    Cluster,
    Json,
    NodeBuilder,
    PodBuilder,
    make_node,
    make_object,
    make_pod,
)

TESTED = {
    "AvoidNode",
    "Polling",
    "TeamFirst",
    "YoungestLast",
    "HomeNodes",
    "QuietNodes",
    "AskForGpus",
    "CountWaiting",
    "NearSiblings",
    "FewestPods",
    "Licences",
    "Pairs",
    "Ledger",
    "DryRunBinder",
    "Announce",
    "EmptiestRack",
    "SpareMemory",
    "NewestKernel",
    "CheapZones",
    "OnlySigned",
    "NoMaintenance",
    "PowerPrice",
    "OneLoudPod",
    "Curfew",
}


def node(name: str, **labels: str) -> NodeBuilder:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods="10").labels(labels)


def pod(name: str = "p", **labels: str) -> PodBuilder:
    return make_pod(name).req(cpu="100m").labels(labels)


def where(cluster: Cluster, builder: PodBuilder) -> str:
    """The node that the scheduler gives to this Pod."""
    cluster.add(builder)
    cluster.run()
    return cluster.node_of(builder)


def scoring(name: str, *points: str) -> Json:
    """``plugins`` of a profile in which what this plugin scores decides."""
    others = {point: {"enabled": [{"name": name}]} for point in points}
    return others | {"score": {"enabled": [{"name": name, "weight": 100}]}}


def test_every_plugin_of_the_guide_is_tested_here() -> None:
    assert set(SOURCES) == TESTED


def test_avoid_node_rejects_labelled_nodes(tmp_path: Path) -> None:
    cluster = load(tmp_path, "AvoidNode")
    cluster.add(node("a", avoid="true"), node("b"))
    assert where(cluster, pod()) == "b"


def test_avoid_node_says_why_nothing_fits(tmp_path: Path) -> None:
    cluster = load(tmp_path, "AvoidNode")
    cluster.add(node("a", avoid="true"))
    assert where(cluster, pod()) == ""
    message = "0/1 nodes are available: 1 node(s) were to be avoided."
    assert cluster.message("p").startswith(message)


def test_polling_rejects_what_is_on_its_list_and_ends_its_thread(tmp_path: Path) -> None:
    cluster = load(tmp_path, "Polling")
    cluster.add(node("a"), node("b"))
    instance(cluster, "Polling").banned = frozenset({"a"})
    assert where(cluster, pod()) == "b"
    [thread] = [t for t in threading.enumerate() if "_poll" in t.name]
    cluster.core.profiles.close()
    thread.join(30)
    assert not thread.is_alive()


def test_team_first_holds_a_pod_until_it_has_the_label(tmp_path: Path) -> None:
    cluster = load(tmp_path, "TeamFirst")
    held = pod()
    cluster.add(node("a"))
    assert where(cluster, held) == ""
    assert cluster.state(held) is QueueState.GATED
    assert where(cluster, held.label("team", "ml")) == "a"


def test_youngest_last_orders_by_priority_and_creation(tmp_path: Path) -> None:
    own_sort = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "YoungestLast"}]}}
    cluster = load(tmp_path, "YoungestLast", own_sort)
    for name, year, priority in [("new", 2026, 0), ("old", 2020, 0), ("vip", 2026, 5)]:
        cluster.add(pod(name).created(f"{year}-01-01T00:00:00Z").priority(priority))
    cluster.add(node("a"))
    cluster.run()
    assert [name for name, _ in cluster.writer.bound] == ["vip", "old", "new"]


@pytest.mark.parametrize(
    ("names", "node_name"),
    [
        pytest.param("b,c", "b", id="listed"),
        pytest.param(None, "a", id="no annotation"),
        pytest.param("gone", "", id="no such node"),
    ],
)
def test_home_nodes_narrows_the_nodes(tmp_path: Path, names: str | None, node_name: str) -> None:
    cluster = load(tmp_path, "HomeNodes")
    cluster.add(*(node(name) for name in "abc"))
    builder = pod() if names is None else pod().annotation("example.com/nodes", names)
    assert where(cluster, builder) == node_name


@pytest.mark.parametrize(("plugin", "label"), [("QuietNodes", "noisy"), ("OneLoudPod", "loud")])
def test_a_node_takes_one_such_pod(tmp_path: Path, plugin: str, label: str) -> None:
    cluster = load(tmp_path, plugin)
    cluster.add(node("a"), node("b"), pod("first", **{label: "true"}).node("a"))
    assert where(cluster, pod("second", **{label: "true"})) == "b"
    assert where(cluster, pod("third", **{label: "true"})) == ""
    assert where(cluster, pod("calm")) != ""


@pytest.mark.parametrize(("plugin", "label"), [("QuietNodes", "noisy"), ("OneLoudPod", "loud")])
def test_preemption_sees_what_evicting_would_do(tmp_path: Path, plugin: str, label: str) -> None:
    cluster = load(tmp_path, plugin)
    cluster.add(node("a"), pod("victim", **{label: "true"}).node("a"), pod("calm").node("a"))
    assert where(cluster, pod("urgent", **{label: "true"}).priority(10)) == "a"
    assert cluster.writer.deleted == ["victim"]


def test_ask_for_gpus_adds_to_the_message(tmp_path: Path) -> None:
    cluster = load(tmp_path, "AskForGpus")
    cluster.add(node("a"))
    assert where(cluster, pod().req({"nvidia.com/gpu": 1})) == ""
    assert cluster.message("p").endswith("GPUs: ask the platform team.")


def test_count_waiting_counts_decisions_and_no_questions(tmp_path: Path) -> None:
    cluster = load(tmp_path, "CountWaiting")
    cluster.add(node("a"))
    waiting = pod("p", team="red").req(cpu="100").spec(schedulerName=PROFILE)
    explain(cluster.framework, cluster.core.placers, waiting.obj())
    counter, labels = "bayplan_plugin_events_total", {"plugin": "CountWaiting", "name": "red"}
    assert cluster.metric(counter, **labels) == 0
    assert where(cluster, waiting) == ""
    assert cluster.metric(counter, **labels) == 1


def test_near_siblings_prefers_the_node_with_more_of_them(tmp_path: Path) -> None:
    cluster = load(tmp_path, "NearSiblings", scoring("NearSiblings", "preScore"))
    cluster.add(*(node(name) for name in "abc"), pod("sibling", app="web").node("c"))
    assert where(cluster, pod("second", app="web")) == "c"
    assert where(cluster, pod("stranger")) == "a"


def test_fewest_pods_prefers_the_emptiest_node(tmp_path: Path) -> None:
    cluster = load(tmp_path, "FewestPods", scoring("FewestPods"))
    cluster.add(node("a"), node("b"), pod("other").node("a"))
    assert where(cluster, pod()) == "b"


def test_licences_rejects_one_pod_too_many(tmp_path: Path) -> None:
    cluster = load(tmp_path, "Licences", count=2)
    cluster.add(node("a"), *(pod(f"p{number}", licence="true") for number in range(3)))
    cluster.run()
    assert [name for name, _ in cluster.writer.bound] == ["p0", "p1"]
    assert "no licence is free" in cluster.message("p2")


def test_licences_are_free_again_when_a_bound_pod_has_gone(tmp_path: Path) -> None:
    cluster = load(tmp_path, "Licences", count=1)
    first = pod("p0", licence="true")
    cluster.add(node("a"), first, pod("p1", licence="true"))
    cluster.run()
    assert [name for name, _ in cluster.writer.bound] == ["p0"]
    cluster.remove(first)
    cluster.wait(60)
    cluster.run()
    assert [name for name, _ in cluster.writer.bound] == ["p0", "p1"]


def test_licences_names_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="count"):
        load(tmp_path, "Licences", count="many")


def test_pairs_lets_two_go_together(tmp_path: Path) -> None:
    cluster = load(tmp_path, "Pairs")
    cluster.add(node("a"))
    assert where(cluster, pod("one", pair="x")) == ""
    assert cluster.waits_for("one") == ["Pairs"]
    assert where(cluster, pod("two", pair="x")) == "a"
    assert cluster.node_of("one") == "a"


def test_ledger_writes_only_for_audited_pods(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.txt"
    cluster = load(tmp_path, "Ledger", path=str(ledger))
    cluster.add(node("a"), pod("plain"), pod("secret", audited="true"))
    cluster.run()
    assert len(cluster.writer.bound) == 2
    assert ledger.read_text() == "default/secret a\n"


def test_ledger_says_when_it_cannot_write(tmp_path: Path) -> None:
    cluster = load(tmp_path, "Ledger", path=str(tmp_path / "no" / "folder"))
    cluster.add(node("a"))
    assert where(cluster, pod(audited="true")) == ""
    assert "the ledger cannot be written: No such file or directory" in cluster.message("p")


def test_dry_run_binder_comes_before_the_default_one(tmp_path: Path) -> None:
    at_bind = {
        "bind": {
            "disabled": [{"name": "DefaultBinder"}],
            "enabled": [{"name": "DryRunBinder"}, {"name": "DefaultBinder"}],
        }
    }
    cluster = load(tmp_path, "DryRunBinder", at_bind)
    cluster.add(node("a"), pod("dry", **{"dry-run": "true"}), pod("real"))
    cluster.run()
    assert [event.reason for event in cluster.events] == ["Scheduled", "Scheduled"]
    assert cluster.writer.bound == [("real", "a")]
    assert instance(cluster, "DryRunBinder").bind(CycleState(), pod().obj(), "a") is SKIP


def test_announce_records_an_event(tmp_path: Path) -> None:
    cluster = load(tmp_path, "Announce")
    cluster.add(node("a"), pod("p", team="ml"), pod("q", team="web"))
    cluster.run()
    notes = [event.note for event in cluster.events if event.reason != "Scheduled"]
    assert notes == ["p runs on a"]


def test_emptiest_rack_decides_between_racks_that_hold_a_group(tmp_path: Path) -> None:
    gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
    decides = {"placementScore": {"enabled": [{"name": "EmptiestRack", "weight": 100}]}}
    cluster = load(tmp_path, "EmptiestRack", decides, gates)
    cluster.add(node("full", rack="r1"), node("empty", rack="r2"), pod("old").node("full"))
    cluster.add(gang("g", 1, schedulingConstraints={"topology": [{"key": "rack"}]}))
    assert where(cluster, pod("g-0").pod_group("g")) == "empty"


def test_spare_memory_filters_and_scores_in_columns(tmp_path: Path) -> None:
    cluster = load(tmp_path, "SpareMemory", scoring("SpareMemory", "filter"))
    for name, memory in {"tiny": "512Mi", "small": "4Gi", "large": "8Gi"}.items():
        cluster.add(make_node(name).capacity(cpu="4", memory=memory, pods="9"))
    assert sorted(cluster.explain(pod())["totals"]) == ["large", "small"]
    assert where(cluster, pod()) == "large"


def test_newest_kernel_scores_by_label(tmp_path: Path) -> None:
    cluster = load(tmp_path, "NewestKernel", scoring("NewestKernel"))
    cluster.add(node("a"), node("b", kernel="6.1"), node("c", kernel="6.12"))
    plugin = instance(cluster, "NewestKernel")
    scores = plugin.score_nodes(CycleState(), pod().obj(), cluster.nodes)
    assert scores[[cluster.node(name).row for name in "abc"]].tolist() == [0, 50, 100]
    assert where(cluster, pod()) == "c"


def test_cheap_zones_notices_a_changed_namespace(tmp_path: Path) -> None:
    zone = "topology.kubernetes.io/zone"
    cluster = load(tmp_path, "CheapZones", scoring("CheapZones"))
    cluster.add(*(node(name, **{zone: name}) for name in "ab"))
    assert where(cluster, pod("before")) == "a"
    cluster.add(make_object(NAMESPACE, "default").annotation("example.com/cheap", "b"))
    assert where(cluster, pod("after")) == "b"
    cluster.add(make_object(NAMESPACE, "default").annotation("example.com/cheap", "a"))
    assert where(cluster, pod("later")) == "a"


def test_only_signed_wakes_its_pods_for_signed_nodes_alone(tmp_path: Path) -> None:
    cluster = load(tmp_path, "OnlySigned")
    cluster.add(node("a"))
    assert where(cluster, pod()) == ""
    cluster.add(node("b"))
    assert cluster.state("p") is QueueState.UNSCHEDULABLE
    cluster.add(node("c", signed="true"))
    cluster.run()
    assert cluster.node_of("p") == "c"


def test_no_maintenance_follows_objects_of_a_kind_of_its_own(tmp_path: Path) -> None:
    cluster = load(tmp_path, "NoMaintenance")
    [kind] = instance(cluster, "NoMaintenance").kinds
    maintenance = make_object(kind, "m").spec(zone="z")
    cluster.add(node("a", **{"topology.kubernetes.io/zone": "z"}), maintenance)
    assert where(cluster, pod()) == ""
    cluster.add(maintenance.label("touched"))
    assert cluster.state("p") is QueueState.UNSCHEDULABLE
    cluster.add(maintenance.spec(zone="y"))
    cluster.run()
    assert cluster.node_of("p") == "a"


def test_power_price_asks_its_service_and_a_failure_costs_the_attempt(tmp_path: Path) -> None:
    class Prices(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write({"/a": b"10", "/b": b"90"}[self.path])

        def log_message(self, *_: object) -> None:
            """Not here."""

    with HTTPServer(("127.0.0.1", 0), Prices) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        cluster = load(tmp_path, "PowerPrice", scoring("PowerPrice"), url=url, seconds=5)
        cluster.add(node("a"), node("b"))
        assert where(cluster, pod()) == "b"
        server.shutdown()
        thread.join()
    assert where(cluster, pod("late")) == ""
    assert "PowerPrice" in cluster.message("late")


@pytest.mark.parametrize(("hour", "held"), [(2, True), (3, False)])
def test_curfew_logs_and_counts_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hour: int, held: bool
) -> None:
    cluster = load(tmp_path, "Curfew")
    cluster.clock.time = hour * 3600.0
    cluster.add(node("a"))
    assert where(cluster, pod()) == ("" if held else "a")
    counted = cluster.metric("bayplan_plugin_events_total", plugin="Curfew", name="held")
    assert counted == (1 if held else 0)
    assert ("held by the curfew" in capsys.readouterr().out) is held
