"""Why each node was rejected: one set of arrays behind message, rejectors and candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.harness import table_of

from bayplan.cache.node_table import NodeTable
from bayplan.config.points import Point
from bayplan.engine.diagnosis import NOT_LOOKED_AT, Diagnosis
from bayplan.engine.stages import FilterStage
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.interface import Plugin
from bayplan.framework.status import SUCCESS, Status
from bayplan.testing import make_node, make_pod


def call(_plugin: Any, _point: str, method: Any, *args: Any) -> Any:
    return method(*args)


def stage(name: str, *statuses: Status) -> FilterStage:
    """A stage whose code ``i`` means ``statuses[i - 1]``."""
    members = {
        "filter_nodes": lambda *_: None,
        "reasons": lambda _self, _state, _pod, code: statuses[abs(code) - 1],
    }
    return FilterStage(type(name, (Plugin,), members)(None, None), call)  # type: ignore[arg-type]


def nodes(count: int = 4) -> NodeTable:
    return table_of(*(make_node(f"n{i}") for i in range(count)))


def diagnosis(table: NodeTable) -> Diagnosis:
    return Diagnosis(table, CycleState(), make_pod("p").obj())


def codes(table: NodeTable, *first: int) -> Any:
    column = np.zeros(len(table), np.int64)
    column[: len(first)] = first
    return column


NO, NEVER = Status.unschedulable("no"), Status.unresolvable("never")


def test_the_first_plugin_that_rejects_a_node_has_said_why() -> None:
    table = nodes()
    found = diagnosis(table)
    found.run(stage("A", NO, NEVER), codes(table, 0, 1, 2, 0))
    found.run(stage("B", Status.unschedulable("b1", "b2")), codes(table, 1, 1, 1, 0))
    found.run(stage("C", NO), codes(table))
    assert [found.status(row) for row in range(4)] == [
        Status.unschedulable("b1", "b2").by("B"),
        NO.by("A"),
        NEVER.by("A"),
        SUCCESS,
    ]
    assert found.fits[:4].tolist() == [False, False, False, True]
    assert found.unschedulable_plugins == {"A", "B"}
    assert found.rows_with(unresolvable=True).tolist() == [2]
    assert found.rows_with(unresolvable=False).tolist() == [0, 1]
    assert found.fault() is None


def test_the_message_counts_reasons_and_sorts_them_as_texts() -> None:
    table = nodes(14)
    found = diagnosis(table)
    reasons = stage("A", Status.unschedulable("x", "y"), Status.unschedulable("x"))
    found.run(reasons, codes(table, *[1] * 12, 2, 2))
    assert found.message == "0/14 nodes are available: 12 y, 14 x."
    found.post_filter_message = "preemption: no."
    assert found.message == "0/14 nodes are available: 12 y, 14 x. preemption: no."


def test_statuses_without_reasons_make_a_short_message() -> None:
    table = nodes(1)
    found = diagnosis(table)
    found.run(stage("A", Status.unschedulable()), codes(table, 1))
    assert found.message == "0/1 nodes are available:"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (NEVER, "0/4 nodes are available: never."),
        (Status.unresolvable(), "0/4 nodes are available:"),
    ],
)
def test_a_pre_filter_rejection_stands_for_every_node(status: Status, message: str) -> None:
    table = nodes()
    found = diagnosis(table)
    found.reject_all(status.by("A"))
    assert not found.fits.any()
    assert found.message == message
    assert found.status(2) == status.by("A")
    assert found.unschedulable_plugins == {"A"}
    assert found.rows_with(unresolvable=True).tolist() == [0, 1, 2, 3]
    assert found.rows_with(unresolvable=False).tolist() == []


def test_excluded_nodes_have_no_plugin_to_blame() -> None:
    table = nodes()
    found = diagnosis(table)
    rows = np.zeros(len(table), np.bool_)
    rows[[0, 3]] = True
    found.exclude(rows, NEVER)
    found.run(stage("A", NO), codes(table, 1, 1, 0, 0))
    assert found.status(0) == NEVER
    assert found.status(1) == NO.by("A")
    assert found.fits[:4].tolist() == [False, False, True, False]
    assert found.unschedulable_plugins == {"A"}
    assert found.message == "0/4 nodes are available: 1 no, 2 never."
    assert len(found.groups()) == 2


def test_an_override_outweighs_what_the_plugins_said() -> None:
    table = nodes()
    found = diagnosis(table)
    found.run(stage("A", NO), codes(table, 1))
    found.override(0, NEVER.by("B"))
    found.override(np.array([1, 2]), NEVER.by("B"))
    assert found.status(0) == found.status(2) == NEVER.by("B")
    assert found.fits[:4].tolist() == [False, False, False, True]
    assert found.message == "0/4 nodes are available: 3 never."
    assert found.unschedulable_plugins == {"A", "B"}


def test_pending_plugins_are_kept_apart() -> None:
    table = nodes()
    found = diagnosis(table)
    found.run(stage("A", Status.pending("wait")), codes(table, 1, 1, 1, 1))
    assert found.pending_plugins == {"A"}
    assert found.unschedulable_plugins == set()


def test_the_first_error_is_a_fault_that_names_plugin_and_node() -> None:
    table = nodes()
    found = diagnosis(table)
    found.run(stage("A", NO, Status.error("oh")), codes(table, 1, -2))
    fault = found.fault()
    assert fault is not None
    assert (fault.point, fault.plugin, fault.node) == (Point.FILTER, "A", "n1")
    assert str(fault) == 'running "A" filter plugin: oh'
    assert found.unschedulable_plugins == {"A"}, "an error is no rejection"


def test_nodes_that_are_outside_of_the_question_are_not_counted() -> None:
    table = nodes(4)
    domain = np.zeros(len(table), bool)
    domain[:3] = True
    counted = Diagnosis(table, CycleState(domain=domain), make_pod("p").obj())
    left_out = Diagnosis(table, CycleState(domain=domain, outside=None), make_pod("p").obj())
    for each in (counted, left_out):
        each.exclude(~domain, NOT_LOOKED_AT)
        each.run(stage("A", NO), codes(table, 1, 1, 1, 1))
    assert counted.message == "0/4 nodes are available: 3 no."
    assert left_out.message == "0/3 nodes are available: 3 no."
