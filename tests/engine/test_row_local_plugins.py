"""Users' plugins whose answers are kept: they stand in nobody's way when room comes up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.core_harness import Cluster
from tests.groups import nodes
from tests.scripted import scripted

from bayplan.framework import Depends, Plugin, Status
from bayplan.testing import make_pod


def filtering(depends: Depends, *, by_node: bool) -> type[Plugin]:
    """A plugin that every node passes."""

    class Anywhere(Plugin):
        filter_depends = depends

    if by_node:
        Anywhere.filter = lambda *_: None  # type: ignore[attr-defined]
    else:

        def filter_nodes(_self: Plugin, _state: Any, _pod: Any, table: Any) -> Any:
            return np.zeros(len(table), np.int8)

        Anywhere.filter_nodes = filter_nodes  # type: ignore[attr-defined]
        Anywhere.reasons = lambda *_: Status.unschedulable("never")  # type: ignore[attr-defined]
    return Anywhere


def full_of_pods(plugin: type[Plugin]) -> Cluster:
    """Two nodes; a Pod waits until others leave, and they do."""
    cluster = Cluster(plugin)
    others = [make_pod(f"other-{i}").req(cpu="2").node(f"n{i}") for i in range(2)]
    cluster.add(*nodes(2, cpu="2"), *others, make_pod("waits").req(cpu="2"))
    cluster.run()
    assert cluster.bound == []
    cluster.remove(*others)
    cluster.run()
    return cluster


@pytest.mark.parametrize("by_node", [False, True])
@pytest.mark.parametrize("depends", [Depends(0), *Depends])
def test_a_pod_that_waited_for_room_is_placed(depends: Depends, by_node: bool) -> None:
    cluster = full_of_pods(filtering(depends, by_node=by_node))
    assert [name for name, _ in cluster.bound] == ["waits"]


def test_a_prescore_plugin_that_fails_says_so_when_there_is_room() -> None:
    cluster = full_of_pods(scripted("Broken", pre_score=Status.error("no disk")))
    messages = [c.message for name, c in cluster.recorder.conditions if name == "waits"]
    assert messages[-1] == 'running PreScore plugin "Broken": no disk'
