"""Every plugin that docs/plugins.md shows works as the text beside it says."""

from __future__ import annotations

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from tests.docs.guide import PROFILE, SOURCES, rig

from bayplan.api.kinds import NAMESPACE, NODE, POD, Kind
from bayplan.api.meta import GenericObject
from bayplan.api.workloads import Namespace
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.faults import AttemptFault
from bayplan.framework.status import SKIP, SUCCESS, WAIT, Status
from bayplan.testing import make_node, make_pod
from bayplan.testing.nodes import NodeBuilder
from bayplan.testing.pods import PodBuilder

TESTED = {
    "AvoidNode",
    "Polling",
    "TeamFirst",
    "YoungestLast",
    "HomeNodes",
    "QuietNodes",
    "AskForGpus",
    "NearSiblings",
    "FewestPods",
    "Licences",
    "Pairs",
    "Ledger",
    "DryRunBinder",
    "Announce",
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
    return make_pod(name).req(cpu="100m").labels(labels).spec(schedulerName=PROFILE)


def test_every_plugin_of_the_guide_is_tested_here() -> None:
    assert set(SOURCES) == TESTED


def test_avoid_node_rejects_labelled_nodes(tmp_path: Path) -> None:
    nodes = [node("a", avoid="true").obj(), node("b").obj()]
    found = rig(tmp_path, "AvoidNode", nodes).select(pod().obj())
    assert found.node_name == "b"


def test_avoid_node_says_why_nothing_fits(tmp_path: Path) -> None:
    found = rig(tmp_path, "AvoidNode", [node("a", avoid="true").obj()]).select(pod().obj())
    assert found.diagnosis is not None
    assert found.diagnosis.message == "0/1 nodes are available: 1 node(s) were to be avoided."


def test_polling_rejects_what_is_on_its_list_and_ends_its_thread(tmp_path: Path) -> None:
    guide = rig(tmp_path, "Polling", [node("a").obj(), node("b").obj()])
    guide.plugin.banned = frozenset({"a"})
    assert guide.select(pod().obj()).node_name == "b"
    [thread] = [t for t in threading.enumerate() if "_poll" in t.name]
    guide.core.profiles.close()
    thread.join(30)
    assert not thread.is_alive()


def test_team_first_holds_a_pod_until_it_has_the_label(tmp_path: Path) -> None:
    guide = rig(tmp_path, "TeamFirst", [node("a").obj()])
    unlabelled = pod().meta(resourceVersion="1")
    guide.set(POD, unlabelled.obj())
    assert guide.place(unlabelled.obj()) == "gated"
    labelled = unlabelled.label("team", "ml").meta(resourceVersion="2")
    guide.set(POD, labelled.obj())
    assert guide.place(labelled.obj()) == "active"


def test_youngest_last_orders_by_priority_and_creation(tmp_path: Path) -> None:
    own_sort = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "YoungestLast"}]}}
    guide = rig(tmp_path, "YoungestLast", [node("a").obj()], own_sort)
    for name, year, priority in [("new", 2026, 0), ("old", 2020, 0), ("vip", 2026, 5)]:
        created = f"{year}-01-01T00:00:00Z"
        guide.set(POD, pod(name).created(created).priority(priority).obj())
    order = [guide.core.world.queue.pop() for _ in range(3)]
    assert [q and q.pod.name for q in order] == ["vip", "old", "new"]


@pytest.mark.parametrize(
    ("names", "node_name"),
    [
        pytest.param("b,c", "b", id="listed"),
        pytest.param(None, "a", id="no annotation"),
        pytest.param("gone", "", id="no such node"),
    ],
)
def test_home_nodes_narrows_the_nodes(tmp_path: Path, names: str | None, node_name: str) -> None:
    guide = rig(tmp_path, "HomeNodes", [node(n).obj() for n in "abc"])
    wanted = pod() if names is None else pod().annotation("example.com/nodes", names)
    assert guide.select(wanted.obj()).node_name == node_name


@pytest.mark.parametrize(("plugin", "label"), [("QuietNodes", "noisy"), ("OneLoudPod", "loud")])
def test_a_node_takes_one_such_pod(tmp_path: Path, plugin: str, label: str) -> None:
    guide = rig(tmp_path, plugin, [node("a").obj(), node("b").obj()])
    guide.set(POD, pod("first", **{label: "true"}).node("a").obj())
    assert guide.select(pod("second", **{label: "true"}).obj()).node_name == "b"
    assert guide.select(pod("calm").obj()).node_name != ""


@pytest.mark.parametrize(("plugin", "label"), [("QuietNodes", "noisy"), ("OneLoudPod", "loud")])
def test_preemption_sees_what_evicting_would_do(tmp_path: Path, plugin: str, label: str) -> None:
    guide = rig(tmp_path, plugin, [node("a").obj()])
    guide.set(POD, pod("victim", **{label: "true"}).node("a").obj())
    urgent = pod("urgent", **{label: "true"}).priority(10).obj()
    state = CycleState(dry_run=True)
    found = guide.core.selector.select(guide.framework, state, urgent)
    assert found.diagnosis is not None
    result = guide.framework.post_filter(state, urgent, found.diagnosis)
    assert result.nominated_node == "a"


def test_ask_for_gpus_adds_to_the_message(tmp_path: Path) -> None:
    guide = rig(tmp_path, "AskForGpus", [node("a").obj()])
    wanting = pod().req({"nvidia.com/gpu": 1}).obj()
    state = CycleState(dry_run=True)
    found = guide.core.selector.select(guide.framework, state, wanting)
    assert found.diagnosis is not None
    result = guide.framework.post_filter(state, wanting, found.diagnosis)
    assert result.status.reasons[-1] == "GPUs: ask the platform team."


def test_near_siblings_prefers_the_node_with_more_of_them(tmp_path: Path) -> None:
    heavy = {
        "preScore": {"enabled": [{"name": "NearSiblings"}]},
        "score": {"enabled": [{"name": "NearSiblings", "weight": 100}]},
    }
    guide = rig(tmp_path, "NearSiblings", [node(n).obj() for n in "abc"], heavy)
    guide.set(POD, pod("sibling", app="web").node("c").obj())
    assert guide.select(pod(app="web").obj()).node_name == "c"
    assert guide.select(pod().obj()).node_name == "a"


def test_fewest_pods_prefers_the_emptiest_node(tmp_path: Path) -> None:
    heavy = {"score": {"enabled": [{"name": "FewestPods", "weight": 100}]}}
    guide = rig(tmp_path, "FewestPods", [node(n).obj() for n in "ab"], heavy)
    guide.set(POD, pod("other").node("a").obj())
    assert guide.select(pod().obj()).node_name == "b"


def test_licences_turns_down_one_pod_too_many(tmp_path: Path) -> None:
    guide = rig(tmp_path, "Licences", [node("a").obj()], count=2)
    for number, reasons in enumerate([(), (), ("no licence is free",)]):
        assumed = guide.core.world.cache.assume(pod(f"p{number}", licence="true").obj(), "a")
        status = guide.framework.lifecycle.reserve(CycleState(), assumed, "a")
        assert status.reasons == reasons


def test_licences_names_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="count"):
        rig(tmp_path, "Licences", [node("a").obj()], count="many")


def test_pairs_lets_two_go_together(tmp_path: Path) -> None:
    guide = rig(tmp_path, "Pairs", [node("a").obj()])
    permit = guide.framework.lifecycle.permit
    first, second = pod("one", pair="x").node("a").obj(), pod("two", pair="x").node("a").obj()
    status, waits = permit(CycleState(), first, "a")
    assert (status, waits) == (WAIT, {"Pairs": 60.0})
    verdicts: list[object] = []
    guide.core.world.waiting.add(first, waits, lambda verdict, _: verdicts.append(verdict))
    assert permit(CycleState(), second, "a") == (SUCCESS, {})
    assert verdicts == [SUCCESS]


def test_ledger_writes_only_for_audited_pods(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.txt"
    guide = rig(tmp_path, "Ledger", [node("a").obj()], path=str(ledger))
    plain, audited = pod().obj(), pod("secret", audited="true").obj()
    assert guide.plugin.pre_bind_pre_flight(CycleState(), plain, "a") is SKIP
    assert guide.plugin.pre_bind_pre_flight(CycleState(), audited, "a") is SUCCESS
    assert guide.framework.lifecycle.pre_bind(CycleState(), audited, "a").ok
    assert ledger.read_text() == "default/secret a\n"


def test_ledger_says_when_it_cannot_write(tmp_path: Path) -> None:
    guide = rig(tmp_path, "Ledger", [node("a").obj()], path=str(tmp_path / "no" / "folder"))
    status = guide.plugin.pre_bind(CycleState(), pod(audited="true").obj(), "a")
    assert status.message == "the ledger cannot be written: No such file or directory"


def test_dry_run_binder_comes_before_the_default_one(tmp_path: Path) -> None:
    at_bind = {
        "bind": {
            "disabled": [{"name": "DefaultBinder"}],
            "enabled": [{"name": "DryRunBinder"}, {"name": "DefaultBinder"}],
        }
    }
    guide = rig(tmp_path, "DryRunBinder", [node("a").obj()], at_bind)
    assert [p.name for p in guide.framework.plugins.bind] == ["DryRunBinder", "DefaultBinder"]
    dry = pod(**{"dry-run": "true"}).obj()
    outcomes: list[Status] = []
    guide.framework.lifecycle.bind(CycleState(), dry, "a", outcomes.append)
    assert outcomes == [SUCCESS]
    assert guide.plugin.bind(CycleState(), pod().obj(), "a") is SKIP


def test_announce_records_an_event(tmp_path: Path) -> None:
    guide = rig(tmp_path, "Announce", [node("a").obj()])
    guide.framework.lifecycle.post_bind(CycleState(), pod("p", team="ml").obj(), "a")
    guide.framework.lifecycle.post_bind(CycleState(), pod("q", team="web").obj(), "a")
    assert guide.events.notes == ["p runs on a"]


def test_spare_memory_filters_and_scores_in_columns(tmp_path: Path) -> None:
    heavy = {
        "filter": {"enabled": [{"name": "SpareMemory"}]},
        "score": {"enabled": [{"name": "SpareMemory", "weight": 100}]},
    }
    sizes = {"tiny": "512Mi", "small": "4Gi", "large": "8Gi"}
    nodes = [make_node(n).capacity(cpu="4", memory=m, pods="9").obj() for n, m in sizes.items()]
    guide = rig(tmp_path, "SpareMemory", nodes, heavy)
    found = guide.select(pod().obj())
    assert found.node_name == "large"
    assert found.fit is not None
    assert found.fit.count == 2


def test_newest_kernel_scores_by_label(tmp_path: Path) -> None:
    heavy = {"score": {"enabled": [{"name": "NewestKernel", "weight": 100}]}}
    nodes = [node("a").obj(), node("b", kernel="6.1").obj(), node("c", kernel="6.12").obj()]
    guide = rig(tmp_path, "NewestKernel", nodes, heavy)
    scores = guide.plugin.score_nodes(CycleState(), pod().obj(), guide.core.world.cache.nodes)
    assert scores[[guide.core.world.cache.nodes.row(n) for n in "abc"]].tolist() == [0, 50, 100]
    assert guide.select(pod().obj()).node_name == "c"


def test_cheap_zones_notices_a_changed_namespace(tmp_path: Path) -> None:
    heavy = {"score": {"enabled": [{"name": "CheapZones", "weight": 100}]}}
    zone = "topology.kubernetes.io/zone"
    guide = rig(tmp_path, "CheapZones", [node(z, **{zone: z}).obj() for z in "ab"], heavy)
    assert guide.select(pod("before").obj()).node_name == "a"
    annotations = {"example.com/cheap": "b"}
    namespace = {"metadata": {"name": "default", "annotations": annotations}}
    guide.set(NAMESPACE, _namespace(namespace))
    assert guide.select(pod("after").obj()).node_name == "b"


def _namespace(data: object) -> Namespace:
    return msgspec.convert(data, Namespace)


def test_only_signed_wakes_its_pods_for_signed_nodes_alone(tmp_path: Path) -> None:
    guide = rig(tmp_path, "OnlySigned", [node("a").obj()])
    waiting = pod().obj()
    guide.set(POD, waiting)
    queued = guide.core.world.queue.pop()
    assert queued is not None
    assert guide.select(waiting).node_name == ""
    guide.core.world.queue.add_unschedulable_if_not_present(queued, {"OnlySigned"})
    guide.set(NODE, node("b").obj())
    assert guide.place(waiting) == "unschedulable"
    guide.set(NODE, node("c", signed="true").obj())
    assert guide.place(waiting) != "unschedulable"


def test_no_maintenance_follows_objects_of_a_kind_of_its_own(tmp_path: Path) -> None:
    zone = {"topology.kubernetes.io/zone": "z"}
    guide = rig(tmp_path, "NoMaintenance", [node("a", **zone).obj()])
    [kind] = guide.plugin.kinds
    waiting = pod().obj()
    guide.set(kind, _maintenance(kind, "z", "1"))
    guide.set(POD, waiting)
    queued = guide.core.world.queue.pop()
    assert queued is not None
    assert guide.select(waiting).node_name == ""
    guide.core.world.queue.add_unschedulable_if_not_present(queued, {"NoMaintenance"})
    guide.set(kind, _maintenance(kind, "z", "2"))
    assert guide.place(waiting) == "unschedulable"
    guide.set(kind, _maintenance(kind, "y", "3"))
    assert guide.place(waiting) != "unschedulable"
    assert guide.select(waiting).node_name == "a"


def _maintenance(kind: Kind[GenericObject], zone: str, version: str) -> GenericObject:
    metadata = {"name": "m", "resourceVersion": version}
    return kind.decode(msgspec.json.encode({"metadata": metadata, "spec": {"zone": zone}}))


def test_power_price_asks_its_service_and_a_failure_costs_the_attempt(tmp_path: Path) -> None:
    class Prices(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write({"/a": b"10", "/b": b"90"}[self.path])

        def log_message(self, *_: object) -> None:
            """Not here."""

    heavy = {"score": {"enabled": [{"name": "PowerPrice", "weight": 100}]}}
    with HTTPServer(("127.0.0.1", 0), Prices) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        nodes = [node("a").obj(), node("b").obj()]
        guide = rig(tmp_path, "PowerPrice", nodes, heavy, url=url, seconds=5)
        assert guide.select(pod().obj()).node_name == "b"
        server.shutdown()
        thread.join()
    with pytest.raises(AttemptFault, match="PowerPrice"):
        guide.select(pod("late").obj())


@pytest.mark.parametrize(("hour", "held"), [(2, 1.0), (3, None)])
def test_curfew_logs_and_counts_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hour: int, held: float | None
) -> None:
    guide = rig(tmp_path, "Curfew", [node("a").obj()])
    guide.plugin.handle = replace(guide.plugin.handle, now=lambda: hour * 3600.0)
    assert guide.select(pod().obj()).node_name == ("" if held else "a")
    labels = {"plugin": "Curfew", "name": "held"}
    assert guide.metrics.registry.get_sample_value("bayplan_plugin_events_total", labels) == held
    assert ("held by the curfew" in capsys.readouterr().out) is bool(held)
