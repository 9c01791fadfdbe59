"""Taints of devices: from slices and from DeviceTaintRules, and tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.resource import DeviceTaint, DeviceTaintRule, DeviceToleration
from bayplan.devices.usage import DeviceId

_EFFECTS = ("NoSchedule", "NoExecute")
"""Other effects, None among them, prevent nothing."""


def applies(rule: DeviceTaintRule, device: DeviceId) -> bool:
    """Whether ``rule`` is about ``device``; a rule without a selector is about none."""
    selector = rule.spec.device_selector
    return selector is not None and all(
        asked is None or asked == actual
        for asked, actual in zip(
            (selector.driver, selector.pool, selector.device), device, strict=True
        )
    )


def tolerated(taints: Iterable[DeviceTaint], tolerations: Iterable[DeviceToleration]) -> bool:
    """Whether a request with ``tolerations`` may have a device with ``taints``."""
    tolerations = tuple(tolerations)
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _EFFECTS
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """An empty key or effect stands for any; see ``resourceclaim.ToleratesTaint``."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
