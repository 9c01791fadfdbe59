"""The fields of the kinds that a file may hold, from the official client's models and deploy/crds.

``python -m tests.simulation.client_fields`` writes them to `bayplan.simulation`; a test checks that
they are current. The models say no enumerations and call a quantity a string; both are added here,
from ``pkg/apis/*/validation`` and ``k8s.io/api``.
"""

import datetime as dt
import json
import types
import typing
from pathlib import Path

import yaml
from kubernetes import client

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "src" / "bayplan" / "simulation" / "fields.json"
CRDS = ("podgroups", "elasticquotas", "queues", "nodekinds")
ROOTS = {
    "CompositePodGroup": client.V1alpha3CompositePodGroup,
    "CSIDriver": client.V1CSIDriver,
    "CSINode": client.V1CSINode,
    "CSIStorageCapacity": client.V1CSIStorageCapacity,
    "Deployment": client.V1Deployment,
    "DeviceClass": client.V1DeviceClass,
    "DeviceTaintRule": client.V1DeviceTaintRule,
    "Job": client.V1Job,
    "Namespace": client.V1Namespace,
    "Node": client.V1Node,
    "PersistentVolume": client.V1PersistentVolume,
    "PersistentVolumeClaim": client.V1PersistentVolumeClaim,
    "Pod": client.V1Pod,
    "PodDisruptionBudget": client.V1PodDisruptionBudget,
    "PodGroup.scheduling.k8s.io": client.V1beta1PodGroup,
    "PriorityClass": client.V1PriorityClass,
    "ReplicaSet": client.V1ReplicaSet,
    "ReplicationController": client.V1ReplicationController,
    "ResourceClaim": client.ResourceV1ResourceClaim,
    "ResourceClaimTemplate": client.V1ResourceClaimTemplate,
    "ResourceSlice": client.V1ResourceSlice,
    "RuntimeClass": client.V1RuntimeClass,
    "Service": client.V1Service,
    "StatefulSet": client.V1StatefulSet,
    "StorageClass": client.V1StorageClass,
    "VolumeAttachment": client.V1VolumeAttachment,
}
QUANTITY_MAPS = {"requests", "limits", "overhead", "podFixed", "allocatable", "capacity"} | {
    "allocatedResources",
    "consumedCapacity",
}
QUANTITIES = {"maximumVolumeSize", "divisor", "sizeLimit"}
QUANTITIES_OF = {
    "V1Counter": {"value"},
    "V1DeviceCapacity": {"value"},
    "V1CapacityRequestPolicy": {"default", "validValues"},
    "V1CapacityRequestPolicyRange": {"max", "min", "step"},
}
ENUMERATIONS = {
    ("V1NodeSelectorRequirement", "operator"): "In|NotIn|Exists|DoesNotExist|Gt|Lt",
    ("V1LabelSelectorRequirement", "operator"): "In|NotIn|Exists|DoesNotExist",
    ("V1Toleration", "operator"): "Exists|Equal|Lt|Gt",
    ("V1Toleration", "effect"): "NoSchedule|PreferNoSchedule|NoExecute",
    ("V1Taint", "effect"): "NoSchedule|PreferNoSchedule|NoExecute",
    ("V1TopologySpreadConstraint", "whenUnsatisfiable"): "DoNotSchedule|ScheduleAnyway",
    ("V1TopologySpreadConstraint", "nodeAffinityPolicy"): "Honor|Ignore",
    ("V1TopologySpreadConstraint", "nodeTaintsPolicy"): "Honor|Ignore",
    ("V1PodSpec", "restartPolicy"): "Always|OnFailure|Never",
    ("V1PodSpec", "preemptionPolicy"): "PreemptLowerPriority|Never",
    ("V1PriorityClass", "preemptionPolicy"): "PreemptLowerPriority|Never",
    ("V1ContainerPort", "protocol"): "TCP|UDP|SCTP",
    ("V1StorageClass", "volumeBindingMode"): "Immediate|WaitForFirstConsumer",
    ("V1PersistentVolumeClaimSpec", "volumeMode"): "Filesystem|Block",
    ("V1PersistentVolumeSpec", "volumeMode"): "Filesystem|Block",
}
_LEAVES = {str: "string", int: "int", bool: "bool", float: "number", dt.datetime: "time"}


def fields() -> dict[str, object]:
    """``kinds`` names each kind's type; ``types`` has the fields of every type with their types."""
    described: dict[str, dict[str, str]] = {}
    kinds = {kind: _describe(model, described) for kind, model in ROOTS.items()}
    for name in CRDS:
        crd = yaml.safe_load((ROOT / "deploy" / "crds" / f"{name}.yaml").read_text())["spec"]
        kind = crd["names"]["kind"]
        (version,) = crd["versions"]
        kinds[kind] = _custom(kind, version["schema"]["openAPIV3Schema"], described)
        described[kind]["metadata"] = "V1ObjectMeta"
    return {"kinds": kinds, "types": dict(sorted(described.items()))}


def _describe(model: type[typing.Any], described: dict[str, dict[str, str]]) -> str:
    name = model.__name__
    if name in described:
        return name
    own = described[name] = {}
    for attribute, field in model.model_fields.items():
        alias = field.validation_alias
        wire = alias.choices[0] if alias is not None else attribute
        own[wire] = _typed(name, wire, _type(field.annotation, described))
    return name


def _typed(model: str, wire: str, kind: str) -> str:
    if (model, wire) in ENUMERATIONS:
        return ENUMERATIONS[model, wire]
    is_quantity = wire in QUANTITIES or wire in QUANTITIES_OF.get(model, ())
    if is_quantity or (wire in QUANTITY_MAPS and kind == "{string}"):
        return kind.replace("string", "quantity")
    return kind


def _type(hint: object, described: dict[str, dict[str, str]]) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(arguments[0], described)
    if origin in (typing.Union, types.UnionType):
        kinds = {_type(part, described) for part in arguments if part is not type(None)}
        return kinds.pop() if len(kinds) == 1 else "any"
    if origin is list:
        return f"[{_type(arguments[0], described)}]"
    if origin is dict:
        return f"{{{_type(arguments[1], described)}}}"
    if isinstance(hint, type) and hasattr(hint, "model_fields"):
        return _describe(hint, described)
    return _LEAVES.get(hint, "any") if isinstance(hint, type) else "any"


def _custom(path: str, schema: dict[str, typing.Any], described: dict[str, dict[str, str]]) -> str:
    """The type of ``schema``, the part of a CRD at ``path``; an object's has the path as name."""
    if "enum" in schema:
        return "|".join(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        # A pattern with a minus: the API server takes it, and the scheduler says what is wrong.
        return "any" if schema["pattern"].startswith(r"^(\+|-)") else "quantity"
    if "additionalProperties" in schema:
        return f"{{{_custom(path, schema['additionalProperties'], described)}}}"
    if "properties" in schema:
        own = described[path] = {}
        for name, part in schema["properties"].items():
            own[name] = _custom(f"{path}.{name}", part, described)
        return path
    if schema["type"] == "array":
        return f"[{_custom(path, schema['items'], described)}]"
    leaves = {"string": "string", "integer": "int", "boolean": "bool", "object": "any"}
    return "time" if schema.get("format") == "date-time" else leaves[schema["type"]]


def text() -> str:
    """The file's content."""
    return json.dumps(fields(), separators=(",", ":"), sort_keys=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
