"""Both allocators: kube-scheduler's as a child process, and ours."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import msgspec

from bayplan.api.node import Node
from bayplan.api.resource import (
    AllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from bayplan.cache.node_table import LiveNodeTable
from bayplan.devices.codes import DOES_NOT_FIT, ERROR, INVALID_POOLS
from bayplan.devices.errors import AllocationError, NodeAllocationError
from bayplan.devices.fleet import Fleet, NodeOutcomes

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.allocations.generator import Problem

Answer = dict[str, Any]
_SHARE = "share"


class Judge:
    """``allocjudge``: a problem a line in, its answers a line out. Use it in a with statement."""

    def __init__(self, program: Path) -> None:
        self._child = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def answers(self, problem: Problem) -> list[Answer]:
        """What kube-scheduler's allocator says, per node.

        Raises:
            EOFError: the judge died over the problem.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(problem) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise EOFError("the judge died")
        answers: list[Answer] = json.loads(line)
        return answers


class _Problem(msgspec.Struct):
    nodes: list[Node]
    classes: list[DeviceClass]
    slices: list[ResourceSlice]
    claims: list[ResourceClaim]
    allocated: list[DeviceRequestAllocationResult]


def our_answers(problem: Problem, skipped: list[bool]) -> list[Answer | None]:
    """What our allocator says, per node, in the judge's notation; None for nodes to be skipped."""
    decoded = msgspec.json.decode(json.dumps(problem), type=_Problem)
    classes = {c.name: c for c in decoded.classes}
    nodes = LiveNodeTable()
    fleet = Fleet(nodes, classes.get, time.monotonic)
    for number, held in enumerate(decoded.allocated):
        fleet.table.usage.set_claim(f"holder-{number}", [held])
    for one in decoded.slices:
        fleet.table.set_slice(one)
    kept = [node for node, skip in zip(decoded.nodes, skipped, strict=True) if not skip]
    for node in kept:
        nodes.set_node(node)
    answers = fleet.answers(fleet.shapes(decoded.claims))
    by_node = {node.name: _answer(fleet, answers, node, decoded.claims) for node in kept}
    return [by_node.get(node.name) for node in decoded.nodes]


def _answer(fleet: Fleet, answers: NodeOutcomes, node: Node, claims: list[ResourceClaim]) -> Answer:
    """One node's answer; where the claims fit, the devices are those of the search for all."""
    row = fleet.nodes.row(node.name)
    assert row is not None
    code, choices = int(answers.codes[row]), answers.choices(row)
    results: list[AllocationResult] | None
    try:
        if choices is not None:
            results = fleet.results(node, claims, fleet.shapes(claims), choices)
        else:
            results = fleet.allocate(node, claims)
    except AllocationError as error:
        answer: Answer = {"results": None, "error": str(error)}
        if isinstance(error, NodeAllocationError):
            answer["onNode"] = True
        expected = INVALID_POOLS if "onNode" in answer else ERROR
        return answer if code == expected else {"code": code}
    if results is None:
        return {"results": None} if code == DOES_NOT_FIT else {"code": code}
    return {"results": [_blank_share_ids(result) for result in results]}


def _blank_share_ids(result: AllocationResult) -> Answer:
    answer: Answer = json.loads(msgspec.json.encode(result))
    answer.setdefault("devices", {})
    for device in answer["devices"].get("results", []):
        if "shareID" in device:
            device["shareID"] = _SHARE
    return answer
