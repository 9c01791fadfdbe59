from __future__ import annotations

import msgspec
import pytest

from bayplan.api.kinds import KINDS


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
def test_null_is_an_empty_list(kind, text, read):
    assert read(KINDS[kind].decode(text.encode())) == ()


def test_null_where_it_means_something_stays():
    text = b'{"spec":{"storageClassName":null}}'
    assert KINDS["PersistentVolumeClaim"].decode(text).spec.storage_class_name is None


def test_other_wrong_types_are_still_refused():
    with pytest.raises(msgspec.ValidationError, match=r"\$.spec.drivers"):
        KINDS["CSINode"].decode(b'{"spec":{"drivers":"d","more":null}}')
