"""What would be without some nodes, with more of them, or by another configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import typer

from bayplan.app.assembly import Core
from bayplan.cli.growth_text import counted, growth_data, growth_sentence
from bayplan.cli.simulate import evicted_for, loss_sentence
from bayplan.simulation import ClusterFileError, LoadedCluster
from bayplan.simulation.growth import Gain, gain
from bayplan.simulation.offline import judged
from bayplan.simulation.simulate import Result, simulate
from bayplan.view.board import Answer, RefusedError, Supposition

Loaded = tuple[LoadedCluster, Core]


class Load(Protocol):
    """Reads the cluster, each time the same."""

    def __call__(
        self,
        *,
        other: bool = False,
        losing: tuple[str, str] | None = None,
        adding: tuple[int, str] | None = None,
    ) -> Loaded:
        """As `bayplan.cli.offline.load`; with ``other`` by the other configuration."""


class Supposed:
    """See `bayplan.view.board.Supposes`. Every question reads the cluster again.

    Args:
        begin: the cluster as of now.
        has_other: whether there is another configuration.
        judged_by: what is said of the configuration that judges; "" for nothing.
    """

    def __init__(
        self, begin: Callable[[], Load], *, has_other: bool = False, judged_by: str = ""
    ) -> None:
        self._begin, self.has_other, self._judged_by = begin, has_other, judged_by

    def suppose(self, what: Supposition) -> Answer:
        """What ``bayplan simulate --lose --add`` says, compared with what is without the change."""
        load = self._begin()
        cluster, core, placements = _placed(load, what)
        answer: Answer = {"judgedBy": self._judged_by} if self._judged_by else {}
        sentences = []
        if cluster.loss is not None:
            sentences.append(loss_sentence(cluster.loss, placements))
            lost = [one for one in placements if one["pod"] in cluster.loss.pods]
            answer |= {
                "lost": cluster.loss.nodes,
                "back": _nodes(lost),
                "down": {one["pod"]: one["message"] for one in lost if one["node"] is None},
                "gone": cluster.loss.gone,
            }
        if what.add is not None or what.other:
            *_, before = _placed(load, Supposition(what.lose))
            gained = gain(before, placements)
            if cluster.growth is not None:
                sentences.append(growth_sentence(cluster.growth, gained))
                answer |= growth_data(cluster.growth, gained)
            if what.other:
                elsewhere = _elsewhere(before, placements)
                sentences.append(_of_other(gained, elsewhere))
                answer |= {"fits": dict(gained.fits), "noLonger": list(gained.no_longer)}
                answer["elsewhere"] = elsewhere
        evicted = evicted_for(placements)
        placed = _nodes(placements)
        if not sentences:
            victims = f"{counted(len(evicted), 'Pod')} would be evicted"
            sentences.append(f"placed: {len(placed)} of {len(placements)} that wait; {victims}")
        return answer | {
            "sentence": "; ".join(sentences),
            "placed": placed,
            "evicted": evicted,
            "leaving": {key: core.world.handlers.pods[key].node_name for key in evicted},
            "waits": {one["pod"]: one["message"] for one in placements if one["node"] is None},
        }


def _placed(load: Load, what: Supposition) -> tuple[LoadedCluster, Core, list[Result]]:
    try:
        cluster, core = load(losing=what.lose, adding=what.add, other=what.other)
    except ClusterFileError as error:
        raise RefusedError(400, str(error)) from None
    except typer.Exit:
        why = "the cluster, or a configuration, cannot be read; bayplan view has printed why"
        raise RefusedError(502, why) from None
    loses = cluster.loss is not None
    return cluster, core, simulate(core, judged(cluster, core), evict=loses, again=loses)


def _nodes(placements: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {one["pod"]: one["node"] for one in placements if one["node"] is not None}


def _elsewhere(before: list[Result], after: list[Result]) -> dict[str, str]:
    """The Pods with a node before and after, but another one; where after."""
    old = _nodes(before)
    return {pod: node for pod, node in _nodes(after).items() if old.get(pod, node) != node}


def _of_other(gained: Gain, elsewhere: Mapping[str, str]) -> str:
    return (
        f"by configuration B: placed in addition: {len(gained.fits)}, no longer placed: "
        f"{len(gained.no_longer)}, on another node: {len(elsewhere)}"
    )
