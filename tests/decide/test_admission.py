"""Plugins that judge a whole group before nodes are sought for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.core_harness import Cluster
from tests.groups import Source, cluster_of_all, every_source, nodes

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import Group
from bayplan.framework import Plugin, Status
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SKIP


class Curfew(Plugin):
    """Admits no group as long as the answer is not None."""

    answer: Status | Exception | None = None
    asked: int = 0

    def pre_filter(self, state: CycleState, pod: Pod, nodes: object) -> Status:
        return SKIP

    def admit_group(self, group: Group, pods: Sequence[Pod]) -> Status | None:
        self.asked = len(pods)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def cluster_with_group(source: Source) -> Cluster:
    """A node for four Pods, and a group of three with a minimum of two."""
    cluster = cluster_of_all(Curfew)
    cluster.add(source.group(2), *nodes(1), *source.members(3))
    return cluster


@every_source
def test_a_group_that_is_not_admitted_waits_and_says_why(source: Source) -> None:
    cluster = cluster_with_group(source)
    plugin = cluster.plugin(Curfew)
    plugin.answer = Status.unschedulable("has to wait for the morning")
    cluster.run()
    assert cluster.bound == []
    assert plugin.asked == 2
    text = f"the group {source.key} has to wait for the morning"
    assert cluster.verdict == ("Unschedulable", text)
    plugin.answer = None
    cluster.add(*nodes(2)[1:])
    cluster.wait(400)
    cluster.run()
    assert len(cluster.bound) == 3


@every_source
@pytest.mark.parametrize("answer", [RuntimeError("oh"), Status.error("oh")], ids=type)
def test_a_plugin_that_breaks_over_a_group_ends_the_attempt_alone(
    source: Source, answer: Status | Exception
) -> None:
    cluster = cluster_with_group(source)
    plugin = cluster.plugin(Curfew)
    plugin.answer = answer
    cluster.cycle()
    assert cluster.bound == []
    reason, message = cluster.verdict
    assert reason == "SchedulerError"
    assert 'plugin "Curfew"' in message
    assert message.endswith("oh")
    plugin.answer = None
    cluster.wait(11)
    cluster.run()
    assert len(cluster.bound) == 3
    assert cluster.is_at_rest()
