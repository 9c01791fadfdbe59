from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.simulation.support import entry

from bayplan.api.kinds import NAMESPACE, PERSISTENT_VOLUME_CLAIM
from bayplan.simulation.admission import (
    PodAdmission,
    add_implied_namespaces,
    admit_claims,
    by_kind,
)
from bayplan.simulation.files import Entry, Notes

NOT_READY, UNREACHABLE = (
    {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for condition in ("not-ready", "unreachable")
)


def admitted(pod: dict[str, dict[str, Any]], *others: str) -> tuple[Entry, list[str]]:
    """The Pod after admission, and the notes about it."""
    notes = Notes("f")
    objects = by_kind(entry(text) for text in others)
    found = entry(yaml.safe_dump({"kind": "Pod", "metadata": {"name": "p"}, **pod}))
    PodAdmission(objects, notes).admit(found)
    return found, notes.lines()


def priority_class(name: str, value: int, **more: bool | str) -> str:
    data = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}
    return yaml.safe_dump(data)


CLASSES = (
    priority_class("low", 1, globalDefault=True),
    priority_class("lower", -1, globalDefault=True),
    priority_class("high", 9, preemptionPolicy="Never"),
)


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({}, (), (0, "PreemptLowerPriority"), id="no-class"),
        pytest.param({}, CLASSES, (-1, "PreemptLowerPriority"), id="lowest-global-default"),
        pytest.param({"priorityClassName": "high"}, CLASSES, (9, "Never"), id="named"),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            (),
            (2000001000, "PreemptLowerPriority"),
            id="system",
        ),
        pytest.param(
            {
                "priorityClassName": "high",
                "priority": 3,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            CLASSES,
            (3, "PreemptLowerPriority"),
            id="set-already",
        ),
        pytest.param(
            {"priorityClassName": "gone", "priority": 3},
            (),
            (3, "PreemptLowerPriority"),
            id="class-gone",
        ),
    ],
)
def test_the_priority_class_gives_priority_and_preemption_policy(
    spec: dict[str, Any], classes: tuple[str, ...], expected: tuple[int, str]
) -> None:
    pod, notes = admitted({"spec": spec}, *classes)
    assert (pod.spec["priority"], pod.spec["preemptionPolicy"]) == expected
    assert notes == []


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        pytest.param(
            {"priorityClassName": "gone"},
            "f: Pod p: spec.priorityClassName: there is no PriorityClass gone, "
            "the priority counts as 0",
            id="priority",
        ),
        pytest.param(
            {"runtimeClassName": "gone"},
            "f: Pod p: spec.runtimeClassName: there is no RuntimeClass gone, "
            "its overhead counts as none",
            id="runtime",
        ),
    ],
)
def test_a_class_that_is_not_there_is_noted(spec: dict[str, str], note: str) -> None:
    _, notes = admitted({"spec": spec})
    assert notes == [note]


RUNTIME = """
kind: RuntimeClass
metadata: {name: r}
overhead: {podFixed: {cpu: 1}}
scheduling:
  nodeSelector: {a: runtime, b: runtime}
  tolerations: [{key: k, operator: Exists, tolerationSeconds: 1}, {key: l, operator: Exists}]
"""


def test_the_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    own = {"key": "k", "operator": "Exists", "tolerationSeconds": 2}
    spec = {"runtimeClassName": "r", "nodeSelector": {"b": "pod"}, "tolerations": [own]}
    pod, _ = admitted({"spec": spec}, RUNTIME)
    assert pod.spec["overhead"] == {"cpu": 1}
    assert pod.spec["nodeSelector"] == {"a": "runtime", "b": "pod"}
    assert pod.spec["tolerations"][:2] == [own, {"key": "l", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("spec", "overhead"),
    [
        pytest.param({"runtimeClassName": "r", "overhead": {"cpu": 2}}, {"cpu": 2}, id="given"),
        pytest.param({"runtimeClassName": "plain"}, None, id="class-without"),
        pytest.param({}, None, id="no-class"),
    ],
)
def test_overhead_comes_only_from_a_class_that_has_it(
    spec: dict[str, Any], overhead: dict[str, int] | None
) -> None:
    pod, _ = admitted({"spec": spec}, RUNTIME, "{kind: RuntimeClass, metadata: {name: plain}}")
    assert pod.spec.get("overhead") == overhead


@pytest.mark.parametrize(
    ("own", "added"),
    [
        pytest.param([], [NOT_READY, UNREACHABLE], id="none"),
        pytest.param([{"operator": "Exists"}], [], id="everything"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE], id="effect"
        ),
        pytest.param([NOT_READY], [UNREACHABLE], id="one-of-them"),
    ],
)
def test_nodes_that_are_not_ready_are_tolerated_for_five_minutes(
    own: list[dict[str, Any]], added: list[dict[str, Any]]
) -> None:
    pod, _ = admitted({"spec": {"tolerations": own}})
    assert pod.spec["tolerations"] == [*own, *added]


LABELS = {"app": "web", "rev": "2"}
IN_REV = {"key": "rev", "operator": "In", "values": ["2"]}
NOT_IN_APP = {"key": "app", "operator": "NotIn", "values": ["web"]}


@pytest.mark.parametrize(
    ("term", "expressions"),
    [
        pytest.param({"matchLabelKeys": ["rev"]}, [IN_REV], id="match"),
        pytest.param({"mismatchLabelKeys": ["app"]}, [NOT_IN_APP], id="mismatch"),
        pytest.param({"matchLabelKeys": ["none"]}, None, id="label-not-there"),
        pytest.param(
            {"matchLabelKeys": ["rev"], "labelSelector": {"matchExpressions": [IN_REV]}},
            [IN_REV],
            id="merged-already",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
def test_label_keys_are_merged_into_selectors_of_affinity(
    term: dict[str, Any], expressions: list[dict[str, Any]] | None, kind: str, required: bool
) -> None:
    term = {"labelSelector": {}, "topologyKey": "zone", **term}
    if required:
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    else:
        weighted = [{"weight": 1, "podAffinityTerm": term}]
        terms = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    pod, _ = admitted(
        {"metadata": {"name": "p", "labels": LABELS}, "spec": {"affinity": {kind: terms}}}
    )
    (found,) = next(iter(pod.spec["affinity"][kind].values()))
    found = found if required else found["podAffinityTerm"]
    assert found["labelSelector"].get("matchExpressions") == expressions


@pytest.mark.parametrize(
    ("constraint", "selector"),
    [
        pytest.param(
            {"matchLabelKeys": ["rev"], "labelSelector": {}},
            {"matchExpressions": [IN_REV]},
            id="merged",
        ),
        pytest.param({"matchLabelKeys": ["rev"]}, None, id="no-selector"),
    ],
)
def test_label_keys_are_merged_into_selectors_of_spreading(
    constraint: dict[str, list[str]], selector: dict[str, Any] | None
) -> None:
    spec = {"topologySpreadConstraints": [constraint]}
    pod, _ = admitted({"metadata": {"name": "p", "labels": LABELS}, "spec": spec})
    assert pod.spec["topologySpreadConstraints"][0].get("labelSelector") == selector


def storage_class(name: str, created: str | None = None, default: str = "true") -> str:
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    meta = {"name": name, "annotations": annotations}
    if created:
        meta["creationTimestamp"] = created
    return yaml.safe_dump({"kind": "StorageClass", "metadata": meta})


CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}


@pytest.mark.parametrize(
    ("claim", "classes", "expected"),
    [
        pytest.param(CLAIM, [storage_class("a", default="false")], None, id="no-default"),
        pytest.param(CLAIM, [storage_class("a")], "a", id="default"),
        pytest.param(
            CLAIM,
            [
                storage_class("a", "2026-01-01T00:00:00Z"),
                storage_class("b", "2026-02-01T00:00:00Z"),
            ],
            "b",
            id="newest",
        ),
        pytest.param(CLAIM, [storage_class("b"), storage_class("a")], "a", id="first-by-name"),
        pytest.param(
            {**CLAIM, "spec": {"storageClassName": ""}}, [storage_class("a")], "", id="none-wanted"
        ),
        pytest.param(
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": "c",
                    "annotations": {"volume.beta.kubernetes.io/storage-class": "x"},
                },
            },
            [storage_class("a")],
            None,
            id="annotated",
        ),
    ],
)
def test_claims_that_leave_their_class_open_get_the_default(
    claim: dict[str, Any], classes: list[str], expected: str | None
) -> None:
    objects = by_kind([entry(yaml.safe_dump(claim)), *(entry(text) for text in classes)])
    admit_claims(objects)
    assert objects[PERSISTENT_VOLUME_CLAIM][0].spec.get("storageClassName") == expected


def test_a_namespace_that_is_named_exists() -> None:
    objects = by_kind(
        entry(text)
        for text in (
            "{kind: Namespace, metadata: {name: given, labels: {a: b}}}",
            "{kind: Pod, metadata: {name: p, namespace: given}}",
            "{kind: Service, metadata: {name: s, namespace: named}}",
            "{kind: Node, metadata: {name: n}}",
        )
    )
    add_implied_namespaces(objects)
    assert [space.meta.get("labels") for space in objects[NAMESPACE]] == [{"a": "b"}, None]
    assert objects[NAMESPACE][1].name == "named"
