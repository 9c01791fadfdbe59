"""All Pods that run, placed anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import FACTOR
from tests.simulation.support import write
from typer.testing import CliRunner

from bayplan.cli.app import app
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets up logging for its process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def _node(name: str, price: str = "") -> NodeBuilder:
    node = make_node(name).capacity(cpu="4", memory="16Gi", pods="20")
    return node.annotation("bayplan.dev/hourly-price", price) if price else node


def _pod(name: str, node: str, owner: str = "ReplicaSet") -> PodBuilder:
    pod = make_pod(name).req(cpu="1", memory="1Gi").node(node)
    return pod.owner(owner, "web") if owner else pod


def _replanned(folder: Path, *objects: NodeBuilder | PodBuilder, config: Path | None = None) -> Any:
    file = write(folder, *({"kind": o.kind.name, "apiVersion": "v1", **o.json} for o in objects))
    arguments = ["simulate", "-f", str(file), "--replan", "-o", "json"]
    if config is not None:
        arguments += ["--config", str(config)]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    return msgspec.json.decode(ran.stdout)


def test_pods_are_spread_that_were_packed(tmp_path: Path) -> None:
    answer = _replanned(tmp_path, _node("a"), _node("b"), *(_pod(f"p{i}", "a") for i in range(4)))
    nodes = [placement["node"] for placement in answer["placements"]]
    assert sorted(nodes) == ["a", "a", "b", "b"]
    assert {placement["was"] for placement in answer["placements"]} == {"a"}
    assert answer["before"]["dominant"]["deviation"] == 0.5
    assert answer["after"]["dominant"]["deviation"] == 0


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_pods_that_belong_to_their_node_stay(tmp_path: Path, owner: str) -> None:
    answer = _replanned(tmp_path, _node("a"), _node("b"), _pod("p", "a", owner))
    assert answer["placements"] == []
    assert answer["after"] == answer["before"]


def test_a_node_that_is_not_needed_costs_nothing(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: default-scheduler\n  pluginConfig:\n"
        "  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated,"
        " resources: [{name: cpu, weight: 1}]}}\n"
    )
    pods = [
        _pod("x", "a").spec(schedulerName="default-scheduler"),
        _pod("y", "b").spec(schedulerName="default-scheduler"),
    ]
    answer = _replanned(tmp_path, _node("a", "2"), _node("b", "2"), *pods, config=config)
    assert (answer["before"]["price"], answer["after"]["price"]) == (4, 2)


@settings(max_examples=25 * FACTOR)
@given(nodes=st.lists(st.sampled_from("abc"), max_size=9))
def test_every_pod_has_a_node_again_where_all_are_alike(
    nodes: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    pods = [_pod(f"p{number}", node) for number, node in enumerate(nodes)]
    three = [_node(name) for name in "abc"]
    answer = _replanned(tmp_path_factory.mktemp("r"), *three, *pods)
    assert {one["pod"]: one["was"] for one in answer["placements"]} == {
        f"default/p{number}": node for number, node in enumerate(nodes)
    }
    counts = [sum(one["node"] == node for one in answer["placements"]) for node in "abc"]
    assert sum(counts) == len(nodes)
    assert max(counts) - min(counts) <= 1


def test_the_text_has_the_measures_before_and_after(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        *(
            {"kind": o.kind.name, "apiVersion": "v1", **o.json}
            for o in (_node("a"), _node("b"), _pod("p", "a"), _pod("q", "a"))
        ),
    )
    ran = CliRunner().invoke(app, ["simulate", "-f", str(file), "--replan"])
    assert "2 Pods that run are placed anew: 1 on the same node, 1 on another one" in ran.stdout
    assert "dominant share, deviation" in ran.stdout
