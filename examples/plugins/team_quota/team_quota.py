"""TeamQuota: of each team, only so many Pods may be on nodes at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bayplan.framework import (
    Action,
    ClusterEvent,
    CycleState,
    EventRegistration,
    Hint,
    Plugin,
    Pod,
    Resource,
    Status,
)


@dataclass
class TeamQuotaArgs:
    """What stands under pluginConfig: the limit by team. A team that is not there has none."""

    pods: dict[str, int] = field(default_factory=dict)


class TeamQuota(Plugin):
    """Limits the Pods of a team, which the label team names, over all namespaces and nodes."""

    Args = TeamQuotaArgs
    args: TeamQuotaArgs

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """The moment that counts: the Pod has its node, and is among the Pods there already.

        Two Pods are never between Filter and Reserve at one time, so none slips through. A check
        in PreEnqueue would not hold: all Pods enter the queue before the first one has a node.
        """
        team = pod.labels.get("team", "")
        limit = self.args.pods.get(team)
        if limit is None or self._on_nodes(team) <= limit:
            return None
        return Status.unschedulable(f"team {team} has {limit} Pods already")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Nothing to give back: what is counted are the Pods on nodes, after a restart too."""

    def _on_nodes(self, team: str) -> int:
        """It looks at every Pod, which is fine for an example and some thousand Pods."""
        return sum(p.labels.get("team") == team for node in self.handle.nodes for p in node.pods)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A Pod that was rejected is tried again when one of its team has gone."""
        gone = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
        return [EventRegistration(gone, self._is_of_its_team)]

    def _is_of_its_team(self, pod: Pod, old: Pod, new: Pod | None) -> Hint:
        """Whether ``pod``, which waits, may have a chance now that ``old`` has gone."""
        return Hint.QUEUE if old.labels.get("team") == pod.labels.get("team") else Hint.SKIP
