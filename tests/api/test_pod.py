"""Pods as they come from the wire, and the shapes that siblings share."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bayplan.api import pod as pods
from bayplan.api.pod import Pod, PodShape, decode_pod
from bayplan.testing import PodBuilder, make_pod


def test_siblings_share_one_shape() -> None:
    def sibling(name: str) -> Pod:
        return make_pod(name).label("app", "web").owner("ReplicaSet", "rs").req(cpu="1").obj()

    one, two = sibling("a"), sibling("b")
    assert one.shape is two.shape
    assert one.spec is two.spec
    assert one.name != two.name
    assert one.shape is one.on_node("n1").shape


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda p: p.namespace("other"), id="namespace"),
        pytest.param(lambda p: p.label("x", "y"), id="labels"),
        pytest.param(lambda p: p.owner("ReplicaSet", "rs"), id="owner"),
        pytest.param(lambda p: p.priority(5), id="priority"),
        pytest.param(lambda p: p.req(memory="1"), id="requests"),
        pytest.param(lambda p: p.pvc("claim"), id="claim"),
        pytest.param(lambda p: p.spec(schedulerName="x"), id="scheduler"),
    ],
)
def test_whatever_scheduling_reads_makes_a_shape_of_its_own(other: Any) -> None:
    assert other(make_pod().req(cpu="1")).obj().shape is not make_pod().req(cpu="1").obj().shape


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda p: p.node("n1"), id="node"),
        pytest.param(lambda p: p.annotation("x", "y"), id="annotations"),
        pytest.param(lambda p: p.phase("Running"), id="status"),
        pytest.param(lambda p: p.volume(emptyDir={}), id="a volume that holds no place"),
        pytest.param(lambda p: p.spec(hostname="web-1"), id="a field that nobody reads"),
    ],
)
def test_what_siblings_differ_in_is_no_part_of_the_shape(other: Any) -> None:
    assert other(make_pod().req(cpu="1")).obj().shape is make_pod().req(cpu="1").obj().shape


def test_siblings_that_name_other_claims_share_one_shape_and_keep_their_names() -> None:
    def replica(number: int) -> Pod:
        pod = make_pod(f"db-{number}").pvc(f"data-{number}").volume(ephemeral={})
        return pod.volume(emptyDir={}).pvc(f"log-{number}", read_only=number > 0).obj()

    one, two = replica(0), replica(1)
    assert one.shape is two.shape
    assert one.claim_names == ("data-0", "log-0")
    assert two.on_node("n1").claim_names == ("data-1", "log-1")


def test_how_many_claims_a_pod_names_and_where_is_part_of_the_shape() -> None:
    claim, disk = {"persistentVolumeClaim": {"claimName": "c"}}, {"csi": {"driver": "d"}}
    orders = ([claim], [claim, claim], [claim, disk], [disk, claim])
    shapes = set()
    for sources in orders:
        pod = make_pod()
        for source in sources:
            pod.volume(**source)
        shapes.add(pod.obj().shape)
    assert len(shapes) == len(orders)


def test_a_shape_remembers_what_was_computed_from_it() -> None:
    asked: list[PodShape] = []

    def compute(shape: PodShape) -> str:
        asked.append(shape)
        return shape.namespace

    shape = make_pod().namespace("memo").obj().shape
    assert shape.memo(compute) == shape.memo(compute) == "memo"
    assert asked == [shape]


def test_the_table_of_shapes_starts_anew_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "MAX_SHAPES", 2)
    monkeypatch.setattr(PodShape, "_interned", {})
    first = make_pod().namespace("a").obj().shape
    assert make_pod().namespace("a").obj().shape is first
    make_pod().namespace("b").obj()
    make_pod().namespace("c").obj()
    assert make_pod().namespace("a").obj().shape is not first


def test_a_pod_as_the_pipeline_sees_it() -> None:
    pod = (
        make_pod("web-1")
        .namespace("shop")
        .uid("u1")
        .meta(resourceVersion="7", generation=3)
        .created("2026-01-02T03:04:05Z")
        .label("a", "b")
        .annotation("x", "y")
        .annotation(pods.DROPPED_ANNOTATION, "{}" * 1000)
        .owner("Job", "j", "batch/v1")
        .priority(9)
        .node("n1")
        .terminating()
        .obj()
    )
    assert (pod.key, pod.uid, pod.resource_version, pod.generation) == ("shop/web-1", "u1", "7", 3)
    assert pod.labels == {"a": "b"}
    assert pod.annotations == {"x": "y"}
    assert pod.controller == ("batch/v1/Job", "j")
    assert pod.priority == 9
    assert pod.created is not None
    assert pod.created.year == 2026
    assert pod.deleted is not None
    assert pod.node_name == "n1"
    assert not pod.terminal
    assert repr(pod) == "Pod(shop/web-1)"


def test_an_assigned_copy_leaves_the_original_alone() -> None:
    pod = make_pod().annotation("x", "y").obj()
    copy = pod.on_node("n1")
    assert (pod.node_name, copy.node_name) == ("", "n1")
    assert (copy.uid, copy.annotations) == (pod.uid, pod.annotations)


@pytest.mark.parametrize(
    ("phase", "terminal"),
    [("", False), ("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)],
)
def test_a_pod_has_ended_in_two_phases(phase: str, terminal: bool) -> None:
    assert make_pod().phase(phase).obj().terminal is terminal


def test_surprising_content_is_read_as_far_as_it_matters() -> None:
    pod = decode_pod(
        b'{"kind":"Pod","metadata":{"name":"p","namespace":"n","managedFields":[{}],'
        b'"ownerReferences":[{"kind":"X","name":"not-a-controller"}]},'
        b'"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":0.5,"memory":64}},'
        b'"new":{"field":[1]}}],"tolerations":[{"operator":"Exists"}],"futureField":{"a":1}}}'
    )
    assert pod.key == "n/p"
    assert pod.status.phase == ""
    assert pod.controller == ("", "")
    assert pod.annotations == {}
    assert pod.spec.tolerations[0].key == ""
    assert pod.spec.containers[0].resources.requests == {"cpu": 0.5, "memory": 64}


def test_two_hundred_containers_are_as_good_as_one() -> None:
    builder: PodBuilder = make_pod()
    for _ in range(200):
        builder.req(cpu="1m")
    assert len(builder.obj().spec.containers) == 200


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$.spec.priority"):
        decode_pod(b'{"metadata":{},"spec":{"priority":"high"}}')


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_what_pods_share_cannot_be_changed_by_a_plugin(field: str) -> None:
    pod = make_pod().label("app", "web").annotation("note", "x").obj()
    shared: Any = getattr(pod, field)
    before = dict(shared)
    for change in (
        lambda: shared.__setitem__("new", "x"),
        lambda: shared.update(new="x"),
        lambda: shared.pop(next(iter(before))),
        shared.clear,
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert shared == before
    assert json.loads(msgspec.json.encode(shared)) == before
