"""Extenders: webhooks that filter, prioritize, preempt and bind together with the plugins.

The rules are those of kube-scheduler's ``pkg/scheduler/extender.go``: extenders are called one
after the other with the remaining nodes, an ignorable one may fail, scores of 0-10 are scaled to
0-100 and weighted, the first interested binder binds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import structlog

from bayplan.support import logs
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.engine.extenders import REJECTOR, ExtenderError
from bayplan.engine.faults import AttemptFault
from bayplan.engine.search import Fit
from bayplan.extenders import wire
from bayplan.framework.status import SUCCESS, Status

if TYPE_CHECKING:
    from bayplan.extenders.http_extender import HttpExtender

log = structlog.get_logger("extender")

MAX_EXTENDER_PRIORITY = 10
SCALE = 100 // MAX_EXTENDER_PRIORITY


class Extenders:
    """All extenders of the configuration, in order; false when there are none."""

    def __init__(self, extenders: Iterable[HttpExtender] = ()) -> None:
        self._extenders = list(extenders)

    def __bool__(self) -> bool:
        return bool(self._extenders)

    def _with(self, verb: str, pod: Pod) -> list[HttpExtender]:
        return [e for e in self._extenders if getattr(e.config, verb) and e.interested(pod)]

    def filter(self, pod: Pod, nodes: NodeTable, fit: Fit) -> dict[int, Status]:
        """Remove from ``fit`` what extenders reject; returns why, by row.

        Raises:
            AttemptFault: an extender that is not ignorable failed.
        """
        rejected: dict[int, Status] = {}
        for extender in self._with("filter_verb", pod):
            rows = np.flatnonzero(fit.feasible)
            if not rows.size:
                break
            try:
                kept, statuses = _filter_by(extender, pod, nodes, rows)
            except ExtenderError as exc:
                if not extender.ignorable:
                    raise AttemptFault(None, extender.name, exc) from exc
                log.warning("Skipping extender that failed", extender=extender.name, error=str(exc))
                continue
            rejected.update(statuses)
            fit.feasible = np.zeros(len(nodes), np.bool_)
            fit.feasible[kept] = True
            fit.count = len(kept)
        return rejected

    def add_scores(self, pod: Pod, nodes: NodeTable, fit: Fit, totals: IntArray) -> IntArray:
        """``totals`` plus the extenders' scores; one that fails adds nothing.

        Whatever extenders say, a node that is not feasible comes last.
        """
        totals = totals.astype(np.int64)
        rows = np.flatnonzero(fit.feasible).tolist()
        candidates = [node for r in rows if (node := nodes.nodes[r]) is not None]
        for extender in self._with("prioritize_verb", pod):
            try:
                scores = extender.prioritize(pod, candidates)
            except ExtenderError as exc:
                log.warning("Extender gave no scores", extender=extender.name, error=str(exc))
                continue
            for score in scores:
                row = nodes.row(score.host)
                if row is not None and fit.feasible[row]:
                    totals[row] += score.score * extender.config.weight * SCALE
            if logs.enabled(10):
                _log_scores(extender, pod, scores)
        totals[~fit.feasible] = np.iinfo(np.int64).min
        return totals

    def preemptors(self, pod: Pod) -> list[HttpExtender]:
        """Extenders that want a say in who is evicted."""
        return self._with("preempt_verb", pod)

    def binds(self, pod: Pod) -> bool:
        """Whether an extender binds this Pod."""
        return bool(self._with("bind_verb", pod))

    def bind(self, pod: Pod, node_name: str) -> Status | None:
        """The outcome, or None when no extender binds this Pod after all. Blocks."""
        for extender in self._with("bind_verb", pod):
            try:
                extender.bind(pod, node_name)
            except ExtenderError as exc:
                if extender.config.ignorable:
                    log.warning("Skipping extender in bind", extender=extender.name, error=str(exc))
                    continue
                return Status.error(str(exc))
            return SUCCESS
        return None


def _log_scores(extender: HttpExtender, pod: Pod, scores: Iterable[wire.HostPriority]) -> None:
    for score in scores:
        text = "Extender scored node for pod"
        who, node = extender.name, score.host
        log.info(text, v=10, pod=pod.key, extender=who, node=node, score=score.score)


def _filter_by(
    extender: HttpExtender, pod: Pod, nodes: NodeTable, rows: IntArray
) -> tuple[list[int], dict[int, Status]]:
    """The rows accepted by the extender, and the statuses of the other rows."""
    row_by_name = {nodes.names[row] or "": row for row in rows.tolist()}
    candidates = [node for r in row_by_name.values() if (node := nodes.nodes[r]) is not None]
    result = extender.filter(pod, candidates)
    if extender.config.node_cache_capable and result.node_names is not None:
        names = result.node_names
    else:
        items = result.nodes.items if result.nodes else None
        names = [node.metadata.name for node in items or ()]
    for name in names:
        if name not in row_by_name:
            raise ExtenderError(
                f'extender "{extender.name}" claims a filtered node "{name}" which is not found in '
                "the input node list"
            )
    failed = {n: Status.unschedulable(m) for n, m in (result.failed_nodes or {}).items()}
    hopeless = result.failed_and_unresolvable_nodes or {}
    failed.update({n: Status.unresolvable(m) for n, m in hopeless.items()})
    statuses = {
        row_by_name[name]: s.by(REJECTOR) for name, s in failed.items() if name in row_by_name
    }
    return sorted({row_by_name[name] for name in names}), statuses
