"""Slice ranks: which Pods of a group are in the same slice.

Pods that have an index go by it, so that neighbours are together: with slices of 8 those of index 0
to 7, of 8 to 15, and so on; Pods of several Jobs go Job by Job. Pods without an index are in no
particular slice: any eight of them are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.group_topology import Slice
from bayplan.cache.inferred_groups import COMPLETION_INDEX

INDEX_LABELS = (
    COMPLETION_INDEX,
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
    "kueue.x-k8s.io/pod-group-pod-index",
)
"""Labels of Pods, the first one counts."""
_JOB_LABEL = "jobset.sigs.k8s.io/job-global-index"
_ROLE_LABEL = "training.kubeflow.org/replica-type"


class SliceId(NamedTuple):
    """Equal for Pods of one slice: the Job, the role, and the number of the slice among these."""

    job: int
    role: str
    number: int


def slice_id(shape: PodShape, size: int) -> SliceId | None:
    """The slice of Pods with that shape where slices have this size; None without an index."""
    rank = shape.memo(_rank)
    return None if rank is None else SliceId(rank.job, rank.role, rank.number // size)


def cut(pods: Sequence[Pod], slices: Sequence[Slice]) -> tuple[int, dict[int, list[Pod]]]:
    """Cut Pods into slices.

    Args:
        pods: those of a group, in the order in which they are tried.
        slices: its layers, the widest first.

    Returns:
        How many of the outermost slices there are, and by number of the innermost slice its Pods.
        Each outermost slice has the same number of innermost ones; the last may have fewer Pods.
    """
    outer, inner = slices[0].size, slices[-1].size
    ranks = [pod.shape.memo(_rank) for pod in pods]
    numbers = list(range(len(pods)))
    ranked = [rank for rank in ranks if rank is not None]
    if len(ranked) == len(pods):
        pods = [pod for _, pod in sorted(zip(ranked, pods, strict=True), key=lambda pair: pair[0])]
        ranked.sort()
        ids = [rank._replace(number=rank.number // outer) for rank in ranked]
        order = {one: place for place, one in enumerate(dict.fromkeys(ids))}
        alone = len({(rank.job, rank.role) for rank in ranked}) == 1
        if alone or len(order) == -(-len(pods) // outer):
            pairs = zip(ids, ranked, strict=True)
            numbers = [order[one] * outer + rank.number % outer for one, rank in pairs]
    cut: dict[int, list[Pod]] = {}
    for number, pod in zip(numbers, pods, strict=True):
        cut.setdefault(number // inner, []).append(pod)
    return max(numbers) // outer + 1, cut


def _rank(shape: PodShape) -> SliceId | None:
    """With the index of the Pod itself as the number."""
    labels = shape.labels
    index = next((labels[name] for name in INDEX_LABELS if name in labels), "")
    job = labels.get(_JOB_LABEL, "0")
    if not index.isdecimal() or not job.isdecimal():
        return None
    return SliceId(int(job), labels.get(_ROLE_LABEL, ""), int(index))
