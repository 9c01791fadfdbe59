"""PodTopologySpread written as simply as can be: loops over all Pods and nodes, nothing kept.

It shares no code with the plugin, so that the two can be compared. Numbers are computed in the
order in which kube-scheduler computes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.plugins.inter_pod_affinity.reference import World, selector_matches

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.api.pod_spec import TopologySpreadConstraint

OK = ("Success", "")
UNEVEN = ("Unschedulable", "node(s) didn't match pod topology spread constraints")
NO_LABEL = (
    "UnschedulableAndUnresolvable",
    "node(s) didn't match pod topology spread constraints (missing required label)",
)
HOSTNAME = "kubernetes.io/hostname"


@dataclass
class Rule:
    """A constraint, and a way to tell whether labels match it."""

    constraint: TopologySpreadConstraint
    pod: Pod
    labels: Mapping[str, str] | None = None
    """Of a default constraint: what a Service selects."""

    @property
    def key(self) -> str:
        return self.constraint.topology_key

    @property
    def empty(self) -> bool:
        selector = self.constraint.label_selector
        if self.labels is not None or selector is None:
            return False
        merged = any(k in self.pod.labels for k in self.constraint.match_label_keys)
        return not (selector.match_labels or selector.match_expressions or merged)

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.labels is not None:
            return all(labels.get(k) == v for k, v in self.labels.items())
        keys = [k for k in self.constraint.match_label_keys if k in self.pod.labels]
        same = all(labels.get(k) == self.pod.labels[k] for k in keys)
        return same and selector_matches(self.constraint.label_selector, labels)

    def counted(self, pods: Iterable[Pod]) -> int:
        if self.empty:
            return 0
        return sum(
            p.deleted is None and p.namespace == self.pod.namespace and self.matches(p.labels)
            for p in pods
        )

    def includes(self, node: Node) -> bool:
        """The two inclusion policies; node affinity here is a node selector only."""
        if self.constraint.node_affinity_policy != "Ignore":
            wanted = self.pod.spec.node_selector
            if any(node.labels.get(k) != v for k, v in wanted.items()):
                return False
        if self.constraint.node_taints_policy == "Honor":
            tolerates = any(t.key == "dedicated" for t in self.pod.spec.tolerations)
            hard = any(t.effect != "PreferNoSchedule" for t in node.spec.taints)
            return tolerates or not hard
        return True


def rules_of(pod: Pod, action: str) -> list[Rule]:
    """The Pod's own constraints."""
    own = pod.spec.topology_spread_constraints
    return [Rule(c, pod) for c in own if c.when_unsatisfiable == action]


def _pods_on(world: World, node: Node) -> list[Pod]:
    return [p for name, p in world.placed if name == node.name]


def filter_node(pod: Pod, node: Node, rules: Sequence[Rule], world: World) -> tuple[str, str]:
    """The status of one node."""
    for rule in rules:
        if rule.key not in node.labels:
            return NO_LABEL
        counts: dict[str, int] = {}
        for other in world.nodes:
            if all(r.key in other.labels for r in rules) and rule.includes(other):
                value = other.labels[rule.key]
                counts[value] = counts.get(value, 0) + rule.counted(_pods_on(world, other))
        least = min(counts.values(), default=2**31 - 1)
        least = 0 if len(counts) < (rule.constraint.min_domains or 1) else least
        here = counts.get(node.labels[rule.key], 0)
        if here + rule.matches(pod.labels) - least > rule.constraint.max_skew:
            return UNEVEN
    return OK


def scores(
    feasible: Sequence[Node], rules: Sequence[Rule], world: World, strict: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Raw and normalized scores; ``strict``: nodes must have all keys."""

    def has_all(node: Node) -> bool:
        return not strict or all(r.key in node.labels for r in rules)

    scored = [n for n in feasible if has_all(n)]
    raw = {n.name: 0 for n in feasible}
    for node in scored:
        total = 0.0
        for rule in rules:
            if rule.key not in node.labels:
                continue
            values = {n.labels.get(rule.key, "") for n in scored}
            size = len(scored) if rule.key == HOSTNAME else len(values)
            if rule.key == HOSTNAME:
                count = rule.counted(_pods_on(world, node))
            else:
                count = sum(
                    rule.counted(_pods_on(world, n))
                    for n in world.nodes
                    if has_all(n)
                    and rule.includes(n)
                    and n.labels.get(rule.key, "") == node.labels[rule.key]
                )
            total += count * math.log(size + 2) + (rule.constraint.max_skew - 1)
        whole = math.floor(total)
        raw[node.name] = whole + (total - whole >= 0.5)
    low = min((raw[n.name] for n in scored), default=0)
    high = max((raw[n.name] for n in scored), default=0)
    names = {n.name for n in scored}
    normalized = {
        name: (100 * (high + low - s) // high if high else 100) if name in names else 0
        for name, s in raw.items()
    }
    return raw, normalized
