"""HttpExtender: one extender, called over its webhook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.client.errors import ApiError
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.engine.extenders import ExtenderError
from bayplan.extenders import wire
from bayplan.extenders.full_objects import FullObjects
from bayplan.extenders.webhook import Webhook, WebhookError

T = TypeVar("T")


class HttpExtender:
    """One extender."""

    def __init__(self, config: ExtenderConfig, objects: FullObjects) -> None:
        self.config = config
        self.name = config.url_prefix
        self._objects = objects
        self._managed = {r.name for r in config.managed_resources}
        self._webhook = Webhook(config)

    @property
    def ignorable(self) -> bool:
        """Whether scheduling continues without this extender after a failure."""
        return self.config.ignorable

    def interested(self, pod: Pod) -> bool:
        """Whether the extender takes all Pods, or manages a resource that the Pod requests."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint({*c.resources.requests, *c.resources.limits})
            for c in (*pod.spec.containers, *pod.spec.init_containers)
        )

    def filter(self, pod: Pod, nodes: list[Node]) -> wire.FilterResult:
        """Its answer about ``nodes``; raises ExtenderError."""
        args = self._args(pod, nodes)
        result = self._send(self.config.filter_verb, args, wire.FilterResult)
        if result.error:
            raise ExtenderError(result.error)
        return result

    def prioritize(self, pod: Pod, nodes: list[Node]) -> list[wire.HostPriority]:
        """Its scores, 0 to 10; raises ExtenderError."""
        args = self._args(pod, nodes)
        return self._send(self.config.prioritize_verb, args, list[wire.HostPriority])

    def preempt(
        self, pod: Pod, victims: Mapping[str, tuple[list[Pod], int]]
    ) -> dict[str, wire.MetaVictims]:
        """The nodes, with victims, that the extender accepts.

        Args:
            pod: the preemptor.
            victims: by node, the Pods and the number of violated PodDisruptionBudgets.

        Raises:
            ExtenderError: it could not be asked.
        """
        args: dict[str, Any] = {"Pod": self._full(lambda: self._objects.pod(pod))}
        if self.config.node_cache_capable:
            args["NodeNameToMetaVictims"] = {
                node: {"Pods": [{"UID": p.uid} for p in pods], "NumPDBViolations": violations}
                for node, (pods, violations) in victims.items()
            }
        else:
            args["NodeNameToVictims"] = self._full(
                lambda: {
                    node: {
                        "Pods": [self._objects.pod(p) for p in pods],
                        "NumPDBViolations": violations,
                    }
                    for node, (pods, violations) in victims.items()
                }
            )
        result = self._send(self.config.preempt_verb, args, wire.PreemptionResult)
        return result.victims or {}

    def bind(self, pod: Pod, node_name: str) -> None:
        """Let it bind; raises ExtenderError."""
        args = {
            "PodName": pod.name,
            "PodNamespace": pod.namespace,
            "PodUID": pod.uid,
            "Node": node_name,
        }
        result = self._send(self.config.bind_verb, args, wire.BindingResult)
        if result.error:
            raise ExtenderError(result.error)

    def _args(self, pod: Pod, nodes: list[Node]) -> dict[str, Any]:
        args: dict[str, Any] = {"Pod": self._full(lambda: self._objects.pod(pod))}
        if self.config.node_cache_capable:
            args["NodeNames"] = [n.name for n in nodes]
        else:
            args["Nodes"] = {
                "metadata": {},
                "items": self._full(lambda: self._objects.nodes(nodes)),
            }
        return args

    def _full(self, fetch: Callable[[], Any]) -> Any:
        try:
            return fetch()
        except ApiError as exc:
            raise ExtenderError(f"extender {self.name}: {exc}") from exc

    def _send(self, verb: str, args: dict[str, Any], answer: type[T]) -> T:
        try:
            return wire.decode(self._webhook.call(verb, msgspec.json.encode(args)), answer)
        except WebhookError as exc:
            raise ExtenderError(str(exc)) from exc
        except msgspec.MsgspecError as exc:
            raise ExtenderError(f"extender {self.name}, {verb}: {exc}") from exc
