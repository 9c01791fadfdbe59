"""AvoidNode: nodes labelled avoid=true get no Pods."""

from collections.abc import Sequence

from bayplan.api.kinds import NODE
from bayplan.framework import (
    Action,
    ClusterEvent,
    CycleState,
    Depends,
    EventRegistration,
    NodeInfo,
    Plugin,
    Pod,
    Status,
)


class AvoidNode(Plugin):
    """Filters out nodes labelled avoid=true."""

    filter_depends = Depends.NODE  # so an answer holds until the node changes

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Unschedulable, not unresolvable, would make preemption try: evicting would not help."""
        if node.labels.get("avoid") == "true":
            return Status.unresolvable("node(s) were to be avoided")
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A Pod that this plugin rejected is tried again when one of these happens."""
        return [EventRegistration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL))]
