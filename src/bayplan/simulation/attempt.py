"""Attempt: one scheduling cycle up to the choice of a node, with nothing done about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayplan.api.pod import Pod
from bayplan.app.assembly import Core
from bayplan.attempt.report import cut_note
from bayplan.attempt.selection import Selection
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.diagnosis import Diagnosis
from bayplan.framework.faults import AttemptFault
from bayplan.framework.interface import PostFilterResult
from bayplan.framework.runtime import Framework
from bayplan.framework.status import Code, Status


@dataclass
class Attempt:
    """How the cycle of one Pod went.

    Attributes:
        gate: what a PreEnqueue plugin holds the Pod back with; nothing else happens then.
        selection: where it goes, or why nowhere; None where the cycle was not run to its end.
        pre_filter: the status with which PreFilter ended an attempt that failed.
        fault: what Filter says of the nodes in an attempt that failed.
        post_filter: what PostFilter plugins make of it where nothing fits.
        message: the text of the FailedScheduling event, uncut; empty where a node is found.
    """

    pod: Pod
    framework: Framework
    state: CycleState = field(default_factory=CycleState)
    gate: Status | None = None
    selection: Selection | None = None
    post_filter: PostFilterResult | None = None
    pre_filter: Status | None = None
    fault: Diagnosis | None = None
    message: str = ""

    @property
    def note(self) -> str:
        """The message, cut as the event is."""
        return cut_note(self.message)


def attempt(core: Core, pod: Pod) -> Attempt:
    """Run the cycle of ``pod`` on the cluster as it is now."""
    framework = core.profiles[pod.spec.scheduler_name]
    tried = Attempt(pod, framework, gate=_gate(framework, pod))
    if tried.gate is not None:
        return tried
    if pod.deleted is not None:
        tried.message = f"skip schedule deleting pod: {pod.key}"
        return tried
    try:
        selection = core.selector.select(framework, tried.state, pod)
        tried.selection = selection
        if not selection.node_name:
            _make_room(tried, selection)
    except AttemptFault as error:
        tried.message = str(error)
        _find_fault(tried)
    return tried


def _gate(framework: Framework, pod: Pod) -> Status | None:
    for name, pre_enqueue in framework.lifecycle.gates():
        status = pre_enqueue(pod)
        if status is not None and not status.ok:
            return status.by(name)
    return None


def _make_room(tried: Attempt, selection: Selection) -> None:
    if selection.diagnosis is None:
        assert selection.rejection is not None
        tried.message = selection.rejection.message
        return
    if tried.framework.plugins.post_filter:
        result = tried.framework.post_filter(tried.state, tried.pod, selection.diagnosis)
        selection.diagnosis.post_filter_message = result.status.message
        tried.post_filter = result
    tried.message = selection.diagnosis.message


def _find_fault(tried: Attempt) -> None:
    """Find out how far an attempt came that ended in an error.

    Where several nodes have one, the message is that of the first by name: kube-scheduler reports
    whichever comes first.
    """
    try:
        diagnosis, rejection = tried.framework.search.diagnose(CycleState(), tried.pod, tried=False)
    except AttemptFault as error:
        if error.point is Point.PRE_FILTER:
            tried.pre_filter = error.status
        return
    if rejection is not None:
        tried.pre_filter = rejection
        return
    tried.fault = diagnosis
    names = diagnosis.nodes.names
    faults = {
        names[row] or "": status.message
        for status, rows in diagnosis.groups()
        if status.code is Code.ERROR
        for row in rows.tolist()
    }
    if faults:
        tried.message = faults[min(faults)]
