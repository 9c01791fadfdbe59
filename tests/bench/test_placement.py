"""The check at the end of a benchmark's run finds what must not be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from bench.placement import (
    NodeState,
    PlacedPod,
    bindings,
    bound_twice,
    gang_faults,
    given_twice,
    overcommitted,
)

RACK = "rack"


def pod(node: str, cpu: str = "1", group: str = "") -> PlacedPod:
    return msgspec.convert(
        {
            "metadata": {"name": "p"},
            "spec": {
                "nodeName": node,
                "containers": [{"resources": {"requests": {"cpu": cpu}}}],
                "schedulingGroup": {"podGroupName": group},
            },
        },
        PlacedPod,
    )


def node(name: str, rack: str = "", cpu: str = "4", pods: str = "3") -> NodeState:
    labels = {RACK: rack} if rack else {}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": cpu, "pods": pods}},
        },
        NodeState,
    )


def group(minimum: int, level: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if level:
        spec["schedulingConstraints"] = {"topology": [{"key": level}]}
    return {"metadata": {"name": "g"}, "spec": spec}


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([pod("a", "4")], []),
        ([pod("a", "4"), pod("b", "2")], []),
        ([pod("a", "4"), pod("a", "1m")], ["node a has 4000 of cpu, and its Pods request 4001"]),
        ([pod("a", "0")] * 4, ["node a has 3 of pods, and its Pods request 4"]),
    ],
    ids=["full", "two-nodes", "cpu", "pods"],
)
def test_overcommitted_nodes_are_found(pods: Any, said: Any) -> None:
    assert list(overcommitted([node("a"), node("b")], pods)) == said


@pytest.mark.parametrize(
    ("nodes", "level", "said"),
    [
        ([], "", []),
        (["a", "b"], "", []),
        (["a"], "", ["1 Pods of gang g have nodes, of at least 2"]),
        (["a", "a"], RACK, []),
        (["a", "b"], RACK, ["gang g is in 2 domains of rack"]),
        (["none", "none"], RACK, ["gang g is in 1 domains of rack"]),
    ],
    ids=["none", "whole", "in-part", "one-rack", "two-racks", "node-without-rack"],
)
def test_gangs_in_part_or_in_several_racks_are_found(nodes: Any, level: Any, said: Any) -> None:
    there = [node("a", "r1"), node("b", "r2"), node("none")]
    pods = [pod(each, group="g") for each in nodes]
    assert list(gang_faults(there, pods, [group(2, level)])) == said


def test_devices_in_two_claims_are_found_unless_they_are_shared() -> None:
    def claim(device: str, **more: str) -> dict[str, Any]:
        result = {"driver": "d", "pool": "p", "device": device, **more}
        return {"status": {"allocation": {"devices": {"results": [result]}}}}

    assert list(given_twice([claim("1"), claim("2"), {}])) == []
    assert list(given_twice([claim("1", shareID="a"), claim("1", shareID="b")])) == []
    assert list(given_twice([claim("1"), claim("1")])) == ["1 devices are in several claims: d p 1"]


@pytest.mark.parametrize(
    ("codes", "evicts", "said"),
    [
        ({"201": 5}, False, []),
        ({"201": 6}, True, []),
        ({"201": 6}, False, ["6 bindings were accepted, and 5 Pods have nodes"]),
        ({"201": 4}, True, ["4 bindings were accepted, and 5 Pods have nodes"]),
        ({"201": 5, "409": 2}, True, ["2 bindings of Pods that had a node already"]),
    ],
    ids=["equal", "evicted-meanwhile", "too-many", "too-few", "refused"],
)
def test_pods_that_were_bound_twice_are_found(codes: Any, evicts: Any, said: Any) -> None:
    assert list(bound_twice(codes, 5, evicts=evicts)) == said


def test_bindings_are_counted_from_the_metrics_of_the_api_server() -> None:
    text = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 7
apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST"} 1
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 9
"""
    assert bindings(text) == {"201": 7, "409": 1}
