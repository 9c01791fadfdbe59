"""`bayplan.testing.Cluster` for tests of the scheduler itself: no binding is confirmed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.app.assembly import make_profiles
from bayplan.config import EffectiveConfig, parse_config, parse_feature_gates
from bayplan.engine.registry import Registry
from bayplan.extenders.extenders import Extenders
from bayplan.framework.interface import Plugin
from bayplan.inbox.messages import Command
from bayplan.testing import PROFILE, Json, NodeBuilder, PodBuilder, Writer
from bayplan.testing import Cluster as PublicCluster


@dataclass(frozen=True)
class Call(Command):
    """Runs a function of the test on the scheduling thread."""

    function: Callable[[], object]

    def run(self) -> None:
        """See `bayplan.inbox.messages.Command`."""
        self.function()


def profile(
    *names: str, bare: bool = False, scheduler_name: str = PROFILE, args: Json | None = None
) -> Json:
    """A profile with these plugins beside the default ones, or (``bare``) almost alone."""
    enabled = ["PrioritySort", "DefaultBinder", *names] if bare else names
    multi_point: Json = {"enabled": [{"name": name} for name in enabled]}
    if bare:
        multi_point["disabled"] = [{"name": "*"}]
    return {
        "schedulerName": scheduler_name,
        "plugins": {"multiPoint": multi_point},
        "pluginConfig": [{"name": name, "args": value} for name, value in (args or {}).items()],
    }


def only(*names: str) -> Json:
    """A profile with just these plugins, in this order."""
    enabled = [{"name": name} for name in names]
    points = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    return {"schedulerName": PROFILE, "plugins": points}


def loaded(
    *plugins: type[Plugin], gates: str = "", **fields: Any
) -> tuple[Registry, EffectiveConfig]:
    """As if read from files: these plugins, and a configuration with these fields."""
    registry = Registry()
    for plugin in plugins:
        registry.add(plugin, "test")
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **fields,
    }
    text, feature_gates = json.dumps(document), parse_feature_gates([gates])
    return registry, parse_config(text, registry.known, gates=feature_gates)


class Cluster(PublicCluster):
    """A scheduler and what it sees. That a binding was stored is not shown to it.

    Args:
        plugins: users' plugins; they run in the profile, too, unless ``profiles`` says otherwise.
        bare: whether no other plugins run than these, PrioritySort and DefaultBinder.
        profiles: the profiles of the configuration, see `profile`.
        extenders: they are asked.
        extender_config: what the configuration says of one.
        feature_gates: as the flag has them.
        writer: what stands for the API server.
        settings: more fields of the configuration.
    """

    def __init__(
        self,
        *plugins: type[Plugin],
        bare: bool = False,
        profiles: list[Json] | None = None,
        extenders: Extenders | None = None,
        extender_config: Json | None = None,
        feature_gates: str = "",
        writer: Writer | None = None,
        **settings: Any,
    ) -> None:
        names = [plugin.name for plugin in plugins]
        config: Json = {"profiles": profiles or [profile(*names, bare=bare)], **settings}
        self._config, self._feature_gates = config, feature_gates
        if extender_config is not None:
            config["extenders"] = [extender_config]
        super().__init__(
            *plugins,
            config=config,
            extenders=extenders,
            feature_gates=feature_gates,
            writer=writer,
        )
        self.writer.on_bound = None
        self.queue, self.cache = self.world.queue, self.world.cache
        self.handlers = self.world.handlers

    def reload(self, *plugins: type[Plugin], **fields: Any) -> None:
        """A configuration with these fields is in force, without any the same as at first."""
        registry, config = loaded(*plugins, gates=self._feature_gates, **(fields or self._config))
        core = self.core
        self.scheduler.adopt(make_profiles(config, registry, core.world, core.placers, self.ports))

    def cycle(self) -> None:
        """One scheduling cycle, and what comes of it at once."""
        queued = self.queue.pop()
        assert queued is not None, "no Pod is ready"
        self.scheduler.schedule_one(queued)
        self.scheduler.take_in(wait=False)

    def settle(self, rounds: int = 3) -> None:
        """Run, and again after each of so many backoffs."""
        self.run()
        for _ in range(rounds):
            self.wait(11)
            self.run()

    @property
    def bound(self) -> list[tuple[str, str]]:
        """(Pod, node) of every binding that was sent."""
        return self.writer.bound

    def evicted(self, pods: Iterable[PodBuilder]) -> list[PodBuilder]:
        """Those of the Pods that were deleted, as far as the scheduler knows."""
        return [pod for pod in pods if pod.json["metadata"]["name"] in self.writer.deleted]

    def terminating(self, pods: Iterable[PodBuilder]) -> list[PodBuilder]:
        """The same; they are shown to be terminating, as victims of a preemption."""
        leaving = self.evicted(pods)
        for pod in leaving:
            pod.condition("DisruptionTarget", "True", reason="PreemptionByScheduler")
            self.add(pod.terminating())
        return leaving

    def nominated(self, *pods: PodBuilder) -> list[str]:
        """The nodes that the Pods are nominated to; "" for none."""
        return [self.world.nominator.nominated_node(uid_of(pod)) for pod in pods]

    def rejectors(self, builder: PodBuilder) -> set[str]:
        """The plugins that the Pod waits for."""
        queued = self.queue.get(uid_of(builder))
        assert queued is not None
        return set(queued.rejectors)

    def counted_on(self, builder: PodBuilder) -> str:
        """The node on which the Pod counts, bound or assumed; "" for none."""
        pod = self.cache.pod(uid_of(builder))
        return "" if pod is None else pod.node_name

    @property
    def notes(self) -> list[tuple[str, str]]:
        """(reason, note) of every event."""
        return [(event.reason, event.note) for event in self.events]

    @property
    def verdict(self) -> tuple[str, str]:
        """Reason and message of the condition that was written last."""
        condition = self.recorder.conditions[-1][1]
        return condition.reason, condition.message

    @property
    def messages(self) -> dict[str, str]:
        """By name of the Pod, what its condition said last."""
        return {name: condition.message for name, condition in self.recorder.conditions}

    def is_at_rest(self) -> bool:
        """Whether nothing is in flight, and what was counted is what there is."""
        assert self.cache.nodes.recount() == {}
        return self.queue.in_flight_events() == {"PodPopped": 0} and not self.in_flight

    @property
    def in_flight(self) -> int:
        """Binding cycles that have not come back."""
        return self.scheduler.in_flight


def uid_of(builder: PodBuilder | NodeBuilder) -> str:
    """metadata.uid of what it builds."""
    uid: str = builder.json["metadata"]["uid"]
    return uid


def shown(builder: PodBuilder | NodeBuilder) -> Pod | Node:
    """The object as the API server shows it now: with a resourceVersion of its own."""
    if isinstance(builder, PodBuilder):
        builder.json["spec"].setdefault("schedulerName", PROFILE)
    return builder.new_version().obj()
