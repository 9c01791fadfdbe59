"""Admission: what the API server's admission plugins make of objects when they are created.

ServiceAccount and quota aside, these are the ones that change what scheduling reads: Priority,
RuntimeClass, DefaultTolerationSeconds, DefaultStorageClass, and the strategy's merging of label
keys into selectors. Works on JSON whose types have been checked; what is set already stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from bayplan.api.kinds import (
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    Kind,
)
from bayplan.simulation.file_kinds import RUNTIME_CLASS
from bayplan.simulation.files import Entry, Json, Notes

Objects = dict[Kind[object], list[Entry]]
"""The entries of a file by kind."""

SYSTEM_CRITICAL = 2_000_000_000
_SYSTEM_CLASSES = {
    "system-cluster-critical": {"value": SYSTEM_CRITICAL},
    "system-node-critical": {"value": SYSTEM_CRITICAL + 1000},
}
_EVICTION_SECONDS = 300
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLAIM_CLASS = "volume.beta.kubernetes.io/storage-class"


def add_implied_namespaces(objects: Objects) -> None:
    """A namespace that objects name exists, without labels, even if no file has the namespace."""
    given = {entry.name for entry in objects[NAMESPACE]}
    named = {entry.namespace for k, entries in objects.items() if k.namespaced for entry in entries}
    for name in sorted(named - given):
        meta = {"name": name, "uid": f"Namespace-{name}", "resourceVersion": "1"}
        objects[NAMESPACE].append(Entry(NAMESPACE, {"metadata": meta}))


def admit_claims(objects: Objects) -> None:
    """Claims that leave their class open get the default one; of several the newest."""
    defaults = [entry for entry in objects[STORAGE_CLASS] if _is_default(entry)]
    if not defaults:
        return
    defaults.sort(key=lambda entry: entry.name)
    newest = max(defaults, key=_created)
    for claim in objects[PERSISTENT_VOLUME_CLAIM]:
        if _CLAIM_CLASS not in claim.meta.get("annotations", {}):
            claim.spec.setdefault("storageClassName", newest.name)


def _is_default(entry: Entry) -> bool:
    annotations = entry.meta.get("annotations", {})
    return any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)


def _created(entry: Entry) -> float:
    text = entry.meta.get("creationTimestamp")
    return msgspec.convert(text, datetime).timestamp() if text else 0.0


class PodAdmission:
    """Admits Pods, by the priority and runtime classes of the file."""

    def __init__(self, objects: Objects, notes: Notes) -> None:
        self._notes = notes
        self._runtimes = {entry.name: entry for entry in objects[RUNTIME_CLASS]}
        self._priorities = {entry.name: entry.data for entry in objects[PRIORITY_CLASS]}
        defaults = [data for data in self._priorities.values() if data.get("globalDefault")]
        self._default: Json = min(defaults, key=lambda data: data.get("value", 0), default={})

    def admit(self, pod: Entry) -> None:
        """Do to ``pod`` what admission does at its creation."""
        self._set_runtime(pod)
        self._set_priority(pod)
        _add_tolerations(pod.spec)
        _merge_label_keys(pod)

    def admit_group(self, pod_group: Entry) -> None:
        """Give a group of Kubernetes its priority, by the same rules as a Pod."""
        priority = self._class_of(pod_group) or {}
        pod_group.spec.setdefault("priority", priority.get("value", 0))

    def _set_runtime(self, pod: Entry) -> None:
        name = pod.spec.get("runtimeClassName")
        if not name:
            return
        runtime = self._runtimes.get(name)
        if runtime is None:
            text = f"{pod}: spec.runtimeClassName: there is no RuntimeClass {name}"
            self._notes.add(f"{text}, its overhead counts as none", pod.where)
            return
        if "overhead" in runtime.data and "overhead" not in pod.spec:
            pod.spec["overhead"] = dict(runtime.data["overhead"].get("podFixed", {}))
        scheduling = runtime.data.get("scheduling", {})
        if scheduling.get("nodeSelector"):
            pod.spec["nodeSelector"] = {
                **scheduling["nodeSelector"],
                **pod.spec.get("nodeSelector", {}),
            }
        tolerations = pod.spec.setdefault("tolerations", [])
        tolerations += [t for t in scheduling.get("tolerations", []) if not _listed(t, tolerations)]

    def _set_priority(self, pod: Entry) -> None:
        priority = self._priority(pod)
        pod.spec.setdefault("priority", priority.get("value", 0))
        policy = priority.get("preemptionPolicy", "PreemptLowerPriority")
        pod.spec.setdefault("preemptionPolicy", policy)

    def _priority(self, pod: Entry) -> Json:
        priority = self._class_of(pod)
        if priority is None and "priority" not in pod.spec:
            name = pod.spec["priorityClassName"]
            text = f"{pod}: spec.priorityClassName: there is no PriorityClass {name}"
            self._notes.add(f"{text}, the priority counts as 0", pod.where)
        return priority or {}

    def _class_of(self, entry: Entry) -> Json | None:
        """The PriorityClass of a Pod or a PodGroup; None for one that is missing."""
        name = entry.spec.get("priorityClassName", "")
        return self._priorities.get(name, _SYSTEM_CLASSES.get(name)) if name else self._default


def _listed(toleration: Json, tolerations: Iterable[Json]) -> bool:
    """Whether one of ``tolerations`` says the same, for however long."""

    def identity(one: Json) -> list[str]:
        return [one.get(part, "") for part in ("key", "operator", "value", "effect")]

    return any(identity(toleration) == identity(other) for other in tolerations)


def _add_tolerations(spec: Json) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for condition in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{condition}"
        if not any(
            t.get("key", "") in (key, "") and t.get("effect", "") in ("NoExecute", "")
            for t in tolerations
        ):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_SECONDS,
                }
            )


def _merge_label_keys(pod: Entry) -> None:
    """Write matchLabelKeys and mismatchLabelKeys into their selectors."""
    labels = pod.meta.get("labels", {})
    for constraint in pod.spec.get("topologySpreadConstraints", []):
        _merge_keys(constraint, "matchLabelKeys", "In", labels)
    for term in _affinity_terms(pod.spec.get("affinity", {})):
        _merge_keys(term, "matchLabelKeys", "In", labels)
        _merge_keys(term, "mismatchLabelKeys", "NotIn", labels)


def _affinity_terms(affinity: Json) -> Iterator[Json]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind, {})
        yield from terms.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution", []):
            yield weighted.get("podAffinityTerm", {})


def _merge_keys(holder: Json, field: str, operator: str, labels: dict[str, str]) -> None:
    selector = holder.get("labelSelector")
    if selector is None:
        return
    expressions = selector.get("matchExpressions", [])
    for key in holder.get(field, []):
        if key in labels:
            requirement = {"key": key, "operator": operator, "values": [labels[key]]}
            if requirement not in expressions:
                expressions = selector["matchExpressions"] = [*expressions, requirement]


def by_kind(entries: Iterable[Entry]) -> Objects:
    """The entries by kind, each kind in the order of the file."""
    objects: Objects = defaultdict(list)
    for entry in entries:
        objects[entry.kind].append(entry)
    return objects
