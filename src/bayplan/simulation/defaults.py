"""Defaults: the values that the API server fills in when reading, for fields of scheduling.

Answers to ``SetDefaults_*`` in kube-apiserver's ``pkg/apis/*/v1``. Works on JSON whose types have
been checked. An object from a cluster has all defaults already and does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec

from bayplan.api import kinds, quantity
from bayplan.api.kinds import Kind
from bayplan.api.pod import PodStatus
from bayplan.api.pod_spec import PodSpec
from bayplan.cache.requests import exact_requests
from bayplan.simulation.files import Entry, Json

_NO_STATUS = PodStatus()
_OVERCOMMITTED = frozenset({"cpu", "memory"})
_HUGE = "hugepages-"


def set_defaults(entry: Entry) -> None:
    """Fill in what ``entry`` leaves out."""
    setter = _SETTERS.get(entry.kind)
    if setter:
        setter(entry)
    for amounts in _resource_maps(entry):
        for name, amount in amounts.items():
            amounts[name] = whole_milli(amount)


@cache
def whole_milli(amount: quantity.Amount) -> quantity.Amount:
    """``amount``, rounded up to thousandths as the API server keeps it."""
    exact = quantity.parse(amount)
    return amount if (exact * 1000).denominator == 1 else _text(exact)


def _text(exact: Fraction) -> str:
    return f"{-(-exact * 1000 // 1)}m"


def _containers(spec: Json) -> Iterator[Json]:
    yield from spec.get("containers", [])
    yield from spec.get("initContainers", [])


def _set_pod(entry: Entry) -> None:
    spec = entry.spec
    for container in _containers(spec):
        resources = container.get("resources", {})
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
        for port in container.get("ports", []):
            port.setdefault("protocol", "TCP")
            if spec.get("hostNetwork") and not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort", 0)
    if "resources" in spec:
        _set_pod_level(spec, spec["resources"])
    spec["restartPolicy"] = spec.get("restartPolicy") or "Always"
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec["schedulerName"] = spec.get("schedulerName") or "default-scheduler"


def _set_pod_level(spec: Json, resources: Json) -> None:
    """Pod-level limits of huge pages and requests, from the containers' and from each other."""
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    if not (requests or limits):
        return
    for name, amount in _sum(spec, "limits").items():
        if name.startswith(_HUGE) and name not in requests:
            limits.setdefault(name, _text(amount))
    if limits:
        resources["limits"] = limits
    for name, amount in _sum(spec, "requests").items():
        if name in _OVERCOMMITTED:
            requests.setdefault(name, _text(amount))
    for name, amount in limits.items():
        if name in _OVERCOMMITTED or name.startswith(_HUGE):
            requests.setdefault(name, amount)
    if requests:
        resources["requests"] = requests


def _sum(spec: Json, what: str) -> dict[str, Fraction]:
    """What the containers need together, by their ``requests`` or their ``limits``."""

    def only(container: Json) -> Json:
        amounts = container.get("resources", {}).get(what, {})
        restart = container.get("restartPolicy", "")
        return {"resources": {"requests": amounts}, "restartPolicy": restart}

    bare = {
        part: [only(c) for c in spec.get(part, [])] for part in ("containers", "initContainers")
    }
    return exact_requests(msgspec.convert(bare, PodSpec), _NO_STATUS, {}, pod_level=False)


def _set_node(entry: Entry) -> None:
    status = entry.status
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def _set_namespace(entry: Entry) -> None:
    entry.meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = entry.name


def _set_volume(entry: Entry) -> None:
    entry.spec.setdefault("volumeMode", "Filesystem")
    entry.status["phase"] = entry.status.get("phase") or "Pending"


def _set_storage_class(entry: Entry) -> None:
    entry.data.setdefault("volumeBindingMode", "Immediate")


def _set_replication_controller(entry: Entry) -> None:
    template = entry.spec.get("template", {})
    labels = template.get("metadata", {}).get("labels")
    if labels and not entry.spec.get("selector"):
        entry.spec["selector"] = labels


_SETTERS: dict[Kind[object], Callable[[Entry], None]] = {
    kinds.POD: _set_pod,
    kinds.NODE: _set_node,
    kinds.NAMESPACE: _set_namespace,
    kinds.PERSISTENT_VOLUME: _set_volume,
    kinds.PERSISTENT_VOLUME_CLAIM: _set_volume,
    kinds.STORAGE_CLASS: _set_storage_class,
    kinds.REPLICATION_CONTROLLER: _set_replication_controller,
}


def _resource_maps(entry: Entry) -> Iterator[dict[str, Any]]:
    """The maps of amounts in ``entry``."""
    match entry.kind:
        case kinds.POD:
            holders = [entry.spec, *_containers(entry.spec)]
            resources = [holder.get("resources", {}) for holder in holders]
            maps = [r.get(part) for r in resources for part in ("requests", "limits")]
            maps.append(entry.spec.get("overhead"))
        case kinds.NODE:
            maps = [entry.status.get("capacity"), entry.status.get("allocatable")]
        case kinds.PERSISTENT_VOLUME:
            maps = [entry.spec.get("capacity")]
        case kinds.PERSISTENT_VOLUME_CLAIM:
            maps = [entry.spec.get("resources", {}).get("requests"), entry.status.get("capacity")]
        case _:
            maps = []
    return (amounts for amounts in maps if amounts)
