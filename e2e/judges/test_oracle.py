"""The oracle says what kube-scheduler is known to say on clusters that can be judged by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from e2e.conformance.oracle import Oracle, OracleError
from e2e.provider.programs import ORACLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

Item = dict[str, Any]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(ORACLE.binary()) as child:
        yield child


def node(name: str, cpu: str = "4", labels: Item | None = None, **spec: Any) -> Item:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str, cpu: str = "1", started: str = "", nominated: str = "", **spec: Any) -> Item:
    status = {"startTime": started} if started else {}
    if nominated:
        status["nominatedNodeName"] = nominated
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
        "status": status,
    }


def budget(app: str, allowed: int) -> Item:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def priority_class(name: str, value: int, **more: Any) -> Item:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


HIGH = priority_class("high", 1000)
IMPORTANT = {"priorityClassName": "high"}
OLD, NEW = "2025-01-01T00:00:00Z", "2025-06-01T00:00:00Z"
HELPLESS = "preemption: "


def placement(node: str) -> str:
    return f"{HELPLESS}found a potential placement for pod on node {node}, preempting 1 victims"


CASES: dict[str, tuple[list[Item], dict[str, Any]]] = {
    "a Pod fits one node, which is not scored": (
        [node("n1"), node("n2", cpu="500m"), pod("p")],
        {
            "nodes": {
                "n1": {"code": "Success"},
                "n2": {
                    "code": "UnschedulableAndUnresolvable",
                    "plugin": "NodeResourcesFit",
                    "reasons": ["Insufficient cpu"],
                },
            },
            "best": ["n1"],
        },
    ),
    "two equal nodes are both best": ([node("n1"), node("n2"), pod("p")], {"best": ["n1", "n2"]}),
    "without nodes there is nothing to say": (
        [pod("p")],
        {"message": "no nodes available to schedule pods"},
    ),
    "reasons are sorted as text, and preemption adds its own": (
        [
            *(node(f"n{i:02}", unschedulable=True) for i in range(12)),
            *(node(f"m{i}", cpu="100m") for i in range(2)),
            pod("p"),
        ],
        {
            "message": "0/14 nodes are available: 12 node(s) were unschedulable, 2 Insufficient "
            f"cpu. {HELPLESS}0/14 nodes are available: 14 Preemption is not helpful for scheduling."
        },
    ),
    "a gate stops everything else": (
        [node("n1"), pod("p", schedulingGates=[{"name": "a/b"}])],
        {
            "preEnqueue": {
                "code": "UnschedulableAndUnresolvable",
                "plugin": "SchedulingGates",
                "reasons": ["waiting for scheduling gates: [a/b]"],
            }
        },
    ),
    "PreFilter rejects a Pod whose claim is not there": (
        [
            node("n1"),
            pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        ],
        {
            "preFilter": {
                "code": "UnschedulableAndUnresolvable",
                "plugin": "VolumeRestrictions",
                "reasons": ['persistentvolumeclaim "c" not found'],
            },
            "message": '0/1 nodes are available: persistentvolumeclaim "c" not found. not found',
        },
    ),
    "the cheapest victim is preempted, and the message says so": (
        [
            HIGH,
            node("n1"),
            node("n2"),
            pod("a", cpu="3", started=OLD, nodeName="n1", priority=10),
            pod("b", cpu="3", started=OLD, nodeName="n2", priority=5),
            pod("p", cpu="2", **IMPORTANT),
        ],
        {
            "message": f"0/2 nodes are available: 2 Insufficient cpu. {placement('n2')}",
            "postFilter": {
                "nominatedNode": "n2",
                "victims": ["default/b"],
                "message": placement("n2"),
                "candidates": {
                    "n1": {"victims": ["default/a"]},
                    "n2": {"victims": ["default/b"]},
                },
            },
        },
    ),
    "a budget counts before the priority of the victims": (
        [
            HIGH,
            budget("b", 0),
            node("n1"),
            node("n2"),
            pod("a", cpu="3", started=OLD, nodeName="n1", priority=10),
            pod("b", cpu="3", started=OLD, nodeName="n2", priority=5),
            pod("p", cpu="2", **IMPORTANT),
        ],
        {
            "postFilter": {
                "nominatedNode": "n1",
                "victims": ["default/a"],
                "message": placement("n1"),
                "candidates": {
                    "n1": {"victims": ["default/a"]},
                    "n2": {"victims": ["default/b"], "pdbViolations": 1},
                },
            },
        },
    ),
    "candidates that no criterion tells apart are tied": (
        [
            HIGH,
            node("n1"),
            node("n2"),
            node("n3"),
            pod("a", cpu="3", started=OLD, nodeName="n1"),
            pod("b", cpu="3", started=NEW, nodeName="n2"),
            pod("c", cpu="3", started=NEW, nodeName="n3"),
            pod("p", cpu="2", **IMPORTANT),
        ],
        {
            "postFilter": {
                "nominatedNode": "n2",
                "victims": ["default/b"],
                "message": placement("n2"),
                "tied": ["n2", "n3"],
                "candidates": {
                    "n1": {"victims": ["default/a"]},
                    "n2": {"victims": ["default/b"]},
                    "n3": {"victims": ["default/c"]},
                },
            },
        },
    ),
    "a class may forbid preemption": (
        [
            priority_class("polite", 1000, preemptionPolicy="Never"),
            node("n1"),
            pod("a", cpu="3", nodeName="n1"),
            pod("p", cpu="2", priorityClassName="polite"),
        ],
        {
            "message": f"0/1 nodes are available: 1 Insufficient cpu. {HELPLESS}not eligible due to"
            " preemptionPolicy=Never."
        },
    ),
    "a nominated node that fits is taken although another is better": (
        [node("n1", cpu="2"), node("n2", cpu="64"), pod("p", nominated="n1")],
        {"nominated": "n1", "best": ["n1"]},
    ),
    "only the default class gives a Pod without one its priority": (
        [
            priority_class("usual", 7, globalDefault=True),
            node("n1"),
            pod("a", cpu="3", started=OLD, nodeName="n1", priority=5),
            pod("p", cpu="2"),
        ],
        {
            "postFilter": {
                "nominatedNode": "n1",
                "victims": ["default/a"],
                "message": placement("n1"),
                "candidates": {"n1": {"victims": ["default/a"]}},
            }
        },
    ),
    "requests come from limits": (
        [
            node("n1"),
            pod("p")
            | {"spec": {"containers": [{"name": "m", "resources": {"limits": {"cpu": "5"}}}]}},
        ],
        {
            "nodes": {
                "n1": {
                    "code": "UnschedulableAndUnresolvable",
                    "plugin": "NodeResourcesFit",
                    "reasons": ["Insufficient cpu"],
                }
            }
        },
    ),
    "a Pod overhead comes from the RuntimeClass": (
        [
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "heavy"},
                "handler": "heavy",
                "overhead": {"podFixed": {"cpu": "4"}},
            },
            node("n1"),
            pod("p", runtimeClassName="heavy"),
        ],
        {
            "message": f"0/1 nodes are available: 1 Insufficient cpu. {HELPLESS}0/1 nodes are "
            "available: 1 Preemption is not helpful for scheduling."
        },
    ),
    "a not-ready node of NoExecute is tolerated by default": (
        [
            node("n1", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
            pod("p"),
        ],
        {"best": ["n1"]},
    ),
    "matchLabelKeys of affinity narrow the selector to the Pod's own value": (
        [
            node("n1"),
            pod("other", nodeName="n1"),
            pod(
                "p",
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {},
                                "matchLabelKeys": ["app"],
                            }
                        ]
                    }
                },
            ),
        ],
        {"best": ["n1"]},
    ),
    "the error of a plugin is the message": (
        [
            node("n1"),
            node("n2"),
            pod(
                "p",
                affinity={
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "preference": {
                                    "matchExpressions": [
                                        {"key": "gen", "operator": "Gt", "values": ["many"]}
                                    ]
                                },
                            }
                        ]
                    }
                },
            ),
        ],
        {
            "message": 'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]: '
            "Invalid value: \"many\": for 'Gt', 'Lt' operators, the value must be an integer"
        },
    ),
}


def ask(oracle: Oracle, folder: Path, items: list[Item], mode: str = "explain") -> list[Any]:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(items))
    return oracle.ask(mode, path)


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_the_known_one(name: str, oracle: Oracle, tmp_path: Path) -> None:
    items, expected = CASES[name]
    (verdict,) = ask(oracle, tmp_path, items)
    assert {key: verdict.get(key) for key in expected} == expected


def test_a_simulation_places_by_priority_then_creation_then_order(
    oracle: Oracle, tmp_path: Path
) -> None:
    later, sooner = pod("later", cpu="2"), pod("sooner", cpu="2")
    later["metadata"]["creationTimestamp"] = NEW
    sooner["metadata"]["creationTimestamp"] = OLD
    items = [HIGH, node("n1"), node("n2"), later, sooner, pod("first", cpu="3", **IMPORTANT)]
    steps = ask(oracle, tmp_path, [*items, pod("last", cpu="3", priority=-1)], "simulate")
    assert [(step["pod"], step["node"]) for step in steps] == [
        ("default/first", "n1"),
        ("default/sooner", "n2"),
        ("default/later", "n2"),
        ("default/last", None),
    ]
    assert steps[-1]["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_claims_are_made_from_templates_and_shared_claims_stay_shared(
    oracle: Oracle, tmp_path: Path
) -> None:
    pool = {"name": "n2", "generation": 1, "resourceSliceCount": 1}
    offered: Item = {"driver": "gpu.example.com", "nodeName": "n2", "pool": pool}
    offered |= {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
    wanted = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    by_template = {"name": "gpu", "resourceClaimTemplateName": "one"}
    by_name = {"name": "gpu", "resourceClaimName": "shared"}
    items = [
        node("n1"),
        node("n2"),
        device_object("DeviceClass", "gpu", {}),
        device_object("ResourceSlice", "n2", offered),
        device_object("ResourceClaimTemplate", "one", {"spec": wanted}),
        device_object("ResourceClaim", "shared", wanted),
        *(pod(name, resourceClaims=[by_name]) for name in "ab"),
        *(pod(name, resourceClaims=[by_template]) for name in "cd"),
    ]
    assert ask(oracle, tmp_path, items, "validate") == []
    steps = ask(oracle, tmp_path, items, "simulate")
    assert [step["node"] for step in steps] == ["n2", "n2", "n2", None]
    assert steps[-1]["message"].startswith("0/2 nodes are available: 2 cannot allocate all claims.")


def device_object(kind: str, name: str, spec: Item) -> Item:
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    if kind in ("DeviceClass", "ResourceSlice"):
        del body["metadata"]["namespace"]
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, **body}


def test_a_file_that_makes_no_sense_is_an_error_and_the_next_is_answered(
    oracle: Oracle, tmp_path: Path
) -> None:
    with pytest.raises(OracleError, match=r"metadata\.name"):
        ask(oracle, tmp_path, [{"apiVersion": "v1", "kind": "Pod"}])
    assert ask(oracle, tmp_path, [node("n1"), pod("p")])[0]["best"] == ["n1"]
