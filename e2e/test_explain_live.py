"""The running scheduler's answers equal those of a dump, and its records the events it wrote."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.answers import unfolded

from bayplan.api.kinds import POD
from bayplan.cli import asking, offline
from bayplan.cli.asking import Subject
from bayplan.cli.explain_live import verdict
from bayplan.explain.group import GroupExplainer
from e2e.cluster import OTHER, SOON, Bayplan, Cluster, Json, pod
from e2e.provider import NodeSpec, Taint, wait_until
from e2e.test_groups import CRD, MULTI_POINT, create_group, members

pytestmark = pytest.mark.e2e

PODS, GROUPS = 200, 50
SEED = 20260101
DUMPED = "nodes,pods,podgroups.scheduling.x-k8s.io,namespaces,services,pv,pvc,storageclasses,pdb"


def random_pod(chance: random.Random, number: int) -> Json:
    more: dict[str, Any] = {"cpu": chance.choice(["500m", "1", "3", "6", "9"])}
    if chance.random() < 0.4:
        more["nodeSelector"] = {"disk": chance.choice(["ssd", "hdd", "tape"])}
    if chance.random() < 0.3:
        more["tolerations"] = [{"key": "team", "operator": "Exists"}]
    return pod(f"random-{number}", OTHER, **more)


def condition(found: Json) -> Json:
    """The condition PodScheduled, or an empty one."""
    conditions = found["status"].get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def is_settled(cluster: Cluster) -> bool:
    """Whether every Pod has a node or has been rejected."""
    return all(pod["spec"].get("nodeName") or condition(pod) for pod in cluster.pods().values())


def explained(*arguments: str) -> list[Json]:
    command = [sys.executable, "-m", "bayplan", "explain", "-o", "json", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    return unfolded(json.loads(run.stdout))


def test_live_answers_are_those_of_a_dump_with_the_same_configuration(
    cluster: Cluster, start: Callable[..., Bayplan], tmp_path: Path
) -> None:
    cluster.kubectl("apply", "-f", str(CRD))
    cluster.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=300s")
    profile = {"schedulerName": OTHER, "plugins": {"multiPoint": MULTI_POINT}}
    config = cluster.config(profiles=[profile])
    bayplan = start(config, serving=())
    chance = random.Random(SEED)
    cluster.nodes(
        NodeSpec("live-0", cpu="4", labels={"disk": "ssd"}),
        NodeSpec("live-1", cpu="8", labels={"disk": "hdd"}),
        NodeSpec("live-2", cpu="4", labels={"disk": "ssd"}, taints=(Taint("team", "a"),)),
        NodeSpec("live-3", cpu="2"),
    )
    names = [f"gang-{number}" for number in range(GROUPS)]
    for name in names:
        create_group(cluster, name, chance.choice([2, 3, 40]))
    cluster.create(*(random_pod(chance, number) for number in range(PODS)))
    cluster.create(*(one for name in names for one in members(name, 2)))
    wait_until(lambda: is_settled(cluster), 3 * SOON, "every Pod was tried")

    file = tmp_path / "cluster.json"
    file.write_text(cluster.kubectl("get", DUMPED, "-A", "-o=json"))
    namespace, kubeconfig = f"--namespace={cluster.namespace}", cluster.plane.kubeconfig
    asked = (f"--kubeconfig={kubeconfig}", f"--server={bayplan.endpoint.url}")
    told = explained(*asked, "--insecure-skip-tls-verify", namespace)
    expected = {
        one["pod"]: one for one in explained("-f", str(file), f"--config={config}", namespace)
    }
    assert len(expected) > PODS / 2
    assert {one["pod"] for one in told} == expected.keys()
    pods, recorded = cluster.pods(), 0
    for one in told:
        last = one.pop("running").get("last", {})
        wanted = expected[one["pod"]]
        assert json.dumps(one, sort_keys=True) == json.dumps(wanted, sort_keys=True)
        written = condition(pods[one["pod"].partition("/")[2]])
        if last:
            recorded += 1
            assert (last["reason"], last["message"]) == (written["reason"], written["message"])
    assert recorded >= sum("group" not in one for one in told) > PODS / 4

    loaded, core = offline.load([file], config, None, cluster.namespace)
    judge = GroupExplainer(core.profiles, core.world, core.placers)
    http = asking.connect(bayplan.endpoint.url, "", None, str(kubeconfig), insecure=True)
    for name in names:
        live = verdict(http, Subject(cluster.namespace, name, is_group=True))
        assert live is not None
        assert live.pop("running")["group"] == f"{cluster.namespace}/{name}"
        assert live == judge.of_group(f"{cluster.namespace}/{name}", loaded.objects[POD])
    cluster.kubectl("delete", "podgroups", "--all", namespace=cluster.namespace)
