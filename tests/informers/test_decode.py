"""Pages and events: what they become, and what is not understood."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import structlog

from bayplan.api.kinds import NODE, POD
from bayplan.client import errors
from bayplan.informers.decode import MAX_NAMED, Event, Lines, ObjectDecoder


def pod(name: str, **spec: object) -> dict[str, object]:
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7"}
    return {"kind": "Pod", "metadata": meta, "spec": spec}


def line(type_: str, found: object, **dumps: Any) -> bytes:
    return json.dumps({"type": type_, "object": found}, **dumps).encode()


COMPACT = {"separators": (",", ":")}


@pytest.fixture
def decoder() -> ObjectDecoder:
    return ObjectDecoder(POD)


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize(
    "dumps", [pytest.param(COMPACT, id="as kube-apiserver writes"), pytest.param({}, id="spaced")]
)
def test_an_event_brings_its_object(
    decoder: ObjectDecoder, type_: str, dumps: dict[str, Any]
) -> None:
    event = decoder.event(line(type_, pod("web-1", nodeName="n1"), **dumps))
    assert (event.type, event.version) == (type_, "7")
    assert (event.object.key, event.object.node_name) == ("default/web-1", "n1")


def test_a_bookmark_brings_a_version(decoder: ObjectDecoder) -> None:
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "9"}, "spec": {"containers": None}}
    assert decoder.event(line("BOOKMARK", bookmark)) == Event("BOOKMARK", None, "9", False)


def test_the_bookmark_that_ends_the_initial_events_is_known(decoder: ObjectDecoder) -> None:
    meta = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    assert decoder.event(line("BOOKMARK", {"metadata": meta})) == Event("BOOKMARK", None, "9", True)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(line("ERROR", {"code": 410, "reason": "Expired"}), errors.Expired, id="410"),
        pytest.param(line("ERROR", {"code": 500}), errors.ServerError, id="500"),
        pytest.param(b"<html>", errors.ServerError, id="no JSON"),
        pytest.param(b'{"type":"ADDED"}', errors.ServerError, id="no object"),
        pytest.param(line("PATCHED", {}), errors.ServerError, id="unknown type"),
    ],
)
def test_an_event_that_is_an_error_is_raised(
    decoder: ObjectDecoder, data: bytes, expected: type[Any]
) -> None:
    with pytest.raises(expected):
        decoder.event(data)


def broken(name: str) -> dict[str, object]:
    return pod(name, containers="none")


@pytest.mark.parametrize("dumps", [COMPACT, {}], ids=["compact", "spaced"])
def test_an_object_that_is_not_understood_is_skipped_and_named_once(
    decoder: ObjectDecoder, dumps: dict[str, Any]
) -> None:
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            event = decoder.event(line("ADDED", broken("odd"), **dumps))
            assert (event.object, event.version) == (None, "7")
    assert decoder.undecodable == 3
    assert [log["object"] for log in logs] == ["default/odd"]


@pytest.mark.parametrize(
    ("found", "name"),
    [
        pytest.param({"metadata": {"name": 5}}, '{"metadata":{"name":5}}', id="name is no string"),
        pytest.param([], "[]", id="no object at all"),
        pytest.param({"metadata": {"name": "n"}, "spec": 5}, "n", id="no namespace"),
    ],
)
def test_even_an_object_without_a_name_is_logged(
    decoder: ObjectDecoder, found: dict[str, Any] | list[Any], name: str
) -> None:
    with structlog.testing.capture_logs() as logs:
        decoder.event(line("ADDED", found, **COMPACT))
    assert [log["object"] for log in logs] == [name]


def test_the_log_is_not_flooded(decoder: ObjectDecoder) -> None:
    with structlog.testing.capture_logs() as logs:
        for i in range(MAX_NAMED + 5):
            decoder.event(line("ADDED", broken(f"odd-{i}")))
    assert len(logs) == MAX_NAMED


@pytest.mark.parametrize(
    ("data", "version"),
    [
        pytest.param(line("ADDED", pod("a")), "7", id="object"),
        pytest.param(line("ADDED", broken("a")), "7", id="object that is not understood"),
        pytest.param(line("BOOKMARK", {"metadata": {"resourceVersion": "9"}}), "9", id="bookmark"),
        pytest.param(line("ADDED", {}), "", id="no metadata"),
    ],
)
def test_the_version_is_read_from_any_event(
    decoder: ObjectDecoder, data: bytes, version: str
) -> None:
    assert decoder.event(data).version == version


def test_a_page_brings_objects_version_and_whether_there_is_more(decoder: ObjectDecoder) -> None:
    meta = {"resourceVersion": "5", "continue": "next"}
    body = {"metadata": meta, "items": [pod("a"), broken("odd"), pod("b")]}
    page = decoder.page(json.dumps(body).encode())
    assert [o.name for o in page.objects] == ["a", "b"]
    assert (page.version, page.continue_) == ("5", "next")


def test_a_page_without_items_is_empty() -> None:
    page = ObjectDecoder(NODE).page(b'{"metadata":{},"items":null}')
    assert page.objects == []


def test_a_page_that_is_no_list_is_the_servers_fault(decoder: ObjectDecoder) -> None:
    with pytest.raises(errors.ServerError, match="the list of Pod"):
        decoder.page(b"<html>")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_cut_wherever_the_chunks_end(size: int) -> None:
    data = b'{"a":1}\n{"b":2}\n\n{"c":3}\n{"d'
    lines = Lines()
    found: list[bytes] = []
    for i in range(0, len(data), size):
        found += lines.feed(data[i : i + size])
    assert [msgspec.json.decode(f) for f in found] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_an_error_event_that_is_no_status_is_the_servers_fault(decoder: ObjectDecoder) -> None:
    with pytest.raises(errors.ServerError, match="teapot"):
        decoder.event(line("ERROR", "teapot"))
