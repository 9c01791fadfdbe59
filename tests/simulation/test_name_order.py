from __future__ import annotations

import numpy as np

from bayplan.cache.node_table import LiveNodeTable
from bayplan.engine.ties import Ties
from bayplan.simulation.name_order import NameOrder
from bayplan.testing import make_node


def test_rows_are_ordered_by_name_whatever_comes_and_goes() -> None:
    nodes, order = LiveNodeTable(), NameOrder()
    rows = np.array([nodes.set_node(make_node(name).obj()) for name in ("b", "n10", "n2", "a")])
    assert order.names(nodes, rows) == ["a", "b", "n10", "n2"]
    assert nodes.names[order(nodes, Ties(rows[:3]))] == "b"
    nodes.remove_node("b")
    nodes.set_node(make_node("z").obj())
    assert nodes.names[order(nodes, Ties(rows[:3]))] == "n10"
    assert order.names(nodes, np.flatnonzero(nodes.exists)) == ["a", "n10", "n2", "z"]
