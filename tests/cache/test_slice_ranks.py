"""Which Pods are in the same slice."""

from __future__ import annotations

import pytest

from bayplan.api.pod import Pod
from bayplan.cache.group_topology import Slice
from bayplan.cache.slice_ranks import INDEX_LABELS, cut, slice_id
from bayplan.testing import make_pod

PAIRS = (Slice("rack", 2),)


def pods(*labels: dict[str, str]) -> list[Pod]:
    """Pods p0, p1 and so on with these labels."""
    return [make_pod(f"p{i}").labels(each).obj() for i, each in enumerate(labels)]


def names(of: list[Pod], slices: tuple[Slice, ...]) -> tuple[int, dict[int, str]]:
    """Number of outermost slices, and by innermost slice its Pods."""
    number, parts = cut(of, slices)
    return number, {
        part: " ".join(pod.name for pod in inside) for part, inside in sorted(parts.items())
    }


@pytest.mark.parametrize("label", INDEX_LABELS)
def test_pods_with_an_index_are_with_their_neighbours(label: str) -> None:
    indexed = pods(*({label: str(i)} for i in (3, 10, 2, 11)))
    assert names(indexed, PAIRS) == (2, {0: "p2 p0", 1: "p1 p3"})
    assert slice_id(indexed[0].shape, 2) == slice_id(indexed[2].shape, 2)
    assert slice_id(indexed[0].shape, 2) != slice_id(indexed[1].shape, 2)


def test_pods_without_an_index_are_cut_in_their_order() -> None:
    plain = pods({}, {}, {}, {}, {})
    assert names(plain, PAIRS) == (3, {0: "p0 p1", 1: "p2 p3", 2: "p4"})
    assert slice_id(plain[0].shape, 2) is None


def test_an_index_that_only_some_pods_have_does_not_count() -> None:
    label = INDEX_LABELS[0]
    assert names(pods({label: "1"}, {}, {label: "0"}, {label: "x"}), PAIRS) == (
        2,
        {0: "p0 p1", 1: "p2 p3"},
    )


def test_pods_of_a_job_set_go_job_by_job() -> None:
    labels = [
        {"jobset.sigs.k8s.io/job-global-index": str(job), INDEX_LABELS[0]: str(index)}
        for index in (0, 1)
        for job in (1, 10, 2)
    ]
    assert names(pods(*labels), PAIRS) == (3, {0: "p0 p3", 1: "p2 p5", 2: "p1 p4"})


def test_jobs_that_are_smaller_than_a_slice_share_one() -> None:
    labels = [
        {"jobset.sigs.k8s.io/job-global-index": str(job), INDEX_LABELS[0]: "0"} for job in range(4)
    ]
    assert names(pods(*labels), PAIRS) == (2, {0: "p0 p1", 1: "p2 p3"})


def test_a_slice_keeps_its_place_where_pods_of_it_have_ended() -> None:
    nested = (Slice("block", 4), Slice("rack", 2))
    left = pods(*({INDEX_LABELS[0]: str(i)} for i in (0, 3, 4, 6, 7)))
    assert names(left, nested) == (2, {0: "p0", 1: "p1", 2: "p2", 3: "p3 p4"})
