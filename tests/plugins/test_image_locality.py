from __future__ import annotations

import numpy as np
import pytest
from tests.handles import make_handle
from tests.plugins.harness import make, scored, table_of

from bayplan.cache.node_table import LiveNodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.image_locality import ImageLocality
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

MB = 1024 * 1024


def make_for(nodes: LiveNodeTable) -> ImageLocality:
    return make(ImageLocality, make_handle(nodes))


def with_images(name: str, **megabytes: int) -> NodeBuilder:
    node = make_node(name)
    for image, size in megabytes.items():
        node.image(size * MB, f"gcr.io/{image}:latest", f"gcr.io/{image}:v1")
    return node


NODES = (
    with_images("a", i40=40, i300=300, i2000=2000),
    with_images("b", i250=250, i10=10),
    with_images("c"),
    with_images("d", i300=300),
)


def score(megabytes: float, containers: int) -> int:
    """The documented formula, in exact integers."""
    low, high = 23 * MB, 1000 * MB * containers
    return 100 * (min(max(int(megabytes * MB), low), high) - low) // (high - low)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod().image("gcr.io/none"), [0, 0, 0, 0], id="nobody-has-it"),
        pytest.param(
            make_pod().image("gcr.io/i250"), [0, score(62.5, 1), 0, 0], id="one-of-four-nodes"
        ),
        pytest.param(
            make_pod().image("gcr.io/i300:v1"),
            [score(150, 1), 0, 0, score(150, 1)],
            id="two-of-four-nodes",
        ),
        pytest.param(
            make_pod().image("gcr.io/i40", "gcr.io/i2000"),
            [score(510, 2), 0, 0, 0],
            id="two-containers-add-up",
        ),
        pytest.param(
            make_pod().image("gcr.io/i2000").init_container(image="gcr.io/i2000"),
            [score(1000, 2), 0, 0, 0],
            id="init-containers-count",
        ),
        pytest.param(
            make_pod().image("gcr.io/none").volume(image={"reference": "gcr.io/i2000"}),
            [score(500, 2), 0, 0, 0],
            id="image-volumes-count",
        ),
        pytest.param(make_pod().image("gcr.io/i10"), [0, 0, 0, 0], id="below-the-threshold"),
    ],
)
def test_nodes_that_have_the_images_score_by_size_and_spread(
    pod: PodBuilder, expected: list[int]
) -> None:
    nodes = table_of(*NODES)
    scores = scored(make_for(nodes), pod.obj(), nodes)
    assert scores == dict(zip("abcd", expected, strict=True))


def test_a_score_is_at_most_100() -> None:
    nodes = table_of(with_images("a", huge=90_000))
    assert scored(make_for(nodes), make_pod().image("gcr.io/huge").obj(), nodes) == {"a": 100}


@pytest.mark.parametrize("image", ["gcr.io/i300", "gcr.io/i300:latest"], ids=["no-tag", "latest"])
def test_an_image_without_a_tag_is_the_latest(image: str) -> None:
    nodes = table_of(with_images("a", i300=300))
    assert scored(make_for(nodes), make_pod().image(image).obj(), nodes) == {"a": score(300, 1)}


def test_a_port_in_the_registry_is_no_tag() -> None:
    nodes = table_of(make_node("a").image(300 * MB, "registry:5000/x:latest"))
    pod = make_pod().image("registry:5000/x").obj()
    assert scored(make_for(nodes), pod, nodes) == {"a": score(300, 1)}


def test_scores_follow_nodes_that_come_change_and_go() -> None:
    nodes = table_of(with_images("a", i300=300))
    plugin, pod = make_for(nodes), make_pod().image("gcr.io/i300").obj()
    assert scored(plugin, pod, nodes) == {"a": score(300, 1)}
    nodes.set_node(with_images("b").obj())
    assert scored(plugin, pod, nodes) == {"a": score(150, 1), "b": 0}
    nodes.set_node(with_images("b", i300=300).obj())
    assert scored(plugin, pod, nodes) == {"a": score(300, 1), "b": score(300, 1)}
    nodes.remove_node("a")
    assert scored(plugin, pod, nodes) == {"b": score(300, 1)}


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        pytest.param(make_node("b"), True, id="a-node-more"),
        pytest.param(with_images("a", other=300), True, id="the-image-went"),
        pytest.param(with_images("a", i300=300).label("x", "y"), False, id="a-label"),
    ],
)
def test_the_epoch_changes_with_the_spread_of_the_images(
    change: NodeBuilder, differs: bool
) -> None:
    nodes = table_of(with_images("a", i300=300))
    plugin, pod = make_for(nodes), make_pod().image("gcr.io/i300").obj()
    before = plugin.epoch(pod)
    nodes.set_node(change.obj())
    assert (plugin.epoch(pod) != before) is differs


def test_some_rows_score_as_they_do_in_the_full_table() -> None:
    nodes = table_of(*NODES)
    plugin, pod = make_for(nodes), make_pod().image("gcr.io/i300").obj()
    full = plugin.score_nodes(CycleState(), pod, nodes)
    rows = np.array([3, 1])
    some = plugin.score_nodes(CycleState(), pod, nodes.take(rows))
    assert some.tolist() == full[rows].tolist()


def test_scores_have_a_row_for_every_row_of_a_table_that_grew() -> None:
    nodes = table_of(with_images("a", i300=300))
    plugin, pod = make_for(nodes), make_pod().image("gcr.io/i300").obj()
    scored(plugin, pod, nodes)
    nodes.reserve(1000)
    assert scored(plugin, pod, nodes) == {"a": score(300, 1)}


def test_the_size_that_was_seen_first_counts_for_all_nodes() -> None:
    nodes = table_of(with_images("a", x=300), with_images("b", x=700))
    scores = scored(make_for(nodes), make_pod().image("gcr.io/x").obj(), nodes)
    assert scores == {"a": score(300, 1), "b": score(300, 1)}
