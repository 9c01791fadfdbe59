"""The judge of the scores by load: plain loops, written from the rules alone.

Nothing of bayplan is imported. A node is a dictionary of what is allocatable and what there is in
all (milli-CPU, bytes), its Pods, and measured shares of the capacity: ``mean`` and ``deviation`` by
resource, absent where nothing is known. Pods have containers with ``requests`` and ``limits``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Data = dict[str, Any]
RESOURCES = ("cpu", "memory")


def half_up(value: float) -> int:
    return math.floor(value + 0.5)


def clamp(value: float, low: float = 0.0, high: float = 1.0) -> float:
    return max(low, min(high, value))


def total(pod: Data, what: str, resource: str) -> int:
    """The containers together, or an init container if that is more; and overhead."""
    amount = sum(c.get(what, {}).get(resource, 0) for c in pod["containers"])
    for init in pod.get("init", []):
        amount = max(amount, init.get(what, {}).get(resource, 0))
    return int(amount + pod.get("overhead", {}).get(resource, 0))


# TargetLoadPacking


def predicted(pod: Data, multiplier: float, default: int) -> int:
    use = 0
    for container in pod["containers"]:
        if "cpu" in container.get("limits", {}):
            use += container["limits"]["cpu"]
        elif "cpu" in container.get("requests", {}):
            use += half_up(container["requests"]["cpu"] * multiplier)
        else:
            use += default
    return int(use + pod.get("overhead", {}).get("cpu", 0))


def target_load_packing(
    node: Data, pod: Data, target: int = 40, multiplier: float = 1.5, default: int = 1000
) -> float | None:
    """Before it is rounded; None for a node that nothing is known of."""
    if "cpu" not in node["mean"]:
        return None
    missing = 0
    for other in node["pods"]:
        bound = other["start"]
        if bound is None or bound > node["end"] or node["end"] - bound < 60:
            missing += predicted(other, multiplier, default)
    capacity = node["capacity"]["cpu"]
    if capacity == 0:
        x = 0.0
    else:
        used = 100 * node["mean"]["cpu"] / 100 * capacity
        x = 100 * (used + predicted(pod, multiplier, default) + missing) / capacity
    if x > 100:
        return 0.0
    if x > target:
        return target * (100 - x) / (100 - target)
    return (100 - target) * x / target + target


# LoadVariationRiskBalancing


def balancing(node: Data, pod: Data, margin: float = 1, sensitivity: float = 1) -> float | None:
    scores = []
    for resource in RESOURCES:
        if resource not in node["mean"]:
            continue
        c = node["allocatable"][resource]
        if c <= 0:
            scores.append(0.0)
            continue
        average = clamp(100 * node["mean"][resource] * c / 100, 0, c)
        deviation = clamp(100 * node["deviation"][resource] * c / 100, 0, c)
        mu = clamp((average + total(pod, "requests", resource)) / c)
        sigma = clamp(deviation / c)
        exponent = 1 / sensitivity if sensitivity else math.inf
        sigma = sigma**exponent
        sigma = clamp(margin * sigma)
        scores.append(100 * (1 - (mu + sigma) / 2))
    return min(scores) if scores else None


# LowRiskOverCommitment

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(30)


def beta_below(t: float, a: float, b: float) -> float:
    """P(X <= t), as the quotient of two integrals over the log of the odds."""
    if t <= 0 or t >= 1:
        return float(t >= 1)
    # The odds of t, and where the density of the log of the odds is highest.
    edge, peak = math.log(t) - math.log1p(-t), math.log(a / b)
    lower, upper = integral(min(edge, peak), -1, a, b), integral(max(edge, peak), 1, a, b)
    middle = integral(peak, 1 if edge > peak else -1, a, b, abs(edge - peak))
    below, above = (lower, middle + upper) if edge < peak else (lower + middle, upper)
    return below / (below + above)


def density(s: Any, a: float, b: float) -> Any:
    highest = -a * np.logaddexp(0, -math.log(a / b)) - b * np.logaddexp(0, math.log(a / b))
    return np.exp(-a * np.logaddexp(0, -s) - b * np.logaddexp(0, s) - highest)


def panel(low: float, high: float, a: float, b: float) -> float:
    s = (low + high) / 2 + (high - low) / 2 * _NODES
    return float((high - low) / 2 * (_WEIGHTS * density(s, a, b)).sum())


def width(s: float, a: float, b: float) -> float:
    """A step in which the density does not change by much."""
    slope = abs((a + b) / (1 + math.exp(min(700.0, -s))) - a)
    return min(0.5 * math.sqrt((a + b) / (a * b)), 1 / max(slope, 1e-9), 1 + abs(s) / 8)


def integral(start: float, sign: int, a: float, b: float, length: float = math.inf) -> float:
    """From ``start`` in one direction, until no more is added."""
    result = done = 0.0
    while done < length:
        at = start + sign * done
        step = min(length - done, width(at, a, b))
        part = panel(min(at, at + sign * step), max(at, at + sign * step), a, b)
        result, done = result + part, done + step
        if part <= 1e-16 * result:
            break
    return result


def risk_limit(limits: int, requests: int, capacity: int) -> float:
    return (limits - capacity) / (limits - requests) if limits > capacity else 0.0


def risk_load(node: Data, resource: str, limits: int, requests: int, window: int) -> float:
    """``limits`` and ``requests`` of the Pods that are there."""
    c = node["allocatable"][resource]
    if resource not in node["mean"] or c <= 0:
        return 0.0
    mu = clamp(node["mean"][resource])
    sigma = clamp(node["deviation"][resource]) * math.sqrt(window)
    sigma = min(sigma, math.sqrt(0.99 * mu * (1 - mu)))
    t = clamp(requests / c)
    fitted = None
    if mu == 0 or (sigma == 0 and mu <= t):
        p = 1.0
    elif sigma == 0:
        p = 0.0
    else:
        k = mu * (1 - mu) / sigma**2 - 1
        fitted = (mu * k, (1 - mu) * k)
        p = beta_below(t, *fitted)
    if limits < c and requests <= limits:
        at = limits / c
        if at == 0:
            p = 1.0
        elif fitted:
            whole = beta_below(at, *fitted)
            if whole > 0:
                p = clamp(p / whole)
    return 1 - p


def over_commitment(
    node: Data, pod: Data, window: int = 5, weights: dict[str, float] | None = None
) -> tuple[float | None, float]:
    """The score (None if nothing is known of the node), and that by limits alone."""
    asks = [total(pod, what, r) for what in ("requests", "limits") for r in RESOURCES]
    if not any(asks):
        return 0.0, 0.0
    risk, by_limits = 0.0, 0.0
    for resource in RESOURCES:
        w = (weights or {}).get(resource, 0.5)
        c = node["allocatable"][resource]
        sums = []
        for pods in (node["pods"], [*node["pods"], pod]):
            requests = sum(total(p, "requests", resource) for p in pods)
            limits = sum(
                max(total(p, "limits", resource), total(p, "requests", resource)) for p in pods
            )
            sums.append((limits, min(requests, c)))
        limit = w * risk_limit(*sums[1], c)
        load = (1 - w) * risk_load(node, resource, *sums[0], window)
        risk = max(risk, clamp(limit + load))
        by_limits = max(by_limits, limit)
    known = any(resource in node["mean"] for resource in RESOURCES)
    return (100 * (1 - risk) if known else None), 100 * (1 - by_limits)


# Peaks


def rise(node: Data, pod: Data, models: dict[str, tuple[float, float]]) -> float | str:
    """In units of power; or "unknown", "overloaded"."""
    capacity = node["capacity"]["cpu"]
    if "cpu" not in node["mean"] or node["name"] not in models or capacity == 0:
        return "unknown"
    k1, k2 = models[node["name"]]
    u = 100 * node["mean"]["cpu"]
    x = u + 100 * total(pod, "requests", "cpu") / capacity
    if x > 100:
        return "overloaded"
    return k1 * (math.exp(k2 * x) - math.exp(k2 * u))


# What becomes of nodes that nothing is known of


def lower_median(values: list[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


def with_median(scores: dict[str, int | None], without: dict[str, int]) -> dict[str, int]:
    known = [score for score in scores.values() if score is not None]
    if not known:
        return without
    middle = lower_median(known)
    return {name: middle if score is None else score for name, score in scores.items()}


def peaks(rises: dict[str, float | str], *, exact: bool) -> dict[str, int]:
    raw: dict[str, int] = {}
    worst: list[str] = []
    unknown: list[str] = []
    for name, value in rises.items():
        if isinstance(value, float):
            raw[name] = math.trunc(1e15 * value)
        elif exact:
            raw[name] = 0
        else:
            (worst if value == "overloaded" else unknown).append(name)
    scores = {}
    least, most = (min(raw.values()), max(raw.values())) if raw else (0, 0)
    for name, value in raw.items():
        if least == most == 0:
            scores[name] = 0
        elif least == most:
            scores[name] = 100
        else:
            scores[name] = 100 - 100 * (value - least) // (most - least)
    scores |= dict.fromkeys(worst, 0)
    middle = lower_median(list(scores.values())) if scores else 0
    return scores | dict.fromkeys(unknown, middle)
