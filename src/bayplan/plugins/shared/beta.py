"""The regularised incomplete beta function: the chance that a share of a Beta is at most ``x``.

A continued fraction, by the modified method of Lentz, on the side of the mean where the fraction
converges; it needs about as many steps as the root of the smaller parameter. Where both are large
an asymptotic expansion is taken. Both have small relative errors in the tails: quotients of
two small chances are asked for.

The formulas are those of the NIST Digital Library of Mathematical Functions (DLMF), 8.17 and 8.18.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from bayplan.cache.node_load import FloatArray

_LARGE = 10_000.0
"""The smaller parameter from which the expansion is taken; its error is 1e-6 there."""
_TINY = 1e-300
_EPSILON = 1e-14
_MOST_STEPS = 1000

Real = TypeVar("Real", float, FloatArray)

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])
_normal = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)), otypes=[np.float64])


def incomplete_beta(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """I_x(a, b) of each; ``x`` from 0 to 1, both parameters above 0."""
    result = np.where(x >= 1, 1.0, 0.0)
    inside = (x > 0) & (x < 1)
    large = inside & (np.minimum(a, b) > _LARGE)
    if large.any():
        result[large] = _expansion(x[large], a[large], b[large])
    rest = np.flatnonzero(inside & ~large)
    # Beyond the mean the other tail is computed, with the roles exchanged.
    beyond = x > (a + 1) / (a + b + 2)
    for other in (False, True):
        picked = rest[beyond[rest] == other]
        if len(picked):
            p, q, at = (b, a, 1 - x) if other else (a, b, x)
            tail = _tail(at[picked], p[picked], q[picked])
            result[picked] = 1 - tail if other else tail
    clipped: FloatArray = np.clip(result, 0, 1)
    return clipped


def one_incomplete_beta(x: float, a: float, b: float) -> float:
    """`incomplete_beta` of single numbers."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if min(a, b) > _LARGE:
        chance = _expansion(*(np.array([number]) for number in (x, a, b))).item()
    elif x > (a + 1) / (a + b + 2):
        chance = 1 - _one_tail(1 - x, b, a)
    else:
        chance = _one_tail(x, a, b)
    return min(max(chance, 0.0), 1.0)


def is_possible(x: float, a: float, b: float) -> bool:
    """Whether `one_incomplete_beta` is above 0: the fraction, which takes long, never is less."""
    if x <= 0 or x > (a + 1) / (a + b + 2):
        return x > 0
    if min(a, b) > _LARGE:
        return one_incomplete_beta(x, a, b) > 0
    return _one_factor(x, a, b) > 0


def _tail(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    gammas = _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b)
    factor: FloatArray = np.exp(gammas + a * np.log(x) + b * np.log1p(-x)) / a
    factor *= _fraction(x, a, b)
    return factor


def _one_tail(x: float, a: float, b: float) -> float:
    return _one_factor(x, a, b) * _fraction(x, a, b)


def _one_factor(x: float, a: float, b: float) -> float:
    gammas = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(gammas + a * math.log(x) + b * math.log1p(-x)) / a


def _fraction(x: Real, a: Real, b: Real) -> Real:
    """The continued fraction of DLMF 8.17.22, without its factor."""
    c = 1.0 + x * 0
    d = 1.0 / (1.0 - (a + b) * x / (a + 1.0) + _TINY)
    result = d
    for m in range(1, _MOST_STEPS):
        step = a + 2 * m
        even = m * (b - m) * x / ((step - 1.0) * step)
        d = 1.0 / (1.0 + even * d + _TINY)
        c = 1.0 + even / c + _TINY
        result = result * c * d
        odd = -(a + m) * (a + b + m) * x / (step * (step + 1.0))
        d = 1.0 / (1.0 + odd * d + _TINY)
        c = 1.0 + odd / c + _TINY
        change = c * d
        result = result * change
        error = abs(change - 1.0)
        if (error if isinstance(error, float) else error.max()) < _EPSILON:
            break
    return result


def _expansion(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """The leading terms of DLMF 8.18.14, whose relative error is small in both tails, too."""
    total, mean = a + b, a / (a + b)
    root = np.sqrt(mean * (1 - mean))
    distance = x - mean
    near = np.abs(distance) < 1e-6 * root
    away = np.where(near, 1e-6 * root, distance)
    entropy = mean * np.log1p(away / mean) + (1 - mean) * np.log1p(-away / (1 - mean))
    eta = np.copysign(np.sqrt(np.maximum(-2 * entropy, 0)), away)
    correction = np.where(near, (1 - 2 * mean) / (3 * root), 1 / eta - root / away)
    eta = np.where(near, distance / root, eta)
    density = np.exp(-total * eta * eta / 2) / np.sqrt(2 * math.pi * total)
    result: FloatArray = _normal(eta * np.sqrt(total)) + density * correction
    return result
