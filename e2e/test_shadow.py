"""A shadow beside kube-scheduler: nothing is written, nothing differs but what should."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from e2e.audit import SHADOW, Audit
from e2e.cluster import DEPLOY, SOON, Cluster, pod
from e2e.conformance.oracle import Oracle
from e2e.provider import NodeSpec, token_kubeconfig, wait_until
from e2e.provider.choose import chosen
from e2e.provider.golang import ROOT
from e2e.provider.programs import ORACLE, OTHER_KUBE_SCHEDULER, is_reference
from e2e.shadow_judge import KUBE, Load
from e2e.shadows import Shadow

pytestmark = pytest.mark.e2e

RBAC = DEPLOY / "shadow" / "rbac.yaml"
POLICY = ROOT / "examples" / "switch" / "admission-policy.yaml"
PACKING = {
    "name": "NodeResourcesFit",
    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
}


@pytest.fixture(scope="module")
def account(shared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of the ServiceAccount of deploy/shadow."""
    shared.kubectl("apply", "-f", str(RBAC))
    folder = tmp_path_factory.mktemp("shadow")
    token = shared.token("bayplan-shadow")
    yield token_kubeconfig(folder / "shadow", shared.plane.kubeconfig, token)
    shared.kubectl("delete", "-f", str(RBAC))


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with kube-scheduler, which looks at all nodes."""
    if not chosen().owns_parts or not is_reference():
        pytest.skip(OTHER_KUBE_SCHEDULER)
    part = cluster.plane.start_kube_scheduler(config(cluster, percentageOfNodesToScore=100))
    assert part is not None
    yield cluster
    part.stop()


@pytest.fixture
def shadow(cluster: Cluster, account: Path) -> Iterator[Callable[..., Shadow]]:
    """Start a shadow with these flags."""
    with ExitStack() as stack:

        def start(*flags: str) -> Shadow:
            made = Shadow(cluster.plane, account, flags)
            stack.callback(made.kill)
            made.start()
            return made

        yield start


def config(cluster: Cluster, *plugin_config: Any, **fields: Any) -> Path:
    profile: dict[str, Any] = {"schedulerName": KUBE, "pluginConfig": list(plugin_config)}
    return cluster.config(KUBE, **({"profiles": [profile]} | fields))


def command(*arguments: str) -> str:
    run = [sys.executable, "-m", "bayplan", *arguments]
    return subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_beside_kube_scheduler_nothing_differs_and_nothing_is_written(
    kube: Cluster, shadow: Callable[..., Shadow], audit: Audit
) -> None:
    load = Load(kube, seed=1)
    load.set_up()
    try:
        one, other = shadow(), shadow("--share=0.5")
        load.rounds(60)
        report = one.settled()
        assert report.get("differences", []) == []
        assert report["agreed"] == report["compared"] >= 60
        assert report.get("notCompared", {}).keys() <= {"inFlight"}
        assert 0 < other.settled()["compared"] < report["compared"]
    finally:
        load.clear()
    assert audit.verbs(SHADOW) - {"list"} == {"watch"}


def test_decisions_in_flight_are_no_differences(
    kube: Cluster, shadow: Callable[..., Shadow]
) -> None:
    kube.nodes(*(NodeSpec(f"n{i:02}", cpu=str(4 + i % 5)) for i in range(20)))
    following = shadow()
    names = kube.create(*(pod(f"p{i}", KUBE, cpu=f"{100 + 37 * (i % 9)}m") for i in range(150)))
    kube.wait_bound(*names)
    report = following.wait_seen(150)
    assert report.get("differences", []) == []
    assert report["compared"] + report.get("notCompared", {}).get("inFlight", 0) == 150


def test_what_differs_is_said_by_pod_and_plugin(
    kube: Cluster, shadow: Callable[..., Shadow]
) -> None:
    kube.nodes(NodeSpec("empty", cpu="4"), NodeSpec("used", cpu="4"))
    kube.create(pod("there", "nobody", cpu="2"))
    kube.bind("there", "used")
    following = shadow(f"--config={config(kube, PACKING)}")
    kube.create(pod("web", KUBE, cpu="1"))
    assert kube.wait_bound("web") == {"web": "empty"}
    report = following.wait_seen(1)
    [difference] = report["differences"]
    assert (difference["outcome"], difference["plugin"]) == ("better", "NodeResourcesFit")
    assert report["plugins"]["NodeResourcesFit"]["prefers"] == 1
    server = f"--server={following.pages.url}"
    sentence = f"{kube.namespace}/web: empty there, used here, which scores"
    assert command("why", "web", f"--namespace={kube.namespace}", server).startswith(sentence)
    assert sentence in command("shadow", "report", server).replace("\n", " ")
    assert json.loads(command("shadow", "report", server, "--output=json"))["agreed"] == 0
    page = command("shadow", "report", server, "--output=html")
    assert sentence in page
    assert "http://" not in page
    metrics = following.endpoint.get("/metrics").decode()
    assert 'bayplan_shadow_decisions_total{outcome="better"} 1.0' in metrics
    assert kube.namespace not in metrics


def test_with_a_changed_weight_the_decisions_differ_that_the_oracle_predicts(
    kube: Cluster, shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    weights = {"score": {"enabled": [{"name": "NodeResourcesBalancedAllocation", "weight": 7}]}}
    weights["score"]["disabled"] = [{"name": "NodeResourcesBalancedAllocation"}]
    profile = {"schedulerName": KUBE, "plugins": weights}
    changed = kube.config(KUBE, profiles=[profile])
    load, predicted = Load(kube, seed=3), set()
    load.set_up()
    try:
        following = shadow(f"--config={changed}")
        with Oracle(ORACLE.binary()) as oracle:
            for number in range(40):
                [make] = load.some(number)
                state = load.state()
                made = make()
                load.decided(made)
                file = tmp_path / f"{number}.json"
                file.write_text(json.dumps({"kind": "List", "items": [*state, made]}))
                name = made["metadata"]["name"]
                key = f"{kube.namespace}/{name}"
                [verdict] = oracle.ask("explain", file, changed, pod=key)
                if kube.node_of(name) not in verdict["best"]:
                    predicted.add(key)
        report = following.settled()
    finally:
        load.clear()
    assert report["compared"] == 40
    assert {one["pod"] for one in report.get("differences", ())} == predicted
    assert 0 < len(predicted) < 40


def test_an_admission_policy_sends_the_pods_of_a_namespace_to_bayplan_and_back(
    cluster: Cluster,
) -> None:
    if not is_reference():
        pytest.skip("MutatingAdmissionPolicy v1 is there from v1.36 on")
    cluster.kubectl("apply", "-f", str(POLICY))
    label = ("label", "namespace", cluster.namespace, "--overwrite")
    numbers = iter(range(1000))

    def scheduler_of_a_new_pod(**spec: Any) -> str:
        body = pod(f"p{next(numbers)}", KUBE, **spec)
        [name] = cluster.create(body)
        return str(cluster.pod(name)["spec"]["schedulerName"])

    try:
        assert scheduler_of_a_new_pod() == KUBE
        cluster.kubectl(*label, "bayplan.dev/scheduler=bayplan")
        wait_until(lambda: scheduler_of_a_new_pod() == "bayplan", SOON, "Pods sent to bayplan")
        [name] = cluster.create(pod("own", "another"))
        assert cluster.pod(name)["spec"]["schedulerName"] == "another"
        cluster.kubectl(*label, "bayplan.dev/scheduler-")
        wait_until(lambda: scheduler_of_a_new_pod() == KUBE, SOON, "Pods sent back")
    finally:
        cluster.kubectl("delete", "-f", str(POLICY))
        cluster.kubectl(*label, "bayplan.dev/scheduler-")


def test_a_shadow_that_may_not_read_says_what(kube: Cluster, tmp_path: Path) -> None:
    kube.kubectl("create", "serviceaccount", "nobody", namespace=kube.namespace)
    token = kube.token("nobody", kube.namespace)
    nobody = token_kubeconfig(tmp_path / "nobody", kube.plane.kubeconfig, token)
    argv = Shadow(kube.plane, nobody).argv
    run = subprocess.run(argv, capture_output=True, text=True, timeout=SOON, check=False)
    assert run.returncode == 2
    assert "forbidden" in run.stderr
    kube.kubectl("delete", "serviceaccount", "nobody", namespace=kube.namespace)
