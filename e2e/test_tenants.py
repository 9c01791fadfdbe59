"""Tenants on a real API server: room is lent and taken back, limits hold, Queues change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT
from e2e.test_groups import LABEL

pytestmark = pytest.mark.e2e

CRDS = [f"--filename={ROOT / 'deploy' / 'crds' / name}.yaml" for name in ("queues", "podgroups")]
RED, BLUE, GREEN, GREY = TEAMS = ("e2e-red", "e2e-blue", "e2e-green", "e2e-grey")
FIRST = {"enabled": [{"name": "FairShare"}]}
PLUGINS = {
    "multiPoint": {
        "enabled": [{"name": "Coscheduling"}, {"name": "FairShare"}],
        "disabled": [{"name": "PrioritySort"}],
    },
    "postFilter": FIRST,
    "podGroupPostFilter": FIRST,
}
PROFILE = {"schedulerName": OTHER, "plugins": PLUGINS}
EVICTIONS = "bayplan_queue_evictions_total"


@pytest.fixture(scope="module")
def namespaces(shared: Cluster) -> Iterator[list[Json]]:
    """The CRDs, and a namespace for each team."""
    shared.kubectl("apply", *CRDS)
    shared.kubectl("wait", "--for=condition=Established", *CRDS, "--timeout=300s")
    metas = [{"name": name, "labels": {"team": name}} for name in TEAMS]
    yield [{"apiVersion": "v1", "kind": "Namespace", "metadata": meta} for meta in metas]
    shared.kubectl("delete", "namespace", *TEAMS)


@pytest.fixture
def tenants(cluster: Cluster, namespaces: list[Json]) -> Iterator[Cluster]:
    """The teams' namespaces with their labels; no Queue, group or Pod is left behind."""
    cluster.put(*namespaces)
    for name in TEAMS:
        wait_until(lambda name=name: has_account(cluster, name), SOON, "a ServiceAccount")  # type: ignore[misc]
    yield cluster
    cluster.kubectl("delete", "queues", "--all")
    for name in TEAMS:
        cluster.kubectl("delete", "deployments,podgroups,pods", "--all", "--force", namespace=name)
    wait_until(lambda: not any(pods(cluster, name) for name in TEAMS), SOON, "the end of Pods")


@pytest.fixture
def bayplan(tenants: Cluster, start: Callable[..., Bayplan]) -> Bayplan:
    """A scheduler with FairShare and Coscheduling."""
    return start(tenants.config(profiles=[PROFILE]))


def has_account(cluster: Cluster, namespace: str) -> bool:
    """Whether Pods can be made there."""
    found = cluster.kubectl("get", "serviceaccounts", "-o=name", namespace=namespace)
    return "serviceaccount/default" in found


def queue(cluster: Cluster, name: str, team: str = "", **spec: Any) -> None:
    """Make or change a Queue."""
    if team:
        spec["namespaceSelector"] = {"matchLabels": {"team": team}}
    meta = {"name": name}
    document = {"apiVersion": "bayplan.dev/v1alpha1", "kind": "Queue", "metadata": meta}
    cluster.put({**document, "spec": spec})


def deploy(cluster: Cluster, namespace: str, replicas: int, cpu: str = "1") -> None:
    """A Deployment; what is evicted is made anew."""
    one = pod("main", OTHER, cpu=cpu)
    labels = {"app": "main"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": one["spec"]},
    }
    del spec["template"]["spec"]["terminationGracePeriodSeconds"]  # type: ignore[index]
    meta = {"name": "main"}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    cluster.put(document, namespace=namespace)


def gang(cluster: Cluster, namespace: str, number: int) -> None:
    """A PodGroup of so many Pods of one CPU, which need each other."""
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    rest = {"metadata": {"name": "g"}, "spec": {"minMember": number}}
    cluster.put(group | rest, namespace=namespace)
    create(
        cluster, namespace, *(pod(f"g-{i}", OTHER, {LABEL: "g"}, cpu="1") for i in range(number))
    )


def create(cluster: Cluster, namespace: str, *pods: Json) -> None:
    """Make Pods, which no controller makes anew."""
    for one in pods:
        cluster.api.create_namespaced_pod(namespace, one, _preload_content=False)


def pods(cluster: Cluster, namespace: str) -> list[Json]:
    """The Pods of a namespace."""
    return list(cluster.pods(namespace).values())


def staying(cluster: Cluster, namespace: str) -> list[str]:
    """The names of its Pods that have a node and stay."""
    return [
        p["metadata"]["name"]
        for p in pods(cluster, namespace)
        if p["spec"].get("nodeName") and "deletionTimestamp" not in p["metadata"]
    ]


def bound(cluster: Cluster, *namespaces: str) -> tuple[int, ...]:
    """How many of their Pods have a node and stay."""
    return tuple(len(staying(cluster, namespace)) for namespace in namespaces)


def wait_for(cluster: Cluster, *numbers: int) -> None:
    """Wait until so many Pods have nodes: of red, blue, green and grey."""
    teams = TEAMS[: len(numbers)]
    try:
        wait_until(lambda: bound(cluster, *teams) == numbers, SOON, f"{numbers} Pods of {teams}")
    except TimeoutError as error:
        found = bound(cluster, *teams), [verdicts(cluster, name) for name in teams]
        raise TimeoutError(f"{error}; there are {found}") from None


def verdicts(cluster: Cluster, namespace: str) -> Counter[tuple[str, str]]:
    """Reason and message of the condition of each Pod that waits."""
    conditions = [c for p in pods(cluster, namespace) for c in p["status"].get("conditions", ())]
    waiting = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return Counter((c.get("reason", ""), c.get("message", "")) for c in waiting)


@pytest.mark.usefixtures("priorities")
def test_classes_of_pods_have_quotas_of_their_own(cluster: Cluster, bayplan: Bayplan) -> None:
    cluster.nodes(NodeSpec("t1", cpu="8"))
    queue(cluster, "red", RED, limit={"cpu": 3})
    low = {"priorityClassNames": ["e2e-low"], "limit": {"cpu": 2}}
    queue(cluster, "red-low", RED, parent="red", **low)
    queue(cluster, "red-small", RED, parent="red", qosClasses=["BestEffort"], limit={"pods": 1})
    lowly = [pod(f"low-{i}", OTHER, cpu="1", priorityClassName="e2e-low") for i in range(3)]
    create(cluster, RED, *lowly, *(pod(f"small-{i}", OTHER) for i in range(2)))
    wait_for(cluster, 3)
    create(cluster, RED, *(pod(f"other-{i}", OTHER, cpu="1") for i in range(2)))
    wait_for(cluster, 4)
    held = {
        "limit of cpu of queue red-low is 2: 2 used, 1 requested",
        "limit of pods of queue red-small is 1: 1 used, 1 requested",
        "limit of cpu of queue red is 3: 3 used, 1 requested. "
        "reclaim: would be undone by queue red-low",
    }
    wait_until(lambda: {text for _, text in verdicts(cluster, RED)} == held, SOON, "three reasons")
    assert bayplan.metric("bayplan_queue_used", queue="red-low", resource="cpu") == 2

    # Its Pods belong to red, which is full, and where others have a higher priority.
    cluster.kubectl("delete", "queue", "red-low")
    others = {"other-0", "other-1"}
    wait_until(lambda: others <= {*staying(cluster, RED)}, SOON, "both to have nodes")
    assert bound(cluster, RED) == (4,)
    assert bayplan.metric(EVICTIONS, queue="", rule="priority") == 1


def test_room_is_lent_and_taken_back_once(cluster: Cluster, bayplan: Bayplan) -> None:
    cluster.nodes(NodeSpec("t1", cpu="4"), NodeSpec("t2", cpu="4"))
    queue(cluster, "red", RED, guaranteed={"cpu": 4})
    queue(cluster, "blue", BLUE)
    deploy(cluster, BLUE, 8)
    wait_for(cluster, 0, 8)

    deploy(cluster, RED, 4)
    wait_for(cluster, 4, 4)

    def four_wait() -> bool:
        return verdicts(cluster, BLUE).total() == 4

    wait_until(four_wait, SOON, "what was evicted to be made anew and to wait")
    assert bayplan.metric(EVICTIONS, queue="blue", rule="guaranteed") == 4
    assert bayplan.metric("bayplan_queue_used", queue="red", resource="cpu") == 4
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    # Nobody takes anything back.
    assert bayplan.metric(EVICTIONS, queue="red", rule="share") == 0
    assert bound(cluster, RED) == (4,)

    # What red does not need any more is lent again.
    deploy(cluster, RED, 1)
    wait_for(cluster, 1, 7)


def test_a_gang_takes_its_room_from_three_tenants_at_once(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster.nodes(*(NodeSpec(f"t{i}", cpu="4") for i in range(3)))
    queue(cluster, "red", RED, guaranteed={"cpu": 6})
    for name in ("blue", "green", "grey"):
        queue(cluster, name, f"e2e-{name}")
        deploy(cluster, f"e2e-{name}", 4)
    wait_for(cluster, 0, 4, 4, 4)

    gang(cluster, RED, 6)
    wait_for(cluster, 6, 2, 2, 2)
    evicted = [
        bayplan.metric(EVICTIONS, queue=name, rule="guaranteed")
        for name in ("blue", "green", "grey")
    ]
    assert evicted == [2, 2, 2]
    found = json.loads(cluster.kubectl("get", "events", "-o=json", namespace=RED))["items"]
    (said,) = (e["message"] for e in found if e["message"].startswith("MakingRoom"))
    for name in ("blue", "green", "grey"):
        assert f"2 Pods of queue {name}" in said
    assert said.endswith("are evicted, so that 6 Pods fit")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_a_limit_holds_until_it_is_raised_or_the_queue_is_gone(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster.nodes(NodeSpec("t1", cpu="8"))
    queue(cluster, "red", RED, limit={"cpu": 2})
    deploy(cluster, RED, 4)
    verdict = "QueueLimit", "limit of cpu of queue red is 2: 2 used, 1 requested"
    wait_until(lambda: verdicts(cluster, RED) == {verdict: 2}, SOON, "two Pods to be held")
    assert bound(cluster, RED) == (2,)

    queue(cluster, "red", RED, limit={"cpu": 3})
    wait_for(cluster, 3, 0)
    cluster.kubectl("delete", "queue", "red")
    wait_for(cluster, 4, 0)
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


@pytest.mark.usefixtures("priorities")
def test_pods_that_a_limit_holds_back_take_the_place_of_lower_priorities(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    """What is evicted is made anew and waits; it does not get the room that it has left."""
    cluster.nodes(NodeSpec("t1", cpu="4"), NodeSpec("t2", cpu="4"))
    queue(cluster, "all", limit={"cpu": 4})
    queue(cluster, "red", RED, parent="all")
    deploy(cluster, RED, 5)
    wait_for(cluster, 4, 0)
    urgent = [pod(f"urgent-{i}", OTHER, cpu="1", priorityClassName="e2e-high") for i in range(2)]
    large = pod("large", OTHER, cpu="5", priorityClassName="e2e-high")
    polite = pod("polite", OTHER, cpu="1", priorityClassName="e2e-polite")
    create(cluster, RED, polite, large, *urgent)
    names = {"urgent-0", "urgent-1"}
    wait_until(lambda: names <= {*staying(cluster, RED)}, SOON, "both to have nodes")
    wait_for(cluster, 4, 0)
    wait_until(lambda: verdicts(cluster, RED).total() == 5, SOON, "who was evicted to wait again")
    assert {reason for reason, _ in verdicts(cluster, RED)} == {"QueueLimit"}
    assert all(
        text.startswith("limit of cpu of queue all is 4: ") for _, text in verdicts(cluster, RED)
    )
    assert names <= {*staying(cluster, RED)}
    assert bayplan.metric(EVICTIONS, queue="", rule="priority") == 2
    for name in ("repeated", "in_vain"):
        assert bayplan.metric(f"bayplan_preemptions_{name}_total") == 0
    assert bayplan.metric("bayplan_queue_used", queue="all", resource="cpu") == 4
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


@pytest.mark.usefixtures("bayplan")
def test_a_namespace_that_moves_to_another_queue_has_its_limits(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("t1", cpu="8"))
    queue(cluster, "red", RED, limit={"cpu": 1})
    queue(cluster, "large", "large", limit={"cpu": 3})
    deploy(cluster, RED, 4)
    wait_for(cluster, 1, 0)
    cluster.kubectl("label", "namespace", RED, "team=large", "--overwrite")
    wait_for(cluster, 3, 0)
    (verdict,) = verdicts(cluster, RED)
    wait_until(lambda: "queue large" in next(iter(verdicts(cluster, RED)))[1], SOON, str(verdict))


@pytest.mark.usefixtures("bayplan")
def test_the_state_of_queues_is_shown(cluster: Cluster) -> None:
    cluster.nodes(NodeSpec("t1", cpu="8"))
    queue(cluster, "all", limit={"cpu": 6})
    queue(cluster, "red", RED, parent="all")
    deploy(cluster, RED, 7)
    wait_for(cluster, 6, 0)
    command = [sys.executable, "-m", "bayplan", "queues", "-o", "json"]
    command += ["--kubeconfig", str(cluster.plane.kubeconfig)]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert [(one["queue"], one["depth"], one["pending"]) for one in shown] == [
        ("all", 0, 1),
        ("red", 1, 1),
    ]
    assert shown[1]["resources"]["cpu"]["used"] == 6000


@pytest.mark.usefixtures("bayplan")
def test_a_queue_that_contradicts_others_is_told(cluster: Cluster) -> None:
    queue(cluster, "red", RED, parent="nobody")
    queue(cluster, "blue", BLUE, parent="green")
    queue(cluster, "green", parent="blue")
    absurd = {"cpu": "1e99999999", "memory": "1e30", "pods": "9" * 32}
    queue(cluster, "grey", GREY, guaranteed=absurd)

    def told() -> set[tuple[str, str]]:
        field = "--field-selector=involvedObject.kind=Queue"
        found = cluster.kubectl("get", "events", field, "-o=json", namespace="default")
        items = json.loads(found)["items"]
        return {(e["involvedObject"]["name"], e["reason"]) for e in items}

    expected = {("red", "UnknownParent"), ("blue", "Cycle"), ("green", "Cycle")}
    expected.add(("grey", "InvalidAmount"))
    wait_until(lambda: expected <= told(), SOON, "events on the Queues")
    cluster.nodes(NodeSpec("t1", cpu="8"))
    for team in TEAMS:
        create(cluster, team, pod("goes-on", OTHER, cpu="1"))
    wait_for(cluster, 1, 1, 1, 1)


@pytest.mark.usefixtures("bayplan")
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"guaranteed": {"cpu": 2}, "limit": {"cpu": "1500m"}}, id="above the limit"),
        pytest.param({"weight": -1}, id="negative weight"),
        pytest.param({"order": "Lifo"}, id="unknown order"),
        pytest.param({"limit": {"cpu": "-1"}}, id="negative amount"),
        pytest.param({"userLimit": {"cpu": "-1"}}, id="negative amount of a user"),
        pytest.param({"userKey": "a b"}, id="no key of a label"),
        pytest.param({"waitingTargetSeconds": -1}, id="negative target"),
    ],
)
def test_the_api_server_refuses_a_queue_that_is_wrong(cluster: Cluster, spec: Json) -> None:
    with pytest.raises(Exception, match="red"):
        queue(cluster, "red", **spec)
    queue(cluster, "red", guaranteed={"cpu": "1500m"}, limit={"cpu": 2})
