"""HelloWorld: every Pod goes to the one node that the configuration names."""

from dataclasses import dataclass

from bayplan.framework import (
    CycleState,
    NodeInfo,
    NodeTable,
    Plugin,
    Pod,
    PreFilterResult,
    Status,
)


@dataclass
class HelloWorldArgs:
    """What stands under pluginConfig."""

    node: str


class HelloWorld(Plugin):
    """Pins Pods to the node in its args."""

    Args = HelloWorldArgs
    args: HelloWorldArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterResult:
        """Once a Pod, before any node is looked at: the others need not be looked at."""
        return PreFilterResult(frozenset({self.args.node}))

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Once a Pod and node."""
        if node.name != self.args.node:
            return Status.unresolvable(f"node(s) were not {self.args.node}")
        return None
