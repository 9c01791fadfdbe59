"""The comparison of tenants places all Pods in all three worlds, and counts tenants in two."""

from __future__ import annotations

import pytest
from bench.core import WARM_PODS
from bench.recording import CoreWorld
from bench.turns import COUNTED, SECONDS, TURN, World, bytecodes_of

from bayplan.api.kinds import ELASTIC_QUOTA, QUEUE
from bench import tenants


def test_all_pods_are_placed_and_counted_for_their_tenants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worlds: list[CoreWorld] = []

    class Kept(World):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            worlds.append(self)

    monkeypatch.setattr(tenants, "World", Kept)
    tenants.main(nodes=20, tenants=3, pods=2 * TURN, steps=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == [
        "without tenants",
        "3 Queues",
        "3 ElasticQuotas",
    ]
    assert any("QueueTurns.tried" in line for line in lines)
    assert any("Quotas._leaf" in line for line in lines)
    _, fair, elastic = (world.core.world for world in worlds)
    assert [len(list(w.core.world.cache.objects.all(QUEUE))) for w in worlds] == [0, 3, 0]
    assert [len(list(w.core.world.cache.objects.all(ELASTIC_QUOTA))) for w in worlds] == [0, 0, 3]
    cpu = fair.queues.sums.structure.resources.index("cpu")
    placed = 2 * TURN + COUNTED + WARM_PODS
    assert int(fair.queues.sums.used[:, cpu].sum()) == 100 * placed
    assert len(elastic.cache.pods()) == len(fair.cache.pods())


@pytest.mark.parametrize("kind", ["Queues", "ElasticQuotas"])
def test_a_pod_of_one_of_100_tenants_executes_at_most_a_tenth_more(kind: str) -> None:
    worlds = tenants.all_worlds(nodes=100, tenants=100, pods=100)
    counted = {}
    for name in ("without tenants", f"100 {kind}"):
        worlds[name].place(100, SECONDS)  # one Pod of each tenant
        counted[name] = bytecodes_of(worlds[name]).total()
    assert counted[f"100 {kind}"] <= 1.10 * counted["without tenants"]
