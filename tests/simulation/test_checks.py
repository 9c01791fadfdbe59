from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
from tests.simulation.support import entry

import bayplan
from bayplan.simulation.admission import by_kind
from bayplan.simulation.checks import OWN_KEYS, note_dangling, usable, well_formed
from bayplan.simulation.file_kinds import READABLE
from bayplan.simulation.files import Entry, Notes, Readable, read_entries

PVC = "kind: PersistentVolumeClaim\nmetadata: {name: c}\n"


def usable_of(*texts: str) -> tuple[list[Entry], list[str]]:
    notes = Notes("f")
    entries = well_formed([entry(text) for text in texts], notes)
    return list(usable(entries, notes)), notes.lines()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param("{kind: Pod}", "Pod: metadata.name: is missing", id="no-name"),
        pytest.param(
            "{kind: Node, metadata: {generateName: x-}}",
            "Node: metadata.name: is missing",
            id="generated-name",
        ),
        pytest.param(
            "{kind: Pod, metadata: 3}", "Pod: metadata: Expected `object`, got `int`", id="metadata"
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: p, namespace: n}, "
            "spec: {containers: [{ports: [{hostPort: x}]}]}}",
            "Pod n/p: spec.containers[0].ports[0].hostPort: Expected `int`, got `str`",
            id="type",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: p}, spec: {runtimeClassName: 3}}",
            "Pod p: spec.runtimeClassName: Expected `str`, got `int`",
            id="field-that-admission-alone-reads",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: p}, "
            "spec: {containers: [{resources: {limits: {cpu: 1x}}}]}}",
            "Pod p: spec.containers[0].resources.limits.cpu: '1x' is not a quantity "
            "(examples: 500m, 2, 1.5Gi, 1e3)",
            id="quantity",
        ),
        pytest.param(
            "{kind: CSIStorageCapacity, metadata: {name: s}, maximumVolumeSize: much}",
            "CSIStorageCapacity s: maximumVolumeSize: 'much' is not a quantity "
            "(examples: 500m, 2, 1.5Gi, 1e3)",
            id="quantity-by-itself",
        ),
        pytest.param(
            "{kind: Node, metadata: {name: n}, "
            "status: {images: [{sizeBytes: 99999999999999999999}]}}",
            "Node n: status.images[0].sizeBytes: is beyond 64 bits",
            id="too-large",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: p}, spec: {tolerations: [{operator: Exist}]}}",
            "Pod p: spec.tolerations[0].operator: 'Exist' is none of Exists, Equal, Lt, Gt",
            id="enumeration",
        ),
        pytest.param(
            "{kind: Node, metadata: {name: n}, status: {allocatable: {cpu: -1}}}",
            "Node n: status.allocatable.cpu: -1 is negative",
            id="negative",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: p}, status: {startTime: '2026-01-01T00:00:00'}}",
            "Pod p: status.startTime: '2026-01-01T00:00:00' has no time zone",
            id="time-without-zone",
        ),
        pytest.param(
            "{kind: RuntimeClass, metadata: {name: r}, overhead: {podFixed: 3}}",
            "RuntimeClass r: overhead.podFixed: Expected `object`, got `int`",
            id="kind-that-admission-alone-reads",
        ),
    ],
)
def test_an_object_that_cannot_be_used_is_left_out_by_name_and_field(text: str, note: str) -> None:
    found, notes = usable_of(text)
    assert found == []
    assert len(notes) == 1
    assert note in notes[0]
    assert notes[0].endswith("; left out")


def test_of_two_objects_of_one_name_the_first_counts() -> None:
    found, notes = usable_of(
        "{kind: Pod, metadata: {name: p}, spec: {nodeName: n1}}",
        "{kind: Pod, metadata: {name: p, namespace: default}, spec: {nodeName: n2}}",
        "{kind: Pod, metadata: {name: p, namespace: other}}",
    )
    assert [(pod.key, pod.spec.get("nodeName")) for pod in found] == [
        ("default/p", "n1"),
        ("other/p", None),
    ]
    assert notes == ["f: second Pod default/p; left out"]


def test_every_object_gets_a_uid_of_its_own() -> None:
    found, notes = usable_of(
        "{kind: Pod, metadata: {name: a, uid: u}}",
        "{kind: Pod, metadata: {name: b, uid: u}}",
        "{kind: Pod, metadata: {name: c}}",
    )
    assert [pod.meta["uid"] for pod in found] == ["u", "Pod-default/b", "Pod-default/c"]
    assert notes == ["f: Pod default/b: metadata.uid: is another object's; it gets a new one"]


def test_only_namespaced_kinds_have_a_namespace() -> None:
    found, _ = usable_of(
        "{kind: Node, metadata: {name: n, namespace: x}}", "{kind: Service, metadata: {name: s}}"
    )
    assert [item.key for item in found] == ["n", "default/s"]


@pytest.mark.parametrize(
    ("objects", "notes"),
    [
        pytest.param(
            [f"{PVC}spec: {{volumeName: v}}"],
            [
                "f: PersistentVolumeClaim c: spec.volumeName: there is no PersistentVolume v, "
                "no Pod can use the claim"
            ],
            id="claim-without-its-volume",
        ),
        pytest.param(
            [f"{PVC}spec: {{volumeName: v}}", "{kind: PersistentVolume, metadata: {name: v}}"],
            [],
            id="claim-with-its-volume",
        ),
        pytest.param(
            [f"{PVC}status: {{phase: Bound}}"],
            ["f: PersistentVolumeClaim c: spec.volumeName: is missing in a bound claim"],
            id="bound-to-nothing",
        ),
        pytest.param([PVC], [], id="not-bound-yet"),
        pytest.param(
            ["{kind: Pod, metadata: {name: p}, spec: {nodeName: n}}"],
            ["f: Pod p: spec.nodeName: there is no Node n, the Pod counts nowhere"],
            id="pod-on-no-node",
        ),
        pytest.param(
            [
                "{kind: Pod, metadata: {name: p}, spec: {nodeName: n}}",
                "{kind: Node, metadata: {name: n}}",
            ],
            [],
            id="pod-on-a-node",
        ),
    ],
)
def test_references_to_what_is_not_there_are_noted(objects: list[str], notes: list[str]) -> None:
    told = Notes("f")
    note_dangling(by_kind(entry(text) for text in objects), told)
    assert told.lines() == notes


def test_checking_changes_nothing_but_metadata() -> None:
    text = "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
    (found,), _ = usable_of(text)
    assert found.spec == copy.deepcopy(entry(text).spec)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param(
            "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nspec: {minMembers: 3}",
            'PodGroup a: spec.minMembers: unknown field, is "minMember" meant?',
            id="group",
        ),
        pytest.param(
            "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\n"
            "spec: {schedulingPolicy: {gang: {minMember: 3}}}",
            "PodGroup a: spec.schedulingPolicy.gang.minMember: unknown field",
            id="group-of-kubernetes",
        ),
        pytest.param(
            "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: ElasticQuota\nspec: {mins: {cpu: 1}}",
            'ElasticQuota a: spec.mins: unknown field, is "min" meant?',
            id="quota",
        ),
        pytest.param(
            "apiVersion: bayplan.dev/v1alpha1\nkind: Queue\nspec: {guaranted: {cpu: 1}}",
            'Queue a: spec.guaranted: unknown field, is "guaranteed" meant?',
            id="queue",
        ),
        pytest.param(
            "apiVersion: bayplan.dev/v1alpha1\nkind: Queue\nspec: {limit: {cpu: -1}}",
            "Queue a: spec.limit.cpu: -1 is negative; left out",
            id="negative-limit",
        ),
        pytest.param(
            "apiVersion: bayplan.dev/v1alpha1\nkind: Queue\nspec: {order: Lifo}",
            "Queue a: spec.order: 'Lifo' is none of Fair, Fifo; left out",
            id="order",
        ),
    ],
)
def test_custom_resources_are_checked_like_the_rest(text: str, note: str) -> None:
    notes = Notes("f")
    read = read_entries(f"{text}\nmetadata: {{name: a}}", Readable(READABLE), notes)
    list(well_formed(read, notes))
    (line,) = notes.lines()
    assert line.partition("): ")[2].startswith(note)


def test_pods_with_a_generated_name_are_numbered() -> None:
    pods = [entry("{kind: Pod, metadata: {generateName: x-}}") for _ in range(2)]
    assert [pod.name for pod in well_formed(pods, Notes())] == ["x-0", "x-1"]


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_key_of_our_own_that_nobody_reads_is_noted_with_the_one_that_was_meant(part: str) -> None:
    keys = "{bayplan.dev/requierd-topology: rack, other/x: y, bayplan.dev/sub-group: a}"
    text = f"{{kind: Pod, metadata: {{name: p, {part}: {keys}}}}}"
    _, notes = usable_of(text)
    meant = 'is "bayplan.dev/required-topology" meant?'
    wrong = "bayplan.dev/requierd-topology: bayplan reads no such key"
    assert notes == [f"f: Pod p: metadata.{part}.{wrong}, {meant}"]


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("Pod", '"false"', False),
        ("Pod", '"true"', False),
        ("Pod", '"no"', True),
        ("PriorityClass", '"False"', True),
    ],
)
def test_a_value_of_a_label_that_means_nothing_is_noted(kind: str, value: str, says: bool) -> None:
    text = f"{{kind: {kind}, metadata: {{name: p, labels: {{bayplan.dev/preemptible: {value}}}}}}}"
    _, notes = usable_of(text)
    shown = value.replace('"', "'")
    wrong = f"metadata.labels.bayplan.dev/preemptible: {shown} means nothing, 'true' and 'false' do"
    assert notes == ([f"f: {kind} p: {wrong}"] if says else [])


def test_every_key_of_our_own_that_the_code_names_is_known() -> None:
    source = Path(bayplan.__file__).parent
    named = {
        key
        for path in source.rglob("*.py")
        for key in re.findall(r"bayplan\.dev/[a-z-]{2,}", path.read_text())
    }
    # Those on Leases and ProvisioningRequests, which are not read from files.
    names = ("moves", "moved", "rooms", "demand", "try", "group-uid")
    written = {f"bayplan.dev/{name}" for name in names}
    preemptible = {"bayplan.dev/preemptible"}
    assert named - written - preemptible == {*OWN_KEYS} - preemptible
