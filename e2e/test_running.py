"""bayplan as a process: order, profiles, other schedulers, conflicts, replicas, its end."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from urllib.error import HTTPError

import pytest

from e2e.cluster import OTHER, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT
from e2e.provider.programs import is_reference

pytestmark = pytest.mark.e2e

HOLD = ROOT / "e2e" / "hold"


@pytest.fixture
def holding(start: Callable[..., Bayplan]) -> Bayplan:
    """A scheduler whose Pods can be made to wait in Permit, when they have their node already."""
    return start(HOLD / "config.yaml", HOLD)


def waiting_pod(cluster: Cluster, name: str) -> None:
    """A Pod that has been given a node, but not been bound."""
    cluster.create(pod(name, "hold", {"hold": name}, cpu="1"))
    wait_until(lambda: cluster.pod(name)["status"].get("nominatedNodeName"), SOON, f"{name} waits")


def release(cluster: Cluster, name: str) -> None:
    cluster.create(pod(f"{name}-release", "hold", {"release": name}))


@pytest.mark.usefixtures("priorities")
def test_the_pod_of_highest_priority_is_taken_first(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    cluster.nodes(NodeSpec("only", cpu="1"))
    for name in ("low", "high"):
        cluster.create(pod(name, OTHER, cpu="1", priorityClassName=f"e2e-{name}"))
    start(cluster.config(OTHER))
    cluster.wait_bound("high")
    cluster.wait_condition("low", text="1 Insufficient cpu")


def test_two_profiles_in_one_process_decide_by_their_own_plugins(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    strategy = {"scoringStrategy": {"type": "MostAllocated"}}
    packing = {
        "schedulerName": "packing",
        "plugins": {
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}
        },
        "pluginConfig": [{"name": "NodeResourcesFit", "args": strategy}],
    }
    cluster.nodes(NodeSpec("busy"), NodeSpec("idle"))
    cluster.create(pod("load", "nobody", cpu="4", memory="8Gi"))
    cluster.bind("load", "busy")
    start(cluster.config(profiles=[{"schedulerName": "spreading"}, packing]))
    cluster.create(pod("p", "packing", cpu="1"), pod("s", "spreading", cpu="1"))
    assert cluster.wait_bound("p", "s") == {"p": "busy", "s": "idle"}


@pytest.mark.usefixtures("deployed")
def test_pods_of_kube_scheduler_count_on_the_same_nodes(cluster: Cluster) -> None:
    if not cluster.plane.owns_parts:
        pytest.skip("the kube-scheduler of somebody else is not to be started")
    kube_scheduler = cluster.plane.start_kube_scheduler()
    cluster.nodes(NodeSpec("a", cpu="4"), NodeSpec("b", cpu="4"))
    theirs = cluster.create(*(pod(f"t{i}", "default-scheduler", cpu="1") for i in range(3)))
    cluster.wait_bound(*theirs)
    ours = cluster.create(*(pod(f"o{i}", cpu="1") for i in range(5)))
    cluster.wait_bound(*ours)
    assert cluster.overcommitted() == {}
    cluster.create(pod("o-late", cpu="1"), pod("t-late", "default-scheduler", cpu="1"))
    cluster.wait_condition("o-late", text="0/2 nodes are available: 2 Insufficient cpu")
    theirs_says = cluster.wait_condition("t-late", text="2 Insufficient cpu")
    if is_reference():  # word for word what it says of the same Pod on the same nodes
        assert cluster.condition("o-late")["message"] == theirs_says
    cluster.delete("t-late")  # two schedulers after one place may both take it
    cluster.delete("t0")
    cluster.wait_bound("o-late")
    assert cluster.overcommitted() == {}
    assert kube_scheduler is not None
    kube_scheduler.stop()


def test_a_waiting_pod_is_bound_when_another_one_lets_it_go(
    cluster: Cluster, holding: Bayplan
) -> None:
    cluster.nodes(NodeSpec("n1"))
    waiting_pod(cluster, "waits")
    assert cluster.node_of("waits") == ""
    release(cluster, "waits")
    cluster.wait_bound("waits")
    wait_until(holding.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_a_waiting_pod_whose_time_is_up_gives_its_node_back(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    profile = {
        "schedulerName": "hold",
        "plugins": {"permit": {"enabled": [{"name": "Hold"}]}},
        "pluginConfig": [{"name": "Hold", "args": {"seconds": 1}}],
    }
    cluster.nodes(NodeSpec("only", cpu="1"))
    start(cluster.config(profiles=[profile]), HOLD)
    cluster.create(pod("alone", "hold", {"hold": "alone"}, cpu="1"))
    cluster.wait_condition("alone", text="rejected due to timeout after waiting 1s at plugin Hold")
    cluster.create(pod("other", "hold", cpu="1"))
    cluster.wait_bound("other")


@pytest.mark.usefixtures("holding")
def test_a_permit_plugin_rejects_a_pod(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("n1"))
    cluster.create(pod("p", "hold", {"denied": ""}))
    assert "denied by its label" in cluster.wait_condition("p")


def test_a_pod_that_is_deleted_while_it_is_being_bound_is_forgotten(
    cluster: Cluster, holding: Bayplan
) -> None:
    cluster.nodes(NodeSpec("only", cpu="1"))
    waiting_pod(cluster, "gone")
    cluster.delete("gone")
    cluster.create(pod("next", "hold", cpu="1"))
    cluster.wait_bound("next")
    wait_until(holding.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_a_pod_that_somebody_else_binds_meanwhile_stays_where_it_is(
    cluster: Cluster, holding: Bayplan
) -> None:
    cluster.nodes(NodeSpec("n1", cpu="2"))
    waiting_pod(cluster, "taken")
    cluster.nodes(NodeSpec("n2", cpu="1"))
    cluster.bind("taken", "n2")
    release(cluster, "taken")
    cluster.wait_bound("taken-release")
    assert cluster.node_of("taken") == "n2"
    # The room that it had on n1 is free again, that on n2 is not.
    cluster.create(*(pod(name, "hold", cpu="1") for name in ("x", "y", "z")))
    wait_until(lambda: sum(bool(cluster.node_of(n)) for n in "xyz") == 2, SOON, "two more")
    assert cluster.overcommitted() == {}
    wait_until(holding.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_what_bayplan_holds_is_what_the_api_server_has_after_all_that(
    cluster: Cluster, deployed: Bayplan
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    names = cluster.create(*(pod(f"p{i}", cpu="100m") for i in range(20)))
    cluster.wait_bound(*names)
    wait_until(deployed.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_metrics_tell_of_attempts_and_waiting_pods(cluster: Cluster, deployed: Bayplan) -> None:
    cluster.nodes(NodeSpec("n1", cpu="1"))
    scheduled = {"result": "scheduled", "profile": "bayplan"}
    before = deployed.metric("scheduler_schedule_attempts_total", **scheduled)
    cluster.create(pod("p", cpu="1"))
    cluster.wait_bound("p")
    cluster.create(pod("q", cpu="1"))
    cluster.wait_condition("q")
    assert deployed.metric("scheduler_schedule_attempts_total", **scheduled) == before + 1
    assert deployed.metric("scheduler_pending_pods", queue="unschedulable") == 1
    assert deployed.metric("scheduler_pod_scheduling_attempts_count") >= 1


def test_when_the_leader_is_killed_the_other_replica_goes_on(own: Cluster) -> None:
    lease = {"resourceName": "bayplan", "resourceNamespace": SYSTEM}
    times = {"leaseDuration": "12s", "renewDeadline": "9s", "retryPeriod": "1s"}
    config = own.config(leaderElection=lease | times | {"leaderElect": True})
    own.nodes(*(NodeSpec(f"n{i}", cpu="4") for i in range(10)))
    replicas = [own.bayplan(config).start(), own.bayplan(config).start()]
    first = own.create(*(pod(f"a{i}", cpu="100m") for i in range(50)))
    own.wait_bound(*first)
    leader = next(r for r in replicas if r.lines("Leading"))
    other = next(r for r in replicas if r is not leader)
    assert other.lines("Leading") == []
    second = own.create(*(pod(f"b{i}", cpu="100m") for i in range(50)))
    leader.kill()
    third = own.create(*(pod(f"c{i}", cpu="100m") for i in range(50)))
    nodes = own.wait_bound(*first, *second, *third)
    assert other.lines("Leading")
    assert len(nodes) == 150
    assert own.overcommitted() == {}
    bound = [line["pod"] for r in replicas for line in r.lines("Successfully bound pod to node")]
    assert len(bound) == len(set(bound)), "nothing is bound twice"
    wait_until(other.holds_what_the_api_server_has, SOON, "no difference to the API server")
    other.signal(signal.SIGTERM)
    assert other.wait(SOON) == 0


def test_who_leads_gives_the_lease_up_when_told_to_end(own: Cluster) -> None:
    own.nodes(NodeSpec("n1"))
    lease = {"resourceName": "bayplan", "resourceNamespace": SYSTEM, "leaseDuration": "10m"}
    times = {"renewDeadline": "5m", "retryPeriod": "1s"}
    config = own.config(leaderElection=lease | times | {"leaderElect": True})
    first, second = own.bayplan(config).start(), own.bayplan(config)
    wait_until(lambda: first.lines("Leading"), SOON, "the first leads")
    second.start()
    first.signal(signal.SIGTERM)
    assert first.wait(SOON) == 0
    # The lease lasts ten minutes: only because it was given up is the second one in time.
    own.create(pod("p"))
    own.wait_bound("p")
    assert second.lines("Leading")
    second.kill()


def test_who_loses_the_lease_ends_at_once(own: Cluster) -> None:
    bayplan = own.bayplan().start()
    wait_until(lambda: bayplan.lines("Leading"), SOON, "it leads")
    thief = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}}
    own.kubectl("patch", "lease", "bayplan", f"--patch={json.dumps(thief)}", namespace=SYSTEM)
    assert bayplan.wait(SOON) == 1
    assert bayplan.lines("Leader election lost, ending at once")


def test_on_sigterm_no_pod_is_taken_any_more_and_none_is_left_half_bound(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    cluster.nodes(*(NodeSpec(f"n{i}") for i in range(5)))
    slowly = {"clientConnection": {"qps": 50, "burst": 1}}
    bayplan = start(cluster.config(OTHER, **slowly))
    names = cluster.create(*(pod(f"p{i}", OTHER, cpu="10m") for i in range(150)))
    bayplan.signal(signal.SIGTERM)
    wait_until(lambda: not bayplan.endpoint.answers("/readyz"), SOON, "it is no longer ready")
    cluster.create(pod("late", OTHER, cpu="10m"))
    assert bayplan.wait(SOON) == 0
    said = {line["pod"].split("/")[1] for line in bayplan.lines("Successfully bound pod to node")}
    assert {name for name in (*names, "late") if cluster.node_of(name)} == said
    assert said
    assert "late" not in said
    assert "Traceback" not in bayplan.log.read_text()


def test_a_replica_that_may_not_use_the_lease_is_not_ready_and_says_why(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    lease = {"leaderElect": True, "resourceName": "bayplan", "resourceNamespace": "default"}
    bayplan = start(cluster.config(OTHER, leaderElection=lease), ready="/livez")

    def lease_is_named() -> bool:
        try:
            bayplan.endpoint.get("/readyz")
        except HTTPError as answer:
            return "Lease: " in (said := answer.read().decode()) and "forbidden" in said
        return False

    wait_until(lease_is_named, SOON, "the Lease on /readyz")
    assert bayplan.metric("bayplan_lease_failing", name="bayplan") == 1
    assert bayplan.metric("leader_election_master_status", name="bayplan") == 0
    bayplan.signal(signal.SIGTERM)
    assert bayplan.wait(SOON) == 0


def test_a_leader_says_so_in_metrics_and_events(own: Cluster) -> None:
    bayplan = own.bayplan().start()
    wait_until(lambda: bayplan.lines("Leading"), SOON, "it leads")
    assert bayplan.metric("leader_election_master_status", name="bayplan") == 1
    assert bayplan.metric("bayplan_leader_info", name="bayplan") == 1

    def became_leader() -> bool:
        items = json.loads(own.kubectl("get", "events", "-o=json", namespace=SYSTEM))["items"]
        notes = [e["message"] for e in items if e["reason"] == "LeaderElection"]
        return any(note.endswith(" became leader") for note in notes)

    wait_until(became_leader, SOON, "the event")
    bayplan.kill()


def test_every_metric_of_the_documents_is_served(cluster: Cluster, deployed: Bayplan) -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    prefixes = "scheduler|bayplan|rest|process|leader|kubernetes|dynamic"
    listed = set(re.findall(rf"^\| `((?:{prefixes})_\w+)`", text, re.MULTILINE))
    cluster.nodes(NodeSpec("n1"))
    cluster.create(pod("p"))
    cluster.wait_bound("p")
    served = re.findall(r"^# TYPE (\w+)", deployed.endpoint.get("/metrics").decode(), re.MULTILINE)
    of_shadows = {name for name in listed if name.startswith("bayplan_shadow_")}
    assert listed - of_shadows == set(served)
    assert of_shadows
