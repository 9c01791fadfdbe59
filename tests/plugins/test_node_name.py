from __future__ import annotations

import pytest
from tests.plugins.harness import filtered, hint, make, table_of

from bayplan.api.kinds import NODE
from bayplan.framework.cluster_events import Action, Hint
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SUCCESS, Status
from bayplan.plugins.node_name import NodeName
from bayplan.testing import make_node, make_pod

ELSEWHERE = Status.unresolvable("node(s) didn't match the requested node name")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param("", {"a": SUCCESS, "b": SUCCESS}, id="no-name"),
        pytest.param("a", {"a": SUCCESS, "b": ELSEWHERE}, id="one-of-them"),
        pytest.param("c", {"a": ELSEWHERE, "b": ELSEWHERE}, id="unknown"),
    ],
)
def test_a_pod_that_names_its_node_fits_only_there(
    wanted: str, expected: dict[str, Status]
) -> None:
    nodes = table_of(make_node("a"), make_node("b"))
    assert filtered(make(NodeName), make_pod().node(wanted).obj(), nodes) == expected


@pytest.mark.parametrize(("wanted", "names"), [("", None), ("a", frozenset("a"))])
def test_no_other_node_is_looked_at(wanted: str, names: frozenset[str] | None) -> None:
    nodes = table_of(make_node("a"), make_node("b"))
    answer = make(NodeName).pre_filter(CycleState(), make_pod().node(wanted).obj(), nodes)
    assert (answer.node_names if answer else None) == names


def test_only_a_new_node_wakes_the_pod() -> None:
    plugin, pod, node = make(NodeName), make_pod().obj(), make_node().obj()
    assert hint(plugin, NODE, Action.ADD, pod, None, node) is Hint.QUEUE
    assert hint(plugin, NODE, Action.UPDATE_NODE_LABEL, pod, node, node) is None
