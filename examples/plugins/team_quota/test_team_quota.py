from pathlib import Path

import pytest

from bayplan.testing import Cluster, PodBuilder, make_node, make_pod

HERE = Path(__file__).parent


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(config=HERE / "config.yaml", plugin_dir=HERE)
    cluster.add(*(make_node(name).capacity(cpu="4", memory="8Gi", pods=110) for name in "ab"))
    return cluster


def pod(name: str, team: str = "red") -> PodBuilder:
    return make_pod(name).label("team", team)


def test_two_run_where_two_may(cluster: Cluster) -> None:
    cluster.add(*(pod(f"p{i}") for i in range(5)))
    cluster.run()
    assert [name for name, _ in cluster.writer.bound] == ["p0", "p1"]
    assert cluster.message("p2") == "0/1 nodes are available: 1 team red has 2 Pods already."


def test_the_next_one_runs_when_one_has_gone(cluster: Cluster) -> None:
    first = pod("first")
    cluster.add(first, pod("second"), pod("third"))
    cluster.run()
    assert cluster.node_of("third") == ""
    cluster.remove(first)
    cluster.run()
    assert cluster.node_of("third") != ""


def test_pods_that_run_already_count(cluster: Cluster) -> None:
    cluster.add(pod("old1").node("a"), pod("old2").node("b"), pod("new"))
    cluster.run()
    assert cluster.node_of("new") == ""


def test_other_teams_are_not_limited(cluster: Cluster) -> None:
    cluster.add(*(pod(f"{team}{i}", team) for team in ("blue", "red") for i in range(4)))
    cluster.run()
    bound = [name for name, _ in cluster.writer.bound]
    assert sorted(bound) == ["blue0", "blue1", "blue2", "blue3", "red0", "red1"]


def test_the_deployment_gets_as_many_pods_as_may_run(cluster: Cluster) -> None:
    cluster.apply(HERE / "pods.yaml")
    cluster.run()
    assert len(cluster.writer.bound) == 2
