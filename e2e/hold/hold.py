"""Hold, for end-to-end tests: makes Pods wait in Permit, when they have their node already.

A Pod with the label hold=NAME waits until one with the label release=NAME has a node; one with the
label denied is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.framework import SUCCESS, WAIT, CycleState, Plugin, Pod, Status


@dataclass
class HoldArgs:
    """What stands under pluginConfig."""

    seconds: float = 60.0


class Hold(Plugin):
    """Lets Pods wait for others."""

    Args = HoldArgs
    args: HoldArgs

    def permit(
        self,
        state: CycleState,  # noqa: ARG002
        pod: Pod,
        node_name: str,  # noqa: ARG002
    ) -> Status | tuple[Status, float]:
        """See `bayplan.framework.points.Permit`."""
        if "denied" in pod.labels:
            return Status.unresolvable("denied by its label")
        if "hold" in pod.labels:
            return WAIT, self.args.seconds
        for other in self.handle.waiting:
            if other.pod.labels["hold"] == pod.labels.get("release"):
                other.allow(self.name)
        return SUCCESS
