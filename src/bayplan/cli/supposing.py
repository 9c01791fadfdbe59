"""What would be without some nodes, or with more of them, as the page of files asks."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.app.assembly import Core
from bayplan.cli.growth_text import growth_data, growth_sentence
from bayplan.cli.simulate import evicted_for, loss_sentence
from bayplan.simulation import ClusterFileError, LoadedCluster
from bayplan.simulation.growth import gain
from bayplan.simulation.offline import judged
from bayplan.simulation.simulate import simulate
from bayplan.view.board import Answer, RefusedError

Loaded = tuple[LoadedCluster, Core]


class SupposedFiles:
    """See `bayplan.view.board.Supposes`. Every question reads the files again.

    Args:
        load: as `bayplan.cli.offline.load`, for the files.
        load_before: as `bayplan.cli.offline.load_before`.
    """

    def __init__(
        self, load: Callable[..., Loaded], load_before: Callable[[LoadedCluster], Loaded]
    ) -> None:
        self._load, self._load_before = load, load_before

    def lose(self, label: str, value: str) -> Answer:
        """What ``bayplan simulate --lose`` says."""
        cluster, core = self._loaded(losing=(label, value))
        loss = cluster.loss
        assert loss is not None
        placements = simulate(core, judged(cluster, core), evict=True, again=True)
        lost = [placement for placement in placements if placement["pod"] in loss.pods]
        return {
            "sentence": loss_sentence(loss, placements),
            "nodes": loss.nodes,
            "back": {one["pod"]: one["node"] for one in lost if one["node"] is not None},
            "down": {one["pod"]: one["message"] for one in lost if one["node"] is None},
            "gone": loss.gone,
            "evicted": evicted_for(placements),
        }

    def add(self, number: int, like: str) -> Answer:
        """What ``bayplan simulate --add`` says."""
        cluster, core = self._loaded(adding=(number, like))
        growth = cluster.growth
        assert growth is not None
        placements = simulate(core, judged(cluster, core))
        old, without = self._load_before(cluster)
        gained = gain(simulate(without, judged(old, without)), placements)
        return {
            "sentence": growth_sentence(growth, gained),
            **growth_data(growth, gained),
            "waits": {one["pod"]: one["message"] for one in placements if one["node"] is None},
        }

    def _loaded(self, **change: tuple[object, str]) -> Loaded:
        try:
            return self._load(**change)
        except ClusterFileError as error:
            raise RefusedError(400, str(error)) from None
