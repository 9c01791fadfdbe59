"""For the tests of the examples: a plugin as the scheduler makes it, from its folder."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.app.assembly import Ports, build
from bayplan.binding.waiting import WaitingPods
from bayplan.config import IN_TREE, load_config
from bayplan.framework import NodeInfo, NodeTable
from bayplan.framework.registry import Registry


class NoEvents:
    """Records no events: there is no cluster."""

    def event(self, *_: object) -> None:
        """Forget it."""


@dataclass
class Rig:
    """A plugin, and the nodes and waiting Pods that it sees."""

    plugin: Any
    nodes: NodeTable
    waiting: WaitingPods

    def node(self, name: str) -> NodeInfo:
        """A node as `filter` and `score` get it."""
        row = self.nodes.row(name)
        assert row is not None
        return self.nodes.info(row)

    def add(self, pod: Pod) -> None:
        """A Pod on the node that it names."""
        row = self.nodes.row(pod.node_name)
        assert row is not None
        self.nodes.add_pod(row, pod)


def load(folder: Path, nodes: Iterable[Node]) -> Rig:
    """Load the plugin in `folder` with the config.yaml there, into a scheduler without cluster."""
    registry = Registry()
    registry.load_folder(folder)
    [name] = registry.known.keys() - IN_TREE.keys()
    config = load_config(folder / "config.yaml", registry.known)
    core = build(config, registry, Ports(events=NoEvents()))
    [framework] = core.profiles.values()
    for node in nodes:
        core.world.cache.set_node(node)
    [plugin] = [plugin for plugin in framework.plugins.all if plugin.name == name]
    return Rig(plugin, core.world.cache.nodes, core.world.waiting)
