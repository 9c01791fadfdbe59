"""The cache of answers: what is dropped, and which Pods share answers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.core_harness import Cluster

from bayplan.framework.cycle_state import CycleState
from bayplan.framework.row_answers import RowAnswers, answer_cache
from bayplan.framework.row_answers.answer_cache import LruEntries
from bayplan.testing import PROFILE, PodBuilder, make_node, make_pod


@dataclass
class Entry:
    nbytes: int = 10


def test_what_was_not_used_for_longest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MEMORY_BUDGET", 200)
    entries = LruEntries[int, Entry]()
    for i in range(20):
        entries.put(i, Entry())
    assert len(entries) == 20
    assert entries.get(0) is not None
    entries.put(20, Entry())
    assert entries.get(0) is not None
    assert entries.get(1) is None
    assert entries.get(20) is not None


def test_a_few_are_always_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MEMORY_BUDGET", 0)
    entries = LruEntries[int, Entry]()
    for i in range(40):
        entries.put(i, Entry())
    assert len(entries) == 16


def answers(cluster: Cluster, pod: PodBuilder) -> RowAnswers:
    fit = cluster.core.profiles[PROFILE].search.find(
        CycleState(), pod.spec(schedulerName=PROFILE).obj()
    )
    assert fit.answers is not None
    return fit.answers


def pod(name: str, cpu: str = "1") -> PodBuilder:
    return make_pod(name).req(cpu=cpu).node_selector({"disk": "ssd"})


@pytest.mark.parametrize(
    ("other", "joined", "parts"),
    [
        pytest.param(pod("q"), True, 2, id="another name"),
        pytest.param(pod("q").label("index", "7"), True, 2, id="a label of its own"),
        pytest.param(pod("q").namespace("else"), True, 2, id="another namespace"),
        pytest.param(pod("q", cpu="2"), False, 1, id="another size"),
        pytest.param(pod("q").toleration(operator="Exists"), False, 1, id="other constraints"),
        pytest.param(make_pod("q").req(cpu="3"), False, 0, id="other size and constraints"),
    ],
)
def test_pods_share_what_does_not_depend_on_where_they_differ(
    other: PodBuilder, joined: bool, parts: int
) -> None:
    cluster = Cluster()
    cluster.add(make_node("n").label("disk", "ssd").capacity(cpu="8", pods=10))
    first, second = answers(cluster, pod("p")), answers(cluster, other)
    assert (first is second) is joined
    shared = [part for part in first._shared if part in second._shared]
    assert len(shared) == parts
