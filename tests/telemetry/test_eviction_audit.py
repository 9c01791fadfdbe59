"""What the metrics say of evictions: repeated, in vain, and how long victims were away."""

from __future__ import annotations

import pytest

from bayplan.telemetry import eviction_audit
from bayplan.telemetry.metrics import Metrics
from bayplan.testing import PodBuilder, make_pod

PROFILE = "default-scheduler"
REPEATED = "bayplan_preemptions_repeated_total"
IN_VAIN = "bayplan_preemptions_in_vain_total"
AWAY = "bayplan_victim_return_seconds"


class Evictions:
    """Metrics with a clock of their own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics(lambda: self.now)

    def evict(self, taker: PodBuilder, *victims: PodBuilder, nodes: str | None = "a") -> None:
        where = None if nodes is None else nodes.split()
        self.metrics.leaving([taker.obj()], where, [victim.obj() for victim in victims])

    def bind(self, pod: PodBuilder, node: str) -> None:
        self.metrics.attempt(pod.obj().on_node(node), PROFILE, "scheduled", 0.0)

    def value(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)


@pytest.fixture
def evictions() -> Evictions:
    return Evictions()


def job(name: str, owner: str = "j") -> PodBuilder:
    return make_pod(name).uid(name).owner("Job", owner, "batch/v1")


def test_who_evicts_again_is_counted(evictions: Evictions) -> None:
    evictions.evict(job("taker"), job("v1"))
    assert evictions.value(REPEATED) == 0
    evictions.evict(job("taker"), job("v2"))
    evictions.evict(job("other"), job("v3"))
    assert evictions.value(REPEATED) == 1


def test_who_evicted_for_the_sake_of_a_limit_may_be_bound_anywhere(evictions: Evictions) -> None:
    evictions.evict(job("taker"), job("v"), nodes=None)
    evictions.bind(job("taker"), "b")
    assert evictions.value(IN_VAIN) == 0
    evictions.evict(job("taker"), job("v"))
    assert evictions.value(REPEATED) == 0, "it was bound in between"


@pytest.mark.parametrize(("node", "in_vain"), [("a", 0), ("b", 1)])
def test_who_is_bound_elsewhere_has_evicted_in_vain(
    evictions: Evictions, node: str, in_vain: int
) -> None:
    evictions.evict(job("taker"), job("v"), nodes="a c")
    evictions.metrics.attempt(job("taker").obj(), PROFILE, "unschedulable", 0.0)
    evictions.bind(job("taker"), node)
    assert evictions.value(IN_VAIN) == in_vain
    evictions.evict(job("taker"), job("v"))
    assert evictions.value(REPEATED) == 0, "it was bound in between"


def test_the_next_pod_of_its_owner_ends_the_absence_of_a_victim(evictions: Evictions) -> None:
    evictions.evict(job("taker", "t"), job("v1", "j"), job("v2", "j"), make_pod("alone"))
    evictions.now = 30.0
    evictions.bind(job("w1", "k"), "b")
    assert evictions.value(f"{AWAY}_count") == 0
    evictions.bind(job("w2", "j"), "b")
    evictions.now = 50.0
    for name in ("w3", "w4"):
        evictions.bind(job(name, "j"), "b")
    assert evictions.value(f"{AWAY}_count") == 2
    assert evictions.value(f"{AWAY}_sum") == 80.0


def test_what_is_remembered_is_bounded(
    evictions: Evictions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction_audit, "REMEMBERED", 2)
    for number in range(4):
        evictions.evict(job(f"taker-{number}"), job("v", f"j{number}"))
    evictions.evict(job("taker-0"), job("v"))
    assert evictions.value(REPEATED) == 0
    evictions.evict(job("taker-3"), job("v"))
    assert evictions.value(REPEATED) == 1
