"""InterPodAffinity written as simply as can be: loops over all Pods and nodes, nothing kept.

The rules are read off the API documentation and kube-scheduler's behaviour, node by node and Pod by
Pod. It shares no code with the plugin, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.api.meta import LabelSelector
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.api.pod_spec import PodAffinityTerm, WeightedPodAffinityTerm

OK = ("Success", "")
UNMET = ("UnschedulableAndUnresolvable", "node(s) didn't match pod affinity rules")
REPELLED = ("Unschedulable", "node(s) didn't match pod anti-affinity rules")
RESISTED = ("Unschedulable", "node(s) didn't satisfy existing pods anti-affinity rules")
Labels = Mapping[str, str]


def selector_matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """The metav1.LabelSelector semantics."""
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for r in selector.match_expressions:
        holds = {
            "In": labels.get(r.key) in r.values,
            "NotIn": labels.get(r.key) not in r.values,
            "Exists": r.key in labels,
            "DoesNotExist": r.key not in labels,
        }
        if not holds[r.operator]:
            return False
    return True


@dataclass
class World:
    """A cluster as lists."""

    nodes: Sequence[Node]
    placed: Sequence[tuple[str, Pod]]
    namespaces: Mapping[str, Labels]

    def on(self, node_name: str) -> Node:
        return next(n for n in self.nodes if n.name == node_name)

    def near(self, node: Node, key: str) -> list[Pod]:
        """Pods in the node's domain."""
        value = node.labels.get(key)
        return [
            p for n, p in self.placed if value is not None and self.on(n).labels.get(key) == value
        ]

    def labelled(self, key: str) -> list[Pod]:
        """Pods on nodes that have the key."""
        return [p for n, p in self.placed if key in self.on(n).labels]


def _applies(term: PodAffinityTerm, owner: Pod, target: Pod, world: World) -> bool:
    default = not term.namespaces and term.namespace_selector is None
    names = [owner.namespace] if default else list(term.namespaces)
    selector = term.namespace_selector
    in_scope = target.namespace in names or selector_matches(
        selector, world.namespaces.get(target.namespace, {})
    )
    return in_scope and selector_matches(term.label_selector, target.labels)


def _required(pod: Pod, anti: bool) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    part = (affinity.pod_anti_affinity if anti else affinity.pod_affinity) if affinity else None
    return part.required if part else ()


def _preferred(pod: Pod, anti: bool) -> Sequence[WeightedPodAffinityTerm]:
    affinity = pod.spec.affinity
    part = (affinity.pod_anti_affinity if anti else affinity.pod_affinity) if affinity else None
    return part.preferred if part else ()


def filter_node(pod: Pod, node: Node, world: World) -> tuple[str, str]:
    """The status of one node."""
    if not _affinity_met(pod, node, world):
        return UNMET
    for t in _required(pod, anti=True):
        if any(_applies(t, pod, p, world) for p in world.near(node, t.topology_key)):
            return REPELLED
    for other_node, other in world.placed:
        for t in _required(other, anti=True):
            theirs = world.on(other_node).labels.get(t.topology_key)
            near = theirs is not None and theirs == node.labels.get(t.topology_key)
            if near and _applies(t, other, pod, world):
                return RESISTED
    return OK


def _affinity_met(pod: Pod, node: Node, world: World) -> bool:
    terms = _required(pod, anti=False)

    def fits_all(other: Pod) -> bool:
        return all(_applies(t, pod, other, world) for t in terms)

    if any(t.topology_key not in node.labels for t in terms):
        return False
    if all(any(fits_all(p) for p in world.near(node, t.topology_key)) for t in terms):
        return True
    somewhere = any(fits_all(p) for t in terms for p in world.labelled(t.topology_key))
    return fits_all(pod) and not somewhere


def skips_filter(pod: Pod, world: World) -> bool:
    """Whether PreFilter has nothing to say."""
    if _required(pod, False) or _required(pod, True):
        return False
    return not any(
        _applies(t, other, pod, world)
        for node, other in world.placed
        for t in _required(other, True)
        if t.topology_key in world.on(node).labels
    )


def raw_scores(
    pod: Pod, feasible: Sequence[Node], world: World, hard: int = 1, ignore: bool = False
) -> dict[str, int] | None:
    """Raw scores; None where PreScore skips."""
    own = [(w.weight, w.pod_affinity_term) for w in _preferred(pod, False)]
    own += [(-w.weight, w.pod_affinity_term) for w in _preferred(pod, True)]
    if ignore and not own:
        return None
    found: list[tuple[str, str, int]] = []
    for node_name, other in world.placed:
        labels = world.on(node_name).labels
        theirs = [(w.weight, w.pod_affinity_term) for w in _preferred(other, False)]
        theirs += [(-w.weight, w.pod_affinity_term) for w in _preferred(other, True)]
        theirs += [(hard, t) for t in _required(other, False)] if hard else []
        pairs = [(w, t) for w, t in own if _applies(t, pod, other, world)]
        pairs += [(w, t) for w, t in theirs if _applies(t, other, pod, world)]
        found += [
            (t.topology_key, labels[t.topology_key], w)
            for w, t in pairs
            if t.topology_key in labels
        ]
    if not found:
        return None
    return {
        n.name: sum(w for key, value, w in found if n.labels.get(key) == value) for n in feasible
    }


def normalize(raw: Mapping[str, int]) -> dict[str, int]:
    """Scores from 0 to 100."""
    low, high = min(raw.values()), max(raw.values())
    if low == high:
        return dict.fromkeys(raw, 0)
    return {name: int(100.0 * ((score - low) / (high - low))) for name, score in raw.items()}
