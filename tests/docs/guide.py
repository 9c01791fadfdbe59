"""The plugins of docs/plugins.md, each loaded as the scheduler loads a user's file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bayplan.api.kinds import NODE, Kind
from bayplan.api.meta import ObjectReference
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.app.assembly import Core, Ports, build
from bayplan.attempt.selection import Selection
from bayplan.config import parse_config
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.registry import Registry
from bayplan.framework.runtime import Framework
from bayplan.inbox.messages import Changed
from bayplan.simulation.name_order import NameOrder
from bayplan.telemetry.metrics import Metrics

GUIDE = Path(__file__).parents[2] / "docs" / "plugins.md"
SOURCES: dict[str, str] = {
    name: code
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for name in re.findall(r"^class (\w+)\(Plugin\)", code, re.MULTILINE)
}
"""Plugin -> the code block that defines it."""
PROFILE = "default-scheduler"


class Events:
    """Remembers the notes of events."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def event(
        self, regarding: Pod | ObjectReference, related: Pod | None, *texts: str | None
    ) -> None:
        """The fourth text is the note."""
        self.notes.append(texts[3] or "")


@dataclass
class Rig:
    """A scheduler's core without a cluster, with one plugin of the guide in it."""

    core: Core
    framework: Framework
    plugin: Any
    events: Events
    metrics: Metrics

    def select(self, pod: Pod) -> Selection:
        """The node for the Pod, or why there is none."""
        return self.core.selector.select(self.framework, CycleState(), pod)

    def set(self, kind: Kind[Any], obj: Any) -> None:
        """An object appears, or changes."""
        self.core.world.handlers.apply(Changed(kind, obj))

    def place(self, pod: Pod) -> str:
        """Where the queue has the Pod."""
        places = self.core.world.queue.pending_pods().items()
        return next((place.value for place, pods in places for q in pods if q.uid == pod.uid), "")


def rig(folder: Path, name: str, nodes: Iterable[Node], config: Any = None, **args: Any) -> Rig:
    """Load the plugin from a file in ``folder``.

    Args:
        config: ``plugins`` of the profile; without it the plugin is enabled at multiPoint.
        args: the plugin's arguments.
    """
    (folder / f"{name.lower()}.py").write_text(SOURCES[name])
    registry = Registry()
    registry.load_folder(folder)
    profile = {
        "schedulerName": PROFILE,
        "plugins": config or {"multiPoint": {"enabled": [{"name": name}]}},
        "pluginConfig": [{"name": name, "args": args}] if args else [],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    events = Events()
    metrics = Metrics()
    ports = Ports(events=events, tie_break=NameOrder(), instrument=metrics)
    core = build(parse_config(yaml.safe_dump(document), registry.known), registry, ports)
    framework = core.profiles[PROFILE]
    for node in nodes:
        core.world.handlers.apply(Changed(NODE, node))
    [plugin] = [p for p in framework.plugins.all if p.name == name]
    return Rig(core, framework, plugin, events, metrics)
