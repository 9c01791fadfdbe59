"""Which taints a Pod tolerates.

The rules are those of Toleration in the Kubernetes API; the operators Gt and Lt belong to a feature
that is off in v1.37 (TaintTolerationComparisonOperators) and tolerate nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.node import Taint
from bayplan.api.pod_spec import Toleration

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that a cordoned node has; who tolerates it may be placed on one."""

_REPELLING = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether ``toleration`` covers ``taint``; an empty effect or key covers any."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
    return False


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether one of ``tolerations`` covers ``taint``."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def repels(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether a taint that keeps Pods away (NoSchedule, NoExecute) is not tolerated."""
    return any(t.effect in _REPELLING and not tolerated(t, tolerations) for t in taints)
