from __future__ import annotations

import pytest
from tests.plugins.harness import PluginWorld

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.volume_binding import VolumeBinding
from bayplan.testing import (
    make_csi_driver,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_capacity,
    make_storage_class,
)
from bayplan.testing.storage import ClaimBuilder, VolumeBuilder

FULLER = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
BENT = [
    {"utilization": 20, "score": 10},
    {"utilization": 50, "score": 0},
    {"utilization": 80, "score": 7},
]


def world() -> PluginWorld:
    nodes = (make_node(zone).label("zone", zone) for zone in "abc")
    return PluginWorld(*nodes).add(make_storage_class("wait"), make_storage_class("fast"))


def volume(name: str, size: str, zone: str, storage_class: str = "wait") -> VolumeBuilder:
    return make_pv(name).storage_class(storage_class).capacity(size).on("zone", zone)


def claim(name: str, size: str, storage_class: str = "wait") -> ClaimBuilder:
    return make_pvc(name).storage_class(storage_class).size(size)


def scores(w: PluginWorld, pod: Pod, shape: list[dict[str, int]] = FULLER) -> dict[str, int]:
    plugin = w.make(VolumeBinding, shape=shape)
    state = w.state(plugin, pod)
    assert plugin.pre_score(state, pod, w.nodes, w.nodes.exists) is None
    plugin.filter_nodes(state, pod, w.nodes)
    found = plugin.score_nodes(state, pod, w.nodes)
    return {info.name: int(found[info.row]) for info in w.nodes}


def test_a_pod_without_claims_scores_0_everywhere() -> None:
    w = world()
    plugin, state, pod = w.make(VolumeBinding), CycleState(), make_pod().obj()
    assert plugin.pre_filter(state, pod, w.nodes) is SKIP
    state.skip_filter.add(plugin.name)
    assert plugin.pre_score(state, pod, w.nodes, w.nodes.exists) is None
    assert plugin.score_nodes(state, pod, w.nodes) is None


def test_a_profile_without_its_pre_filter_cannot_score() -> None:
    w = world()
    status = w.make(VolumeBinding).pre_score(
        CycleState(), make_pod().obj(), w.nodes, w.nodes.exists
    )
    assert status == Status.error("not found")
    with pytest.raises(MissingStateError, match=r"^not found$"):
        w.make(VolumeBinding).score_nodes(CycleState(), make_pod().obj(), w.nodes)


def test_a_profile_without_its_filter_scores_nothing() -> None:
    w = world().add(volume("va", "4Gi", "a"), claim("x", "4Gi"))
    plugin, pod = w.make(VolumeBinding), make_pod().pvc("x").obj()
    state = w.state(plugin, pod)
    assert plugin.pre_score(state, pod, w.nodes, w.nodes.exists) is None
    assert plugin.score_nodes(state, pod, w.nodes) is None


def test_emptier_nodes_are_better_by_default() -> None:
    w = world().add(volume("va", "4Gi", "a"), volume("vb", "8Gi", "b"), claim("x", "4Gi"))
    plugin = w.make(VolumeBinding)
    state = w.state(plugin, make_pod().pvc("x").obj())
    plugin.filter_nodes(state, make_pod().pvc("x").obj(), w.nodes)
    found = plugin.score_nodes(state, make_pod().pvc("x").obj(), w.nodes)
    assert {info.name: int(found[info.row]) for info in w.nodes} == {"a": 0, "b": 50, "c": 0}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param(FULLER, {"a": 100, "b": 50, "c": 0}, id="fuller-is-better"),
        pytest.param(BENT, {"a": 70, "b": 0, "c": 0}, id="outside-the-shape-its-ends-hold"),
        pytest.param([{"utilization": 0, "score": 3}], {"a": 30, "b": 30, "c": 0}, id="one-point"),
        pytest.param(BENT[:2], {"a": 0, "b": 0, "c": 0}, id="end-of-the-shape"),
    ],
)
def test_utilization_of_existing_volumes(
    shape: list[dict[str, int]], expected: dict[str, int]
) -> None:
    w = world().add(claim("c", "50Gi"), volume("va", "50Gi", "a"), volume("vb", "100Gi", "b"))
    assert scores(w, make_pod().pvc("c").obj(), shape) == expected


def test_volumes_of_one_class_are_summed_up_and_classes_averaged() -> None:
    w = world().add(claim("c1", "50Gi"), claim("c2", "100Gi"), claim("c3", "10Gi", "fast"))
    w.add(volume("va1", "50Gi", "a"), volume("va2", "150Gi", "a"))
    w.add(volume("va3", "40Gi", "a", "fast"))
    pod = make_pod().pvc("c1").pvc("c2").pvc("c3").obj()
    assert scores(w, pod) == {"a": (75 + 25) // 2, "b": 0, "c": 0}


def test_a_mean_is_rounded_half_up() -> None:
    w = world().add(claim("c1", "50Gi"), claim("c2", "51Gi", "fast"))
    w.add(volume("v1", "100Gi", "a"), volume("v2", "100Gi", "a", "fast"))
    assert scores(w, make_pod().pvc("c1").pvc("c2").obj())["a"] == 51


@pytest.mark.parametrize(
    ("utilization", "expected"),
    [(10, 100), (20, 100), (30, 67), (35, 50), (49, 4), (50, 0), (51, 2), (80, 70), (99, 70)],
)
def test_points_in_between_are_truncated_towards_the_left_one(
    utilization: int, expected: int
) -> None:
    w = world().add(claim("c", f"{utilization}"), volume("v", "100", "a"))
    assert scores(w, make_pod().pvc("c").obj(), BENT)["a"] == expected


def test_volumes_to_be_made_are_judged_by_what_the_driver_has_left() -> None:
    w = world().add(claim("c1", "10Gi"), claim("c2", "20Gi"), make_csi_driver().storage_capacity())
    w.add(make_storage_capacity("a").of("wait", "100Gi").on(zone="a"))
    w.add(make_storage_capacity("b").of("wait", "60Gi").on(zone="b"))
    w.add(make_storage_capacity("c").of("wait", None, maximumVolumeSize="60Gi").on(zone="c"))
    assert scores(w, make_pod().pvc("c1").pvc("c2").obj()) == {"a": 30, "b": 50, "c": 100}


def test_an_existing_volume_goes_before_those_to_be_made() -> None:
    w = world().add(claim("c1", "10Gi"), claim("c2", "20Gi"), make_csi_driver().storage_capacity())
    w.add(make_storage_capacity("a").of("wait", "100Gi").on(), volume("v", "20Gi", "a"))
    assert scores(w, make_pod().pvc("c1").pvc("c2").obj()) == {"a": 50, "b": 30, "c": 30}
