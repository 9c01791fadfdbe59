"""Topology spread constraints, compiled; and the selectors that default constraints get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from bayplan.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET, Kind
from bayplan.api.meta import LabelSelector
from bayplan.api.node import Node
from bayplan.api.pod import PodShape
from bayplan.api.pod_spec import TopologySpreadConstraint
from bayplan.api.selectors import Predicate, SelectorError, all_of, equals, label_selector
from bayplan.api.tolerations import repels
from bayplan.cache.counters import DomainSpec, PodSelection, content
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.shared.node_selectors import RequiredNodeAffinity, required_node_affinity
from bayplan.plugins.shared.tolerations import repelling_taints

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SOFT, max_skew=5),
)


@dataclass(frozen=True)
class SpreadSelector:
    """A label selector with an identity.

    Attributes:
        empty: whether it has no requirement. kube-scheduler counts no Pods for such a selector
            although it matches every Pod.
    """

    id: bytes
    matches: Predicate
    empty: bool = False


@dataclass(frozen=True)
class SpreadConstraint:
    """A constraint of one shape; `None` policies of the API are resolved."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: SpreadSelector
    honor_affinity: bool
    honor_taints: bool

    def pods(self, shape: PodShape) -> PodSelection:
        """The Pods that count for a Pod of ``shape``: in the same namespace, not terminating."""
        matches = self.selector.matches
        countable = frozenset[str]() if self.selector.empty else frozenset({shape.namespace})
        return PodSelection(
            id=("spread", shape.namespace, self.selector.id),
            namespaces=countable,
            selects=lambda other, _: other.namespace in countable and matches(other.labels),
            terminating=False,
        )

    def domains(
        self, shape: PodShape, requires: tuple[str, ...], absent_as: str | None = None
    ) -> DomainSpec:
        """The domains that count, restricted to nodes admitted by the inclusion policies.

        Args:
            shape: the incoming Pod's shape, for its node affinity and tolerations.
            requires: label keys that nodes must have to count.
            absent_as: see `DomainSpec`.
        """
        rule = InclusionRule.of(shape, self) if self.honor_affinity or self.honor_taints else None
        if rule is None or rule.admits_all:
            return DomainSpec(self.topology_key, requires, None, None, absent_as)
        return DomainSpec(self.topology_key, requires, rule.id, rule, absent_as)


class InclusionRule:
    """nodeAffinityPolicy and nodeTaintsPolicy: which nodes count, for one shape."""

    def __init__(
        self, shape: PodShape, affinity: RequiredNodeAffinity | None, taints: bool
    ) -> None:
        self._shape = shape
        self._affinity = affinity
        self._taints = taints
        spec = shape.spec
        required = spec.affinity.node_affinity if spec.affinity and affinity else None
        self.id = content(
            spec.node_selector if affinity else None,
            required.required if required else None,
            spec.tolerations if taints else None,
        )

    @classmethod
    def of(cls, shape: PodShape, constraint: SpreadConstraint) -> InclusionRule:
        """The rule that ``constraint`` sets for Pods of ``shape``."""
        affinity = None
        if constraint.honor_affinity:
            affinity = shape.constraints.memo(required_node_affinity)
            if not affinity.labels and affinity.affinity is None:
                affinity = None
        return cls(shape, affinity, constraint.honor_taints)

    @property
    def admits_all(self) -> bool:
        """Whether no node is left out."""
        return self._affinity is None and not self._taints

    def mask(self, nodes: NodeTable) -> BoolArray:
        """See `NodeRule`."""
        admitted = nodes.exists if self._affinity is None else self._affinity.mask(nodes)
        if self._taints:
            repelled: BoolArray = self._shape.constraints.memo(repelling_taints).of(nodes.taints)
            admitted = admitted & ~repelled
        return admitted

    def matches(self, node: Node) -> bool:
        """See `NodeRule`."""
        if self._affinity is not None and not self._affinity.matches(node):
            return False
        return not self._taints or not repels(node.spec.taints, self._shape.spec.tolerations)


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> list[SpreadConstraint]:
    """The constraints with this whenUnsatisfiable, for a Pod with these labels.

    Raises:
        SelectorError: one of them has a selector that the API would not accept.
    """
    return [
        SpreadConstraint(
            topology_key=c.topology_key,
            max_skew=c.max_skew,
            min_domains=1 if c.min_domains is None else c.min_domains,
            selector=_selector(c, labels),
            honor_affinity=c.node_affinity_policy in (None, "Honor"),
            honor_taints=c.node_taints_policy == "Honor",
        )
        for c in constraints
        if c.when_unsatisfiable == action
    ]


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> SpreadSelector:
    keys = constraint.match_label_keys
    return merged({k: labels[k] for k in keys if k in labels}, constraint.label_selector)


def merged(equal: Mapping[str, str], selector: LabelSelector | None) -> SpreadSelector:
    """``selector`` and these labels too; no ``selector`` matches nothing, whatever the labels."""
    predicate = label_selector(selector)
    if selector is None:
        return SpreadSelector(content(None), predicate)
    empty = not (equal or selector.match_labels or selector.match_expressions)
    predicates = [*(equals(k, v) for k, v in equal.items()), predicate]
    return SpreadSelector(content(equal, selector), all_of(predicates), empty)


def with_selector(
    constraints: list[SpreadConstraint], selector: SpreadSelector
) -> list[SpreadConstraint]:
    """Default constraints with ``selector`` filled in; none for an empty selector."""
    return [] if selector.empty else [replace(c, selector=selector) for c in constraints]


_OWNERS: dict[str, Kind[Any]] = {
    f"{kind.api_version}/{kind.name}": kind
    for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)
}
DEFAULT_SELECTOR_KINDS = (SERVICE, *_OWNERS.values())


class DefaultSelectors:
    """What Services and owners say about which Pods belong together.

    Attributes:
        version: per namespace, a number that changes when the answer for its Pods may have changed.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._services: dict[str, dict[str, dict[str, str]]] = {}
        self.version: Counter[str] = Counter()
        for kind in DEFAULT_SELECTOR_KINDS:
            objects.on_change(kind, self._changed)
        objects.on_change(SERVICE, self._service_changed)

    def _changed(self, old: Any, new: Any) -> None:
        """Only specs matter: a ReplicaSet's status changes with each of its Pods."""
        if old is None or new is None or old.spec != new.spec:
            self.version[(new or old).namespace] += 1

    def _service_changed(self, old: Any, new: Any) -> None:
        if old is not None:
            self._services.get(old.namespace, {}).pop(old.name, None)
        if new is not None and new.spec.selector:
            self._services.setdefault(new.namespace, {})[new.name] = new.spec.selector

    def of(self, shape: PodShape) -> SpreadSelector:
        """The selector for Pods of ``shape``; empty where nothing selects them."""
        equal = dict(pair for labels in self._selecting(shape) for pair in labels.items())
        of, name = shape.owner
        kind = _OWNERS.get(of)
        owner = self._objects.get(kind, f"{shape.namespace}/{name}") if kind else None
        if kind is REPLICATION_CONTROLLER and owner is not None:
            equal.update(owner.spec.selector)
        elif owner is not None and owner.spec.selector is not None:
            with suppress(SelectorError):  # then the owner says nothing, as in kube-scheduler
                return merged(equal, owner.spec.selector)
        return merged(equal, LabelSelector())

    def _selecting(self, shape: PodShape) -> Iterator[dict[str, str]]:
        for selector in self._services.get(shape.namespace, {}).values():
            if selector.items() <= shape.labels.items():
                yield selector
