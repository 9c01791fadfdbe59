from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.kinds import CSI_NODE, KINDS, NODE, POD, Kind
from bayplan.api.meta import Object, Wire
from bayplan.framework.cluster_events import Action, ClusterEvent


@pytest.mark.parametrize(
    ("kind", "text", "read"),
    [
        pytest.param("CSINode", '{"spec":{"drivers":null}}', lambda o: o.spec.drivers, id="list"),
        pytest.param(
            "CSINode",
            '{"spec":{"drivers":[{"name":"d","topologyKeys":null}]}}',
            lambda o: o.spec.drivers[0].topology_keys,
            id="list-within-a-list",
        ),
        pytest.param(
            "Node",
            '{"status":{"images":[{"names":null,"sizeBytes":1}]}}',
            lambda o: o.status.images[0].names,
            id="names-of-an-image",
        ),
        pytest.param("Pod", '{"spec":{"containers":null}}', lambda o: o.spec.containers, id="pod"),
    ],
)
def test_null_is_an_empty_list(kind: Any, text: Any, read: Any) -> None:
    assert read(KINDS[kind].decode(text.encode())) == ()


def test_null_where_it_means_something_stays() -> None:
    text = b'{"spec":{"storageClassName":null}}'
    assert KINDS["PersistentVolumeClaim"].decode(text).spec.storage_class_name is None


def test_other_wrong_types_are_still_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$.spec.drivers"):
        KINDS["CSINode"].decode(b'{"spec":{"drivers":"d","more":null}}')


WIDGET = Kind.generic("example.com/v1", "Widget", "widgets", namespaced=True)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (POD.path(), "/api/v1/pods"),
        (POD.path("default"), "/api/v1/namespaces/default/pods"),
        (POD.path("default", "web"), "/api/v1/namespaces/default/pods/web"),
        (NODE.path(name="n1"), "/api/v1/nodes/n1"),
        (CSI_NODE.path(), "/apis/storage.k8s.io/v1/csinodes"),
        (WIDGET.path("a", "b"), "/apis/example.com/v1/namespaces/a/widgets/b"),
    ],
)
def test_a_kind_knows_where_its_objects_are(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        (NODE, "NodeAdd"),
        (CSI_NODE, "storage.k8s.io/CSINodeAdd"),
        (WIDGET, "widgets.v1.example.comAdd"),
    ],
)
def test_events_are_named_as_kube_scheduler_names_them(kind: Kind[Any], label: str) -> None:
    assert ClusterEvent(kind, Action.ADD).label == label


def test_a_generic_kind_is_the_same_wherever_it_is_declared() -> None:
    again = Kind.generic("example.com/v1", "Widget", "widgets", namespaced=True)
    other = Kind.generic("example.com/v2", "Widget", "widgets", namespaced=True)
    assert again is WIDGET
    assert other is not WIDGET


def test_a_generic_object_has_its_metadata_and_all_its_fields() -> None:
    metadata = {"name": "w", "namespace": "n", "labels": {"a": "b"}, "managedFields": [{}]}
    body = {"metadata": metadata, "spec": {"size": 3, "more": None}}
    widget = WIDGET.decode(msgspec.json.encode(body))
    assert (widget.key, widget.labels) == ("n/w", {"a": "b"})
    assert widget["spec"] == {"size": 3, "more": None}
    assert "managedFields" not in widget["metadata"]
    with pytest.raises(KeyError):
        widget["status"]


@pytest.mark.parametrize("body", [b"[]", b'{"metadata":{"name":1}}', b'{"metadata":"m"}'])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        WIDGET.decode(body)


class GadgetSpec(Wire, frozen=True):
    size: int = 0


class Gadget(Object, frozen=True):
    spec: GadgetSpec = GadgetSpec()


def test_a_kind_with_a_type_of_the_plugins_own_is_decoded_to_it() -> None:
    kind = Kind.of(Gadget, "example.com/v1", "gadgets", namespaced=False, optional=True)
    assert kind.name == "Gadget"
    assert kind.decode(b'{"metadata":{"name":"g"},"spec":{"size":2}}').spec.size == 2
