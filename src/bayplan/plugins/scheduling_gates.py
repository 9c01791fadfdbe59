"""SchedulingGates: a Pod with spec.schedulingGates stays out of the queue."""

from __future__ import annotations

from bayplan.api.pod import Pod
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Resource
from bayplan.framework.interface import Plugin
from bayplan.framework.points import EnqueueExtensions, PreEnqueue
from bayplan.framework.status import Status


class SchedulingGates(Plugin, PreEnqueue, EnqueueExtensions):
    """Holds a Pod until its last gate is removed."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject while there are gates; names them in the Pod's order."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Status.unresolvable(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> list[EventRegistration]:
        """The Pod's own gates going away."""
        event = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return [EventRegistration(event)]
