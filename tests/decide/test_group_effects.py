"""Effects that plugins want while Pods of a group are tried: what stands is carried out."""

from __future__ import annotations

from typing import Any

from tests.core_harness import Cluster
from tests.groups import Kubernetes, Source, cluster_of_all, every_source, nodes

from bayplan.api.pod import Pod
from bayplan.decide.group import deciding_group
from bayplan.framework import CycleState, Effect, NodeTable, Plugin


class Tried(Effect, frozen=True, eq=False):
    """The Pod was tried."""

    pod: str


class GivenBack(Effect, frozen=True, eq=False):
    """The Pod has given its node back."""

    pod: str


class Notes(Plugin):
    """Wants to know which Pods were tried, and which gave their nodes back."""

    carried: list[tuple[str, str]]

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.carried = []

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> None:
        state.effects.append(Tried(self.name, pod.name))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Have `unreserve` called."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        state.effects.append(GivenBack(self.name, pod.name))

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Tried():
                self.carried.append(("tried", effect.pod))
            case GivenBack():
                self.carried.append(("given back", effect.pod))


def cluster_with_group(source: Source, minimum: int, number: int) -> Cluster:
    """A node for three Pods, and a group."""
    cluster = cluster_of_all(Notes)
    cluster.add(source.group(minimum), *nodes(1, cpu="3"), *source.members(number))
    return cluster


@every_source
def test_what_plugins_want_about_members_that_are_placed_is_carried_out(source: Source) -> None:
    cluster = cluster_with_group(source, 2, 2)
    cluster.run()
    assert len(cluster.bound) == 2
    assert sorted(cluster.plugin(Notes).carried) == [
        ("tried", pod.obj().name) for pod in source.members(2)
    ]


def test_of_a_group_that_does_not_fit_what_undoes_its_tries_is_carried_out() -> None:
    cluster = cluster_with_group(Kubernetes(), 4, 5)
    cluster.cycle()
    assert cluster.bound == []
    assert sorted(cluster.plugin(Notes).carried) == [
        *(("given back", f"g-{i}") for i in range(3)),
        *(("tried", f"g-{i}") for i in (3, 4)),
    ]


@every_source
def test_a_question_carries_nothing_out(source: Source) -> None:
    cluster = cluster_with_group(source, 2, 2)
    (entry,) = cluster.queue.groups
    assert entry.group is not None
    framework = cluster.core.profiles[entry.profile]
    with deciding_group(cluster.core.placers, framework, entry.group, entry.pods) as decision:
        assert decision.fits
        assert len(decision.effects) == 2
    assert cluster.plugin(Notes).carried == []
    assert cluster.nodes.requested("cpu").sum() == 0
