"""The cache of answers: what is dropped, and which Pods share answers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.core_harness import Cluster

from bayplan.engine.row_answers import RowAnswers, answer_cache
from bayplan.engine.row_answers.answer_cache import LruEntries
from bayplan.framework.cycle_state import CycleState
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


def bound(cluster: Cluster, pods: int) -> None:
    """So many changes on one node, which is as it was in the end."""
    for i in range(pods // 2):
        other = make_pod(f"bound-{i}").req(cpu="1").node("n")
        cluster.add(other)
        cluster.remove(other)


def test_answers_far_behind_give_their_columns_back() -> None:
    cluster = Cluster()
    cluster.add(make_node("n").label("disk", "ssd").capacity(cpu="8", pods=10))
    first = answers(cluster, pod("p"))
    limit = 8 + len(cluster.cache.nodes) // 32
    bound(cluster, limit)
    second = answers(cluster, pod("q", cpu="2"))
    assert first.fits.any(), "so many changes are followed row by row"
    bound(cluster, 2)
    answers(cluster, pod("r", cpu="3"))
    requests, constraints = sorted(first._shared, key=lambda part: len(part.fits))
    assert len(first.fits) == len(first.totals()) == len(requests.fits) == 0
    assert constraints.fits.any(), "these do not depend on Pods"
    assert second.fits.any()
    assert answers(cluster, pod("p")) is first
    assert first.fits.any()
    assert requests.fits.any()


def test_answers_that_are_dropped_are_not_kept_for_their_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_cache, "MEMORY_BUDGET", 0)
    cluster = Cluster()
    cluster.add(make_node("n").label("disk", "ssd").capacity(cpu="8", pods=10))
    for milli in range(100, 140):
        answers(cluster, pod("p", cpu=f"{milli}m"))
    cache = cluster.core.profiles[PROFILE].search._book
    assert len(cache) == len(cache._with_columns) == 16
