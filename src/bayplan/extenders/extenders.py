"""Extenders: webhooks that filter, prioritize, preempt and bind beside the plugins.

The wire format is ``k8s.io/kube-scheduler/extender/v1``: Go's field names on the way out, names in
any case on the way in. The rules are those of ``pkg/scheduler/extender.go``: extenders are asked
one after the other about the nodes that are left, an ignorable one may fail, scores of 0-10 are
scaled to 0-100 and weighted, the first interested binder binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec
import numpy as np
import structlog

from bayplan import logs
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.client.errors import ApiError
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.extenders.webhook import Webhook, WebhookError, WebhookTls
from bayplan.framework.faults import AttemptFault
from bayplan.framework.search import Fit
from bayplan.framework.status import SUCCESS, Status

log = structlog.get_logger("extender")

MAX_EXTENDER_PRIORITY = 10
SCALE = 100 // MAX_EXTENDER_PRIORITY
REJECTOR = "Extender"
"""What stands for all extenders among the plugins that rejected a Pod."""


class Objects(Protocol):
    """Where whole objects come from; see `bayplan.extenders.full_objects`."""

    def pod(self, pod: Pod) -> msgspec.Raw:
        """The Pod's JSON."""

    def nodes(self, nodes: Iterable[Node]) -> list[msgspec.Raw]:
        """The nodes' JSON."""


class _NamedMeta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _NamedMeta = msgspec.field(default_factory=_NamedMeta)


class _NodeList(msgspec.Struct):
    items: list[_Named] | None = None


class _FilterResult(msgspec.Struct, rename=lambda name: name.replace("_", "")):
    nodes: _NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str | None = None


class _HostPriority(msgspec.Struct):
    host: str = ""
    score: int = 0


class _BindingResult(msgspec.Struct):
    error: str | None = None


class _MetaPod(msgspec.Struct):
    uid: str = ""


class MetaVictims(msgspec.Struct, rename={"pdb_violations": "numpdbviolations"}):
    """Victims on a node, by uid."""

    pods: list[_MetaPod] | None = None
    pdb_violations: int = 0


class _PreemptionResult(msgspec.Struct, rename={"victims": "nodenametometavictims"}):
    victims: dict[str, MetaVictims] | None = None


class ExtenderError(Exception):
    """An extender could not be asked, or said that it failed."""


class HttpExtender:
    """One extender."""

    def __init__(self, config: ExtenderConfig, objects: Objects) -> None:
        self.config = config
        self.name = config.url_prefix
        self._objects = objects
        self._managed = {r.name for r in config.managed_resources}
        self._webhook = Webhook(config.url_prefix, config.http_timeout, _tls(config))

    @property
    def ignorable(self) -> bool:
        """Whether the scheduler goes on without it when it fails."""
        return self.config.ignorable

    def interested(self, pod: Pod) -> bool:
        """Whether it manages a resource that the Pod asks for, or all Pods."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint({*c.resources.requests, *c.resources.limits})
            for c in (*pod.spec.containers, *pod.spec.init_containers)
        )

    def filter(self, pod: Pod, nodes: list[Node]) -> _FilterResult:
        """Its answer about ``nodes``; raises ExtenderError."""
        args = self._args(pod, nodes)
        result: _FilterResult = self._send(self.config.filter_verb, args, _FilterResult)
        if result.error:
            raise ExtenderError(result.error)
        return result

    def prioritize(self, pod: Pod, nodes: list[Node]) -> list[_HostPriority]:
        """Its scores, 0 to 10; raises ExtenderError."""
        args = self._args(pod, nodes)
        scores: list[_HostPriority] = self._send(
            self.config.prioritize_verb, args, list[_HostPriority]
        )
        return scores

    def preempt(
        self, pod: Pod, victims: Mapping[str, tuple[list[Pod], int]]
    ) -> dict[str, MetaVictims]:
        """The nodes, with victims, that it agrees to, out of (victims, PDB violations) by node.

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
            args["NodeNameToVictims"] = self._full(lambda: self._whole(victims))
        result = self._send(self.config.preempt_verb, args, _PreemptionResult)
        return result.victims or {}

    def _whole(self, victims: Mapping[str, tuple[list[Pod], int]]) -> dict[str, Any]:
        return {
            node: {"Pods": [self._objects.pod(p) for p in pods], "NumPDBViolations": violations}
            for node, (pods, violations) in victims.items()
        }

    def bind(self, pod: Pod, node_name: str) -> None:
        """Let it bind; raises ExtenderError."""
        args = {
            "PodName": pod.name,
            "PodNamespace": pod.namespace,
            "PodUID": pod.uid,
            "Node": node_name,
        }
        result = self._send(self.config.bind_verb, args, _BindingResult)
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

    def _send(self, verb: str, args: dict[str, Any], answer: Any) -> Any:
        try:
            body = self._webhook.call(verb, msgspec.json.encode(args))
            return msgspec.convert(_fold(msgspec.json.decode(body)), answer)
        except WebhookError as exc:
            raise ExtenderError(str(exc)) from exc
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise ExtenderError(f"extender {self.name}, {verb}: {exc}") from exc


class Extenders:
    """All extenders of the configuration, in order; false when there are none."""

    def __init__(self, extenders: Iterable[HttpExtender] = ()) -> None:
        self._extenders = list(extenders)

    def __bool__(self) -> bool:
        return bool(self._extenders)

    def _with(self, verb: str, pod: Pod) -> list[HttpExtender]:
        found = [e for e in self._extenders if getattr(e.config, verb)]
        return [e for e in found if e.interested(pod)]

    def filter(self, pod: Pod, nodes: NodeTable, fit: Fit) -> dict[int, Status]:
        """Leave out of ``fit`` what extenders reject; returns why, by row.

        Raises:
            AttemptFault: an extender that is not ignorable failed.
        """
        rejected: dict[int, Status] = {}
        for extender in self._with("filter_verb", pod):
            rows = np.flatnonzero(fit.feasible)
            if not rows.size:
                break
            try:
                kept, statuses = _filter_by(extender, pod, nodes, rows)
            except ExtenderError as exc:
                if not extender.ignorable:
                    raise AttemptFault(None, extender.name, exc) from exc
                log.warning("Skipping extender that failed", extender=extender.name, error=str(exc))
                continue
            rejected.update(statuses)
            fit.feasible = np.zeros(len(nodes), np.bool_)
            fit.feasible[kept] = True
            fit.count = len(kept)
        return rejected

    def add_scores(self, pod: Pod, nodes: NodeTable, fit: Fit, totals: IntArray) -> IntArray:
        """``totals`` plus the extenders' scores; one that fails adds nothing.

        Whatever extenders say, a node that is not feasible comes last.
        """
        totals = totals.astype(np.int64)
        rows = np.flatnonzero(fit.feasible).tolist()
        candidates = [node for r in rows if (node := nodes.nodes[r]) is not None]
        for extender in self._with("prioritize_verb", pod):
            try:
                scores = extender.prioritize(pod, candidates)
            except ExtenderError as exc:
                log.warning("Extender gave no scores", extender=extender.name, error=str(exc))
                continue
            for score in scores:
                row = nodes.row(score.host)
                if row is not None and fit.feasible[row]:
                    totals[row] += score.score * extender.config.weight * SCALE
            if logs.enabled(10):
                _log_scores(extender, pod, scores)
        totals[~fit.feasible] = np.iinfo(np.int64).min
        return totals

    def preemptors(self, pod: Pod) -> list[HttpExtender]:
        """Extenders that want a say in who is evicted."""
        return self._with("preempt_verb", pod)

    def binds(self, pod: Pod) -> bool:
        """Whether an extender binds this Pod."""
        return bool(self._extenders) and bool(self._with("bind_verb", pod))

    def bind(self, pod: Pod, node_name: str) -> Status | None:
        """The outcome, or None when no extender binds this Pod after all. Blocks."""
        for extender in self._with("bind_verb", pod):
            try:
                extender.bind(pod, node_name)
            except ExtenderError as exc:
                if extender.config.ignorable:
                    log.warning("Skipping extender in bind", extender=extender.name, error=str(exc))
                    continue
                return Status.error(str(exc))
            return SUCCESS
        return None


def _log_scores(extender: HttpExtender, pod: Pod, scores: Iterable[_HostPriority]) -> None:
    for score in scores:
        text = "Extender scored node for pod"
        who, node = extender.name, score.host
        log.info(text, v=10, pod=pod.key, extender=who, node=node, score=score.score)


def _filter_by(
    extender: HttpExtender, pod: Pod, nodes: NodeTable, rows: IntArray
) -> tuple[list[int], dict[int, Status]]:
    """Rows that the extender keeps, and the statuses of those it rejects."""
    asked = {nodes.names[row] or "": row for row in rows.tolist()}
    candidates = [node for r in asked.values() if (node := nodes.nodes[r]) is not None]
    result = extender.filter(pod, candidates)
    if extender.config.node_cache_capable and result.node_names is not None:
        names = result.node_names
    else:
        items = result.nodes.items if result.nodes else None
        names = [node.metadata.name for node in items or ()]
    for name in names:
        if name not in asked:
            raise ExtenderError(
                f'extender "{extender.name}" claims a filtered node "{name}" which is not found in '
                "the input node list"
            )
    failed = {n: Status.unschedulable(m) for n, m in (result.failed_nodes or {}).items()}
    hopeless = result.failed_and_unresolvable_nodes or {}
    failed.update({n: Status.unresolvable(m) for n, m in hopeless.items()})
    statuses = {asked[name]: s.by(REJECTOR) for name, s in failed.items() if name in asked}
    return sorted({asked[name] for name in names}), statuses


def _fold(value: Any) -> Any:
    """``value`` with all keys in lower case: Go reads JSON field names in any case."""
    if isinstance(value, dict):
        return {k.lower(): _fold(v) for k, v in value.items()}
    return [_fold(v) for v in value] if isinstance(value, list) else value


def _tls(config: ExtenderConfig) -> WebhookTls | None:
    tls = config.tls_config
    if tls is None:
        return WebhookTls(verify=False) if config.enable_https else None
    unknown_ca = config.enable_https and not (tls.ca_file or tls.ca_data)
    return WebhookTls(
        verify=not (tls.insecure or unknown_ca),
        server_name=tls.server_name,
        ca_file=tls.ca_file,
        cert_file=tls.cert_file,
        key_file=tls.key_file,
        ca_data=tls.ca_data,
        cert_data=tls.cert_data,
        key_data=tls.key_data,
    )
