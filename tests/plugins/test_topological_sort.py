from __future__ import annotations

import pytest
from tests.core_harness import Cluster, profile
from tests.plugins.harness import PluginWorld
from tests.plugins.networks import app_group, member, node
from tests.plugins.test_priority_sort import Queued

from bayplan.plugins.topological_sort import TopologicalSort
from bayplan.testing import PodBuilder, make_pod

SHOP = app_group({"web": [], "db": [], "log": []}, order=["db", "web"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(member("db", "db"), member("web", "web").priority(9), id="by-order"),
        pytest.param(member("log", "log"), member("db", "db"), id="a-workload-without-a-place"),
        pytest.param(make_pod("a").priority(1), member("db", "db"), id="by-priority"),
        pytest.param(
            member("web", "web", group="else").priority(1), member("db", "db"), id="other-group"
        ),
    ],
)
def test_the_order(first: PodBuilder, second: PodBuilder) -> None:
    plugin = PluginWorld().add(SHOP).make(TopologicalSort)
    a, b = Queued(first.obj(), 2.0), Queued(second.obj(), 1.0)
    assert plugin.less(a, b)
    assert not plugin.less(b, a)


def test_equal_ones_are_served_as_they_come() -> None:
    plugin = PluginWorld().add(SHOP).make(TopologicalSort)
    a, b = (Queued(member(f"web-{i}", "web").obj(), float(i)) for i in range(2))
    assert plugin.less(a, b)
    assert not plugin.less(b, a)
    assert not plugin.less(a, a)


def test_without_the_app_group_priority_counts() -> None:
    plugin = PluginWorld().make(TopologicalSort)
    a, b = Queued(member("web", "web").priority(1).obj(), 1.0), Queued(member("db", "db").obj(), 0)
    assert plugin.less(a, b)


def test_the_queue_is_in_that_order() -> None:
    made = profile()
    made["plugins"] = {
        "queueSort": {"enabled": [{"name": "TopologicalSort"}], "disabled": [{"name": "*"}]}
    }
    cluster = Cluster(profiles=[made])
    cluster.add(node("n"), SHOP)
    for name in ("web", "log", "db"):
        cluster.add(member(name, name).req(cpu="1"))
    cluster.run()
    assert [name for name, _ in cluster.bound] == ["log", "db", "web"]
