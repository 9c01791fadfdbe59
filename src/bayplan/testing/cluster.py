"""Cluster: a whole scheduler with plugins under test, and no API server.

It is put together by `bayplan.app.assembly.build`, as ``bayplan run`` does it, and fed with the
messages that informers send. Only the surroundings are others (`bayplan.testing.ports`): workers
run in line and time stands still, so a test goes the same way at every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from bayplan.api.kinds import POD
from bayplan.api.meta import Object
from bayplan.api.pod import Pod
from bayplan.app.assembly import Ports, build
from bayplan.app.sources import Sources
from bayplan.cache.node_table import LiveNodeTable
from bayplan.config import EffectiveConfig, parse_config, parse_feature_gates
from bayplan.engine.registry import Registry
from bayplan.engine.runtime import Framework
from bayplan.explain.explanation import explain
from bayplan.extenders.extenders import Extenders
from bayplan.framework.interface import NodeInfo, Plugin
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Changed, Message, Removed
from bayplan.queue.states import QueueState
from bayplan.simulation.cluster import load_cluster
from bayplan.simulation.name_order import NameOrder
from bayplan.telemetry.metrics import Metrics
from bayplan.testing.builder import Builder, Json, next_version
from bayplan.testing.pods import PodBuilder
from bayplan.testing.ports import Clock, InlineExecutor, RecordedEvent, Recorder, Writer

PROFILE = "bayplan"
"""schedulerName of the profile where no configuration gives another one."""
T = TypeVar("T")


class Cluster:
    """A scheduler and what it sees.

    Nodes without allocatable ``pods`` take no Pod, as in a real cluster. Among equally good nodes,
    the first by name is taken.

    Args:
        plugins: users' plugins. They run at all their extension points, with the default plugins,
            unless ``config`` has profiles.
        args: arguments by plugin.
        config: a file with a KubeSchedulerConfiguration, or some of its fields.
        plugin_dir: a folder with more plugins, as for ``--plugin-dir``; ``config`` enables them.
        extenders: webhooks.
        writer: what stands for the API server; one that agrees to everything otherwise.

    Attributes:
        clock: what the scheduler and plugins take for the time.
        writer: what was written to the API server; its answers can be set.
        recorder: events and conditions.

    Raises:
        bayplan.engine.registry.PluginLoadError: a plugin does not keep to the contract.
        bayplan.config.ConfigError: the configuration is wrong, or a plugin refuses its arguments.
    """

    def __init__(
        self,
        *plugins: type[Plugin],
        args: Mapping[str, Json] | None = None,
        config: Path | Json | None = None,
        plugin_dir: Path | None = None,
        extenders: Extenders | None = None,
        feature_gates: str = "",
        writer: Writer | None = None,
    ) -> None:
        registry, effective = _read(plugins, args or {}, config, plugin_dir, feature_gates)
        self.clock = Clock()
        self.writer = Writer() if writer is None else writer
        self.recorder = Recorder()
        self.metrics = Metrics()
        self.inbox = Inbox()
        self.workers = InlineExecutor()
        self.ports = Ports(
            events=self.recorder,
            writer=self.writer,
            statuses=self.recorder,
            inbox=self.inbox,
            instrument=self.metrics,
            binding_workers=self.workers,
            extenders=extenders or Extenders(),
            tie_break=NameOrder(),
            clock=self.clock,
            now=self.clock,
        )
        self.core = build(effective, registry, self.ports)
        self.scheduler, self.world = self.core.scheduler, self.core.world
        self.scheduler.active = True
        self._kinds = registry.kinds(effective)
        self._builders: dict[str, Builder[object]] = {}
        self.writer.on_bound = self._show_bound
        self.writer.on_deleted = self._show_deleted

    # What the API server shows

    def add(self, *builders: Builder[object]) -> None:
        """These objects are new or have changed. Pods choose the first profile unless they say."""
        for builder in builders:
            if isinstance(builder, PodBuilder):
                builder.json["spec"].setdefault("schedulerName", self.framework.name)
                self._builders[builder.json["metadata"]["uid"]] = builder
            self.writer.stored[builder.path] = builder.json
            self.tell(Changed(builder.kind, builder.new_version().obj()))

    def remove(self, *builders: Builder[object]) -> None:
        """These objects are gone."""
        for builder in builders:
            self.writer.stored.pop(builder.path, None)
            self.tell(Removed(builder.kind, builder.new_version().obj()))

    def apply(self, *paths: Path) -> None:
        """The objects of these manifests (or folders with manifests) are new or have changed.

        Raises:
            ValueError: the API server would refuse something in them, or they refer to something
                that is not among them.
        """
        loaded = load_cluster(paths, kinds=self._kinds)
        if notes := loaded.notes.lines():
            raise ValueError("\n".join(notes))
        for kind, objects in loaded.objects.items():
            self.tell(*(Changed(kind, _renewed(obj)) for obj in objects))

    def tell(self, *messages: Message) -> None:
        """These messages come in."""
        self.inbox.post_all(messages)
        self.take_in()

    def _show_bound(self, pod: Pod, node_name: str) -> None:
        builder = self._builders.get(pod.uid)
        if builder is None:
            self.inbox.post(Changed(POD, _renewed(pod.on_node(node_name))))
        else:
            builder.spec(nodeName=node_name).new_version()
            self.inbox.post(Changed(POD, builder.obj()))

    def _show_deleted(self, pod: Pod) -> None:
        self.inbox.post(Removed(POD, pod))

    # What the scheduler does

    def run(self) -> None:
        """Scheduling cycles until no Pod is ready."""
        while (queued := self.world.queue.pop()) is not None:
            self.scheduler.schedule_one(queued)
            self.take_in()

    def wait(self, seconds: float) -> None:
        """Advance the clock and run what is due. Pods that become ready wait for `run`."""
        self.clock.time += seconds
        self.take_in()

    def take_in(self) -> None:
        """Apply what other threads have handed over, and what comes of it."""
        self.scheduler.take_in(wait=False)
        while self.inbox:
            self.scheduler.take_in(wait=False)

    # What came of it; a Pod is named by its builder, its name, or namespace/name

    def node_of(self, pod: str | PodBuilder) -> str:
        """The node that the Pod is bound to; "" for none."""
        shown = self.world.handlers.pods.get(_key(pod))
        return shown.node_name if shown is not None else ""

    def state(self, pod: str | PodBuilder) -> QueueState:
        """Where the queue has the Pod; one that waits in Permit is IN_FLIGHT."""
        if isinstance(pod, PodBuilder):
            uid = pod.json["metadata"]["uid"]
        else:
            uid = self.world.handlers.pods[_key(pod)].uid
        queued = self.world.queue.get(uid)
        return QueueState.OUTSIDE if queued is None else queued.state

    def waits_for(self, pod: str | PodBuilder) -> list[str]:
        """The Permit plugins that make the Pod wait."""
        return [
            plugin
            for waiting in self.world.waiting
            if waiting.pod.key == _key(pod)
            for plugin in waiting.pending_plugins()
        ]

    def message(self, pod: str | PodBuilder) -> str:
        """Why the Pod is not scheduled, as its condition said last; "" for nothing."""
        name = _key(pod).rpartition("/")[2]
        said = (c.message for of, c in reversed(self.recorder.conditions) if of == name)
        return next(said, "")

    def explain(self, pod: str | PodBuilder) -> Json:
        """What ``bayplan explain -o json`` says of the Pod; it need not be in the cluster."""
        if isinstance(pod, PodBuilder):
            pod.json["spec"].setdefault("schedulerName", self.framework.name)
            judged = pod.obj()
        else:
            judged = self.world.handlers.pods[_key(pod)]
        framework = self.core.profiles[judged.spec.scheduler_name]
        return explain(framework, self.core.placers, judged)

    @property
    def events(self) -> list[RecordedEvent]:
        """Every event that was recorded, by the scheduler or by plugins."""
        return self.recorder.events

    def metric(self, name: str, /, **labels: str) -> float:
        """The value of a metric, 0 when it was never counted."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    # For tests that call a plugin's methods themselves

    @property
    def framework(self) -> Framework:
        """The first profile."""
        return next(iter(self.core.profiles.values()))

    def plugin(self, cls: type[T]) -> T:
        """The instance of the plugin class in the first profile that has one."""
        plugins = (p for f in self.core.profiles.values() for p in f.plugins.all)
        return next(p for p in plugins if isinstance(p, cls))

    @property
    def nodes(self) -> LiveNodeTable:
        """The nodes, as plugins get them."""
        return self.world.cache.nodes

    def node(self, name: str) -> NodeInfo:
        """A node as `filter` and `score` get it."""
        row = self.nodes.row(name)
        assert row is not None, f"there is no node {name}"
        return self.nodes.info(row)


def _renewed(obj: T) -> T:
    """The object after a write: with a resourceVersion of its own."""
    if isinstance(obj, Pod):
        obj.resource_version = next_version()
        return obj
    assert isinstance(obj, Object)
    metadata = msgspec.structs.replace(obj.metadata, resource_version=next_version())
    return msgspec.structs.replace(obj, metadata=metadata)


def _key(pod: str | PodBuilder) -> str:
    if isinstance(pod, PodBuilder):
        return pod.key
    return pod if "/" in pod else f"default/{pod}"


def _read(
    plugins: tuple[type[Plugin], ...],
    args: Mapping[str, Json],
    config: Path | Json | None,
    plugin_dir: Path | None,
    feature_gates: str,
) -> tuple[Registry, EffectiveConfig]:
    folders = () if plugin_dir is None else (plugin_dir,)
    if isinstance(config, Path):
        return Sources(config, folders, feature_gates=(feature_gates,)).read()
    registry = Registry()
    for folder in folders:
        registry.load_folder(folder)
    for plugin in plugins:
        registry.add(plugin, "test")
    enabled = [{"name": plugin.name} for plugin in plugins]
    profile: Json = {
        "schedulerName": PROFILE,
        "plugins": {"multiPoint": {"enabled": enabled}},
        "pluginConfig": [{"name": name, "args": values} for name, values in args.items()],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
        **(config or {}),
    }
    text, gates = msgspec.json.encode(document).decode(), parse_feature_gates([feature_gates])
    return registry, parse_config(text, registry.known, gates=gates)
