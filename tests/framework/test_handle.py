"""What plugins are given: users a part of what bayplan's own plugins have."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.engine.what_if import WhatIf
from bayplan.framework import Handle
from bayplan.framework.handle import ClusterWriter
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.default_preemption import DefaultPreemption
from bayplan.testing import PROFILE, Writer, make_pod


def handle_of(cluster: Cluster, kind: Any) -> Any:
    return cluster.plugin(kind).handle


def test_a_users_plugin_gets_the_public_part_of_the_handle() -> None:
    kind = scripted("Mine", filter=None)
    handle = handle_of(Cluster(kind), kind)
    assert type(handle) is Handle
    assert handle.profile == PROFILE
    internal = {f.name for f in fields(InTreeHandle)} - {f.name for f in fields(Handle)}
    assert internal == {
        "pods",
        "preparing",
        "kubernetes_groups",
        "evictions",
        "exhaustive",
        "extenders",
        "instrument",
        "queues",
        "queued",
        "room_request",
        "what_if",
        "services",
        "gates",
        "groups",
    }
    assert not any(hasattr(handle, name) for name in internal)


def test_an_in_tree_plugin_gets_all_of_it() -> None:
    handle = handle_of(Cluster(), DefaultPreemption)
    assert type(handle) is InTreeHandle
    what_if = handle.what_if
    assert isinstance(what_if, WhatIf)
    assert {"NodeUnschedulable", "NodeName"} <= {stage.name for stage in what_if.stages}


def test_a_plugin_cannot_change_its_handle() -> None:
    kind = scripted("Mine", filter=None)
    with pytest.raises(FrozenInstanceError):
        handle_of(Cluster(kind), kind).writer = None


def test_both_parts_see_the_same_cluster() -> None:
    kind = scripted("Mine", filter=None)
    cluster = Cluster(kind)
    mine, own = handle_of(cluster, kind), handle_of(cluster, DefaultPreemption)
    for name in ("nodes", "objects", "counters", "nominator", "waiting", "events", "writer"):
        assert getattr(mine, name) is getattr(own, name)


def test_the_writer_of_a_cluster_writes() -> None:
    writer: ClusterWriter = Writer()
    done: list[Exception | None] = []
    writer.bind(make_pod("p").obj(), "n1", done.append)
    assert done == [None]


def test_what_a_plugin_measures_has_its_name() -> None:
    kind = scripted("Mine", filter=None)
    cluster = Cluster(kind)
    metrics = handle_of(cluster, kind).metrics
    metrics.count("calls")
    metrics.count("calls", 2)
    metrics.set("free", 7)
    metrics.observe("lookup", 0.25)
    labels = {"plugin": "Mine"}
    assert cluster.metric("bayplan_plugin_events_total", name="calls", **labels) == 3
    assert cluster.metric("bayplan_plugin_value", name="free", **labels) == 7
    assert cluster.metric("bayplan_plugin_seconds_sum", name="lookup", **labels) == 0.25


def test_a_plugins_log_lines_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    kind = scripted("Mine", filter=None)
    handle_of(Cluster(kind), kind).logger.info("looked around", nodes=3)
    line = capsys.readouterr().out
    assert "looked around" in line
    assert "Mine" in line
    assert PROFILE in line
