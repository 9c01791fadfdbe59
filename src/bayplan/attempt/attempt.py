"""Attempt: from a Pod to a node, or to the reason why there is none.

The scheduling cycle up to the choice. It changes neither the cache nor the queue. PostFilter
plugins may act, as preemption does, but only where the CycleState allows it: in a dry run
(`CycleState.dry_run`) nothing outside of the returned value changes.

Answers to ``schedulingAlgorithm`` in kube-scheduler's ``pkg/scheduler/schedule_one.go``.
"""

from __future__ import annotations

import structlog

from bayplan import logs
from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Placement, Reason, Rejection
from bayplan.attempt.selection import NodeChooser, Selection
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.faults import AttemptFault
from bayplan.framework.runtime import Framework

log = structlog.get_logger("attempt")


def attempt(
    framework: Framework,
    selector: NodeChooser,
    state: CycleState,
    pod: Pod,
    *,
    make_room: bool = True,
) -> Placement | Rejection:
    """Look for a node for ``pod``; fills in ``state``. Never raises.

    Without ``make_room``, PostFilter plugins are not asked where nothing fits.
    """
    try:
        selection = selector.select(framework, state, pod)
        if selection.fit is not None and selection.best is not None:
            return Placement(selection.node_name, selection.best, selection.fit)
        return _rejection(framework, state, pod, selection, make_room)
    except AttemptFault as fault:
        return Rejection.by_error(str(fault), fault)
    except Exception as exc:
        # What a plugin hands out (states, statuses) may break wherever it is looked at.
        log.exception("attempt broke", pod=pod.key, profile=framework.name)
        return Rejection.by_error(f"{type(exc).__name__}: {exc}", exc)


def _rejection(
    framework: Framework, state: CycleState, pod: Pod, selection: Selection, make_room: bool
) -> Rejection:
    """No node fits: let PostFilter plugins try to change that, and say why."""
    diagnosis = selection.diagnosis
    if diagnosis is None:
        assert selection.rejection is not None
        return Rejection(Reason.UNSCHEDULABLE, selection.rejection.message)
    nominated: str | None = ""
    result = None
    if make_room and framework.plugins.post_filter:
        result = framework.post_filter(state, pod, diagnosis)
        diagnosis.post_filter_message = result.status.message
        nominated = result.nominated_node
        if logs.enabled(5):
            text = "Status after running PostFilter plugins for pod"
            log.info(text, v=5, pod=pod.key, code=str(result.status.code), nominated=nominated)
    return Rejection(
        Reason.UNSCHEDULABLE,
        diagnosis.message,
        frozenset(diagnosis.unschedulable_plugins),
        frozenset(diagnosis.pending_plugins),
        nominated,
        evaluated=selection.fit.evaluated if selection.fit is not None else 0,
        diagnosis=diagnosis,
        post_filter=result,
    )
