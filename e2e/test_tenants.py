"""Tenants on a real API server: room is lent and taken back, limits hold, Queues change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = pytest.mark.e2e

CRD = ROOT / "deploy" / "crds" / "queues.yaml"
RED, BLUE = "e2e-red", "e2e-blue"
FIRST = {"enabled": [{"name": "FairShare"}]}
PLUGINS = dict.fromkeys(("multiPoint", "postFilter", "podGroupPostFilter"), FIRST)
EVICTIONS = "bayplan_queue_evictions_total"


@pytest.fixture
def bayplan(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[Bayplan]:
    """A scheduler with FairShare, the CRD and two namespaces; no Queue or Pod is left behind."""
    cluster.kubectl("apply", "-f", str(CRD))
    cluster.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=60s")
    for name in (RED, BLUE):
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("label", "namespace", name, f"team={name}")
        wait_until(lambda name=name: has_account(cluster, name), SOON, "a ServiceAccount")  # type: ignore[misc]
    yield start(cluster.config(profiles=[{"schedulerName": OTHER, "plugins": PLUGINS}]))
    cluster.kubectl("delete", "queues", "--all")
    for name in (RED, BLUE):
        cluster.kubectl("delete", "deployments,pods", "--all", "--force", namespace=name)
        wait_until(lambda name=name: not pods(cluster, name), SOON, "the end of Pods")  # type: ignore[misc]
        cluster.kubectl("delete", "namespace", name)


def has_account(cluster: Cluster, namespace: str) -> bool:
    """Whether Pods can be made there."""
    found = cluster.kubectl("get", "serviceaccounts", "-o=name", namespace=namespace)
    return "serviceaccount/default" in found


def apply(cluster: Cluster, obj: Json, namespace: str = "") -> None:
    """Make or change an object."""
    path = cluster.plane.folder / f"{obj['kind']}-{obj['metadata']['name']}.yaml"
    path.write_text(yaml.safe_dump(obj))
    cluster.kubectl("apply", "-f", str(path), namespace=namespace)


def queue(cluster: Cluster, name: str, team: str = "", **spec: Any) -> None:
    """Make or change a Queue."""
    if team:
        spec["namespaceSelector"] = {"matchLabels": {"team": team}}
    meta = {"name": name}
    document = {"apiVersion": "bayplan.dev/v1alpha1", "kind": "Queue", "metadata": meta}
    apply(cluster, {**document, "spec": spec})


def deploy(cluster: Cluster, namespace: str, replicas: int) -> None:
    """A Deployment of Pods of one CPU; what is evicted is made anew."""
    one = pod("main", OTHER, cpu="1")
    labels = {"app": "main"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": one["spec"]},
    }
    del spec["template"]["spec"]["terminationGracePeriodSeconds"]  # type: ignore[index]
    meta = {"name": "main"}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    apply(cluster, document, namespace)


def pods(cluster: Cluster, namespace: str) -> list[Json]:
    """The Pods of a namespace."""
    found = json.loads(cluster.kubectl("get", "pods", "-o=json", namespace=namespace))
    return found["items"]  # type: ignore[no-any-return]


def bound(cluster: Cluster, namespace: str) -> int:
    """How many of its Pods have a node and stay."""
    return sum(
        bool(p["spec"].get("nodeName")) and "deletionTimestamp" not in p["metadata"]
        for p in pods(cluster, namespace)
    )


def wait_for(cluster: Cluster, red: int, blue: int) -> None:
    """Wait until so many Pods have nodes."""

    def there() -> bool:
        return (bound(cluster, RED), bound(cluster, BLUE)) == (red, blue)

    try:
        wait_until(there, SOON, f"{red} Pods of red and {blue} of blue")
    except TimeoutError as error:
        found = bound(cluster, RED), bound(cluster, BLUE), verdicts(cluster, BLUE)
        raise TimeoutError(f"{error}; there are {found}") from None


def verdicts(cluster: Cluster, namespace: str) -> Counter[tuple[str, str]]:
    """Reason and message of the condition of each Pod that waits."""
    conditions = [c for p in pods(cluster, namespace) for c in p["status"].get("conditions", ())]
    waiting = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return Counter((c.get("reason", ""), c.get("message", "")) for c in waiting)


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
    assert bayplan.holds_what_the_api_server_has()
    # Nobody takes anything back.
    assert bayplan.metric(EVICTIONS, queue="red", rule="share") == 0
    assert bound(cluster, RED) == 4

    # What red does not need any more is lent again.
    deploy(cluster, RED, 1)
    wait_for(cluster, 1, 7)


def test_a_limit_holds_until_it_is_raised_or_the_queue_is_gone(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    cluster.nodes(NodeSpec("t1", cpu="8"))
    queue(cluster, "red", RED, limit={"cpu": 2})
    deploy(cluster, RED, 4)
    verdict = "QueueLimit", "limit of cpu of queue red is 2: 2 used, 1 requested"
    wait_until(lambda: verdicts(cluster, RED) == {verdict: 2}, SOON, "two Pods to be held")
    assert bound(cluster, RED) == 2

    queue(cluster, "red", RED, limit={"cpu": 3})
    wait_for(cluster, 3, 0)
    cluster.kubectl("delete", "queue", "red")
    wait_for(cluster, 4, 0)
    assert bayplan.holds_what_the_api_server_has()


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
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"guaranteed": {"cpu": 2}, "limit": {"cpu": "1500m"}}, id="above the limit"),
        pytest.param({"weight": -1}, id="negative weight"),
        pytest.param({"order": "Lifo"}, id="unknown order"),
        pytest.param({"limit": {"cpu": "-1"}}, id="negative amount"),
    ],
)
def test_the_api_server_refuses_a_queue_that_is_wrong(cluster: Cluster, spec: Json) -> None:
    with pytest.raises(Exception, match="red"):
        queue(cluster, "red", **spec)
    queue(cluster, "red", guaranteed={"cpu": "1500m"}, limit={"cpu": 2})
