"""A shadow of a scheduler, which the test plays: bindings and conditions as a watch shows."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import POD
from bayplan.inbox.messages import Changed, Removed, Replaced
from bayplan.shadow.follows import Follows
from bayplan.shadow.shadow import Settings, Shadow
from bayplan.shadow.tally import Tally
from bayplan.shadow.verdict import Verdict
from bayplan.testing import Cluster, PodBuilder
from bayplan.testing.builder import Builder

THEIRS = "theirs"
PREEMPTED = {"reason": "PreemptionByScheduler"}


class Followed:
    """A cluster and its shadow. What happens waits until `follow`, unless it is `add`.

    Args:
        config: fields of the configuration by which the shadow judges.
        settings: of the shadow.
        namespaces: whose Pods are judged; none for all.
        feature_gates: of the scheduler that judges.
    """

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        settings: Settings | None = None,
        namespaces: tuple[str, ...] = (),
        remembered: int = 1000,
        feature_gates: str = "",
    ) -> None:
        profiles = {"profiles": [{"schedulerName": THEIRS}]}
        self.cluster = Cluster(config=profiles | (config or {}), feature_gates=feature_gates)
        self.cluster.scheduler.active = False
        core, clock = self.cluster.core, self.cluster.clock
        self.tally = Tally(remembered, clock)
        self.shadow = Shadow(
            core.world,
            core.profiles,
            core.placers,
            Follows(THEIRS, namespaces),
            self.tally,
            settings or Settings(),
            clock,
            clock,
        )

    def add(self, *builders: Builder[Any]) -> None:
        """Objects that were there before the shadow began."""
        self.cluster.add(*builders)
        self.shadow.begin()

    def show(self, *builders: Builder[Any]) -> None:
        """The watch shows these versions."""
        for builder in builders:
            if isinstance(builder, PodBuilder):
                builder.json["spec"].setdefault("schedulerName", THEIRS)
            self.shadow.take(Changed(builder.kind, builder.new_version().obj()))

    def gone(self, *builders: Builder[Any]) -> None:
        """The watch shows that these objects are deleted."""
        for builder in builders:
            self.shadow.take(Removed(builder.kind, builder.new_version().obj()))

    def relist(self, *builders: PodBuilder) -> None:
        """The watch broke; these are all Pods there are now."""
        self.shadow.take(Replaced(POD, [one.new_version().obj() for one in builders]))

    def bind(self, pod: PodBuilder, node: str) -> None:
        """The other scheduler binds the Pod."""
        self.show(pod.node(node))

    def refuse(self, pod: PodBuilder, message: str, nominated: str = "", **more: Any) -> None:
        """The other scheduler finds no node."""
        reason = more.pop("reason", "Unschedulable")
        pod.condition("PodScheduled", "False", reason=reason, message=message)
        self.show(pod.nominated(nominated) if nominated else pod)

    def evict(self, pod: PodBuilder) -> None:
        """The other scheduler evicts the Pod, which ends at once."""
        self.show(pod.condition("DisruptionTarget", "True", **PREEMPTED))
        self.gone(pod)

    def follow(self, late: float = 0.0) -> None:
        """Let pass what the shadow stays behind, and ``late`` seconds more; it follows."""
        self.cluster.clock.time += self.shadow.settings.lookahead + late
        while self.shadow.next_in() == 0.0:
            self.shadow.step()

    def verdict(self, pod: PodBuilder) -> Verdict:
        """The last one about the Pod."""
        return self.tally.of_pod(pod.obj().key)[0]
