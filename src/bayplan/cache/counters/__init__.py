"""Counts of Pods per topology domain; `counters` explains them."""

from bayplan.cache.counters.counters import DomainCounters
from bayplan.cache.counters.domain_counter import DomainCounter, clamp_outside, weighted_counts
from bayplan.cache.counters.domains import Domains, DomainSpec, DomainTable, Integers, Number
from bayplan.cache.counters.pod_terms import PodTerm, ShapeTerms, content, shape_terms
from bayplan.cache.counters.selections import PodSelection, SelectionCounter, selected_by_all
from bayplan.cache.counters.terms import TermMatches

__all__ = [
    "DomainCounter",
    "DomainCounters",
    "DomainSpec",
    "DomainTable",
    "Domains",
    "Integers",
    "Number",
    "PodSelection",
    "PodTerm",
    "SelectionCounter",
    "ShapeTerms",
    "TermMatches",
    "clamp_outside",
    "content",
    "selected_by_all",
    "shape_terms",
    "weighted_counts",
]
