"""A zone is lost: what becomes of its Pods is what ``simulate --lose`` has said.

The nodes of the zone and their Pods are deleted, as after a failure; the real controllers make the
Pods again.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster import SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, wait_until

SCHEDULER = "survivors"
ZONE = "topology.kubernetes.io/zone"
RULE = {"domain": ZONE, "keep": "60%"}
_READ = "nodes,pods,replicasets,deployments,priorityclasses,namespaces"


@pytest.fixture
def deployments(cluster: Cluster) -> Iterator[None]:
    """What the test deploys is gone afterwards."""
    yield
    options = ("--all", "--cascade=foreground")
    cluster.kubectl("delete", "deployments", *options, namespace=cluster.namespace)


def deployment(name: str, replicas: int, priority: str, **annotations: str) -> Json:
    made = pod(name, SCHEDULER, labels={"app": name}, cpu="1", priorityClassName=priority)
    template = {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


def bound(cluster: Cluster) -> Counter[tuple[str, str]]:
    """How many Pods of each app are on a node of each zone; "" for none."""
    return Counter(
        (one["metadata"]["labels"]["app"], one["spec"].get("nodeName", "")[:1])
        for one in cluster.pods().values()
        if "deletionTimestamp" not in one["metadata"]
    )


def risks(cluster: Cluster, app: str) -> list[str]:
    """What Pods of the app on nodes say of their survival."""
    return [
        condition["status"]
        for one in cluster.pods().values()
        if one["metadata"]["labels"]["app"] == app and one["spec"].get("nodeName")
        for condition in one["status"].get("conditions", ())
        if condition["type"] == "bayplan.dev/Survives"
    ]


def deploy(cluster: Cluster, *made: Json) -> None:
    for one in made:
        cluster.put(one, namespace=cluster.namespace)
        name, replicas = one["metadata"]["name"], one["spec"]["replicas"]

        def all_placed(name: str = name, replicas: int = replicas) -> bool:
            placed = bound(cluster)
            return sum(placed[name, zone] for zone in "abc") == replicas

        wait_until(all_placed, SOON, f"nodes for {name}")


def said(cluster: Cluster, config: Path) -> Json:
    """What the command says of the loss of zone a."""
    file = cluster.plane.folder / "before.json"
    file.write_text(cluster.kubectl("get", _READ, "-A", "-o=json"))
    command = [sys.executable, "-m", "bayplan", "simulate", "-f", str(file), f"--config={config}"]
    command += ["--lose", f"{ZONE}=a", "-o", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    answer: Json = json.loads(run.stdout)
    return answer


@pytest.mark.usefixtures("priorities", "deployments")
def test_what_becomes_of_a_lost_zone_is_what_was_said(
    cluster: Cluster, start: Callable[..., Bayplan]
) -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "BlastRadius"}]}}
    config = cluster.config(profiles=[{"schedulerName": SCHEDULER, "plugins": plugins}])
    cluster.nodes(*(NodeSpec(f"{zone}{i}", cpu="3", zone=zone) for zone in "abc" for i in (1, 2)))
    bayplan = start(config)
    survive = {"bayplan.dev/survive": json.dumps(RULE)}
    deploy(
        cluster,
        deployment("web", 6, "e2e-high", **survive),
        deployment("api", 3, "e2e-high"),
        deployment("batch", 9, "e2e-low"),
    )
    before = bound(cluster)
    assert [before["web", zone] for zone in "abc"] == [2, 2, 2]
    answer = said(cluster, config)
    assert answer["lost"]["nodes"] == ["a1", "a2"]

    # What runs after all: what is left, less who is evicted, and who comes back.
    def app(key: str) -> str:
        return key.partition("/")[2].partition("-")[0]

    after = Counter(
        {name: before[name, "b"] + before[name, "c"] for name in ("web", "api", "batch")}
    )
    for placement in answer["placements"]:
        after[app(placement["pod"])] += placement["node"] is not None
        after.subtract(map(app, placement.get("victims", ())))
    assert after["web"] == 4
    assert after["api"] == 3

    nodes = ("a1", "a2")
    lost = [n for n, p in cluster.pods().items() if p["spec"].get("nodeName") in nodes]
    assert {f"{cluster.namespace}/{name}" for name in lost} == set(answer["lost"]["pods"])
    cluster.kubectl("delete", "node", *nodes)
    # The survivors are there without anybody's doing.
    survivors = bound(cluster)
    assert survivors["web", "b"] + survivors["web", "c"] == 4
    for name in lost:
        cluster.delete(name)

    def is_as_said() -> bool:
        now = bound(cluster)
        running = {name: now[name, "b"] + now[name, "c"] for name in after}
        waiting = {name: now[name, ""] for name in after}
        total = {"web": 6, "api": 3, "batch": 9}
        return running == dict(after) and all(
            waiting[name] == total[name] - running[name] for name in after
        )

    wait_until(is_as_said, SOON, f"what was said: {dict(after)}")
    assert bayplan.holds_what_the_api_server_has(), bayplan.lines("Recount")[-1]
    # The loss of another zone would leave too few of web, which they say.
    wait_until(lambda: risks(cluster, "web") == ["False"] * 4, SOON, "a condition on each of them")
    # It stays so.
    waiting = next(
        name
        for name, one in cluster.pods().items()
        if name.startswith("web") and not one["spec"].get("nodeName")
    )
    cluster.wait_condition(waiting, text="failure domain with as many Pods as may be lost")
    assert is_as_said()
