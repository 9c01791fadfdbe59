"""Budgets: which victims a PodDisruptionBudget protects.

Updated by changes in the object store, so a dry run evaluates each selector once per Pod template.
Semantics are those of kube-scheduler's ``filterPodsWithPDBViolation``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.pod import Pod, PodShape
from bayplan.api.selectors import Predicate, SelectorError, label_selector, nothing
from bayplan.api.workloads import PodDisruptionBudget
from bayplan.cache.objects import ObjectStore


@dataclass(frozen=True)
class _Budget:
    key: str
    selects: Predicate
    allowed: int
    disrupted: Mapping[str, str]


class Budgets:
    """All PodDisruptionBudgets.

    Attributes:
        version: changes whenever any of them does.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self.version = 0
        self._by_namespace: dict[str, dict[str, _Budget]] = defaultdict(dict)
        self._of_shape: dict[int, tuple[_Budget, ...]] = {}
        objects.on_change(POD_DISRUPTION_BUDGET, self._changed)

    def _changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        self.version += 1
        self._of_shape.clear()
        if old is not None:
            del self._by_namespace[old.namespace][old.key]
        if new is not None:
            status = new.status
            budget = _Budget(
                new.key, _selects(new), status.disruptions_allowed, status.disrupted_pods
            )
            self._by_namespace[new.namespace][new.key] = budget

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not any(self._by_namespace.values())

    def has(self, pod: Pod) -> bool:
        """Whether any of them selects the Pod."""
        return bool(self._of(pod.shape))

    def violations(self, pods: Iterable[Pod]) -> set[str]:
        """Uids of ``pods`` whose eviction violates a budget, after all previous evictions.

        A Pod that the API server counts as disrupted already costs its budget nothing, and one that
        violates a budget costs those after it, by name, nothing.
        """
        violators: set[str] = set()
        left: dict[str, int] = {}
        for pod in pods:
            for budget in self._of(pod.shape):
                if pod.name in budget.disrupted:
                    continue
                left[budget.key] = left.get(budget.key, budget.allowed) - 1
                if left[budget.key] < 0:
                    violators.add(pod.uid)
                    break
        return violators

    def _of(self, shape: PodShape) -> tuple[_Budget, ...]:
        budgets = self._of_shape.get(shape.id)
        if budgets is None:
            in_namespace = self._by_namespace.get(shape.namespace, {}) if shape.labels else {}
            selecting = [b for b in in_namespace.values() if b.selects(shape.labels)]
            budgets = tuple(sorted(selecting, key=lambda budget: budget.key))
            self._of_shape[shape.id] = budgets
        return budgets


def _selects(budget: PodDisruptionBudget) -> Predicate:
    """An empty selector selects nothing here, as does an invalid one."""
    selector = budget.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return nothing
    try:
        return label_selector(selector)
    except SelectorError:
        return nothing
