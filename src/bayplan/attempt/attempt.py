"""Attempt: from a Pod to a node, or to the reason why there is none.

The scheduling cycle up to the choice. It changes neither the cache nor the queue: what plugins want
done is in `CycleState.effects` afterwards. Plugins of users at PostFilter may act by themselves;
they are asked in the scheduling cycle alone, unless they say that they do not (`Plugin.pure`).

Answers to ``schedulingAlgorithm`` in kube-scheduler's ``pkg/scheduler/schedule_one.go``.

The reasons: docs/decisions/0014-attempt-commit-report.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from bayplan.support import logs
from bayplan.api.pod import Pod
from bayplan.attempt import homes
from bayplan.attempt.outcome import Placement, Reason, Rejection
from bayplan.attempt.selection import NodeChooser, Selection
from bayplan.engine.faults import AttemptFault, is_interrupt
from bayplan.engine.runtime import Framework
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.points import PostFilter
from bayplan.support.text import error_text

log = structlog.get_logger("attempt")


def attempt(
    framework: Framework,
    selector: NodeChooser,
    state: CycleState,
    pod: Pod,
    *,
    make_room: bool = True,
    acting: bool = True,
) -> Placement | Rejection:
    """Look for a node for ``pod``; fills in ``state``. Never raises.

    A Pod that joins a group which has begun is kept in the group's topology domain, or drawn to it.
    Without ``make_room`` it is one of a plan: ``state`` says what its domain is, and PostFilter
    plugins are not asked where nothing fits. Without ``acting`` those are not asked that act by
    themselves.
    """
    try:
        if make_room and framework.services.group_sources:
            selection = _select_by_group(framework, selector, state, pod)
        else:
            selection = selector.select(framework, state, pod)
        if selection.fit is not None and selection.best is not None:
            return Placement(selection.node_name, selection.best, selection.fit)
        plugins = framework.plugins
        post_filters = plugins.post_filter if acting else plugins.pure_post_filter
        return _rejection(framework, state, pod, selection, post_filters if make_room else ())
    except AttemptFault as fault:
        return Rejection.by_error(str(fault), fault)
    except BaseException as exc:
        if is_interrupt(exc):
            raise
        # What a plugin hands out (states, statuses) may break wherever it is looked at.
        log.exception("attempt broke", pod=pod.key, profile=framework.name)
        return Rejection.by_error(error_text(exc), exc)


def _select_by_group(
    framework: Framework, selector: NodeChooser, state: CycleState, pod: Pod
) -> Selection:
    """Select in the first of its group's domains with a fit; else the last domain's result."""
    *preferred, last = homes.of_members(framework, selector.nodes, pod)
    for home in preferred:
        probe = CycleState(timed=state.timed, domain=home.rows, outside=home.outside)
        selection = selector.select(framework, probe, pod)
        if selection.node_name:
            state.adopt(probe)
            state.domain, state.outside = home.rows, home.outside
            return selection
    state.domain, state.outside = last.rows, last.outside
    return selector.select(framework, state, pod)


def _rejection(
    framework: Framework,
    state: CycleState,
    pod: Pod,
    selection: Selection,
    post_filters: Sequence[PostFilter],
) -> Rejection:
    """No node fits: let PostFilter plugins try to change that, and say why."""
    diagnosis = selection.diagnosis
    if diagnosis is None:
        assert selection.rejection is not None
        return Rejection(Reason.UNSCHEDULABLE, selection.rejection.message)
    nominated: str | None = ""
    result = None
    if post_filters:
        result = framework.post_filter(state, pod, diagnosis, post_filters)
        diagnosis.post_filter_message = result.status.message
        nominated = result.nominated_node
        if logs.enabled(5):
            text = "Status after running PostFilter plugins for pod"
            log.info(text, v=5, pod=pod.key, code=str(result.status.code), nominated=nominated)
    held_by = diagnosis.pre_filter.held_by if diagnosis.pre_filter is not None else ""
    return Rejection(
        Reason(held_by or Reason.UNSCHEDULABLE),
        diagnosis.message,
        frozenset(diagnosis.unschedulable_plugins),
        frozenset(diagnosis.pending_plugins),
        nominated,
        evaluated=selection.fit.evaluated if selection.fit is not None else 0,
        diagnosis=diagnosis,
        post_filter=result,
    )
