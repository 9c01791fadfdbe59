"""Pod affinity terms, compiled once per Pod shape: which Pods a term matches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from bayplan.api.pod import PodShape
from bayplan.api.pod_spec import PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from bayplan.api.selectors import Labels, Predicate, SelectorError, label_selector

_encode = msgspec.json.Encoder(order="deterministic").encode


def content(*values: object) -> bytes:
    """Bytes that are equal for equal API values: an identity for what cannot be hashed."""
    return _encode(values)


@dataclass(frozen=True, slots=True, eq=False)
class PodTerm:
    """A compiled PodAffinityTerm.

    Attributes:
        id: equal for terms of equal content, topology key included.
        namespaces: named ones; the owner's where the term names none and selects none.
        any_namespace: whether Pods of other namespaces may be meant, by namespaceSelector.
    """

    id: bytes
    topology_key: str
    namespaces: frozenset[str]
    any_namespace: bool
    _namespace_selector: Predicate
    _selector: Predicate

    def selects(self, shape: PodShape, namespace_labels: Labels) -> bool:
        """Whether this term is about Pods of ``shape``, in a namespace with these labels."""
        named = shape.namespace in self.namespaces or self._namespace_selector(namespace_labels)
        return named and self._selector(shape.labels)


@dataclass(frozen=True, slots=True)
class ShapeTerms:
    """All Pod affinity terms of a shape.

    Attributes:
        affinity: required affinity.
        anti: required anti-affinity.
        preferred: preferred terms with their weights, those of anti-affinity negative.
        errors: why a group of terms could not be read (that group is empty then).
    """

    affinity: tuple[PodTerm, ...] = ()
    anti: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there is any term, readable or not."""
        return bool(self.affinity or self.anti or self.preferred or self.errors)

    @property
    def error(self) -> str:
        """All errors as one text, as Kubernetes prints aggregates; empty when there is none."""
        several = len(self.errors) > 1
        return f"[{', '.join(self.errors)}]" if several else "".join(self.errors)


_NONE = ShapeTerms()


def shape_terms(shape: PodShape) -> ShapeTerms:
    """The terms of ``shape``; call it as ``shape.memo(shape_terms)``."""
    affinity = shape.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return _NONE
    towards = affinity.pod_affinity or PodAffinity()
    against = affinity.pod_anti_affinity or PodAffinity()
    errors: list[str] = []

    def read(field_name: str, terms: Iterable[PodAffinityTerm]) -> tuple[PodTerm, ...]:
        try:
            return tuple(_compile(shape.namespace, term) for term in terms)
        except SelectorError as error:
            errors.append(f"{field_name}: {error}")
            return ()

    required = read("requiredAffinityTerms", towards.required)
    anti = read("requiredAntiAffinityTerms", against.required)
    preferred = read("preferredAffinityTerms", _unweighted(towards.preferred))
    avoided = read("preferredAntiAffinityTerms", _unweighted(against.preferred))
    liked = [(w.weight, t) for w, t in zip(towards.preferred, preferred, strict=False)]
    disliked = [(-w.weight, t) for w, t in zip(against.preferred, avoided, strict=False)]
    return ShapeTerms(required, anti, (*liked, *disliked), tuple(errors))


def _unweighted(terms: Iterable[WeightedPodAffinityTerm]) -> list[PodAffinityTerm]:
    return [term.pod_affinity_term for term in terms]


def _compile(owner_namespace: str, term: PodAffinityTerm) -> PodTerm:
    own = not term.namespaces and term.namespace_selector is None
    namespaces = frozenset((owner_namespace,) if own else term.namespaces)
    return PodTerm(
        id=content(
            term.topology_key, sorted(namespaces), term.namespace_selector, term.label_selector
        ),
        topology_key=term.topology_key,
        namespaces=namespaces,
        any_namespace=term.namespace_selector is not None,
        _namespace_selector=label_selector(term.namespace_selector),
        _selector=label_selector(term.label_selector),
    )
