"""Quotas on a real API server: lent, taken back, made late, deleted; examples/quotas runs here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import SOON, Bayplan, Cluster, Json
from e2e.provider import NodeSpec, wait_until
from e2e.provider.golang import ROOT

pytestmark = pytest.mark.e2e

CRD = ROOT / "deploy" / "crds" / "elasticquotas.yaml"
EXAMPLE = ROOT / "examples" / "quotas"
TEAMS = ("team-a", "team-b")
ABOVE_TOTAL = "total ElasticQuota used is more than min"
ABOVE_MAXIMUM = "ElasticQuota team-a is more than Max"


@pytest.fixture
def bayplan(cluster: Cluster, start: Callable[..., Bayplan]) -> Iterator[Bayplan]:
    """The scheduler of the example, the CRD, and a node; nothing of the teams is left behind."""
    cluster.kubectl("apply", "-f", str(CRD))
    cluster.kubectl("wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=300s")
    cluster.nodes(NodeSpec("q1", cpu="8"))
    yield start(EXAMPLE / "config.yaml")
    cluster.kubectl("delete", "namespace", *TEAMS, "--ignore-not-found", "--wait=false")
    wait_until(lambda: not any(pods(cluster, team) for team in TEAMS), SOON, "the teams' end")
    for team in TEAMS:
        cluster.kubectl("wait", "--for=delete", f"namespace/{team}", f"--timeout={SOON:.0f}s")


def apply(cluster: Cluster, *names: str) -> None:
    """Apply files of the example, which name their namespaces."""
    for name in names:
        cluster.kubectl("apply", "-f", str(EXAMPLE / f"{name}.yaml"))


def pods(cluster: Cluster, team: str) -> list[Json]:
    """The Pods of a team."""
    answer: list[Json] = json.loads(cluster.kubectl("get", "pods", "-o=json", namespace=team))[
        "items"
    ]
    return answer


def bound(cluster: Cluster, team: str) -> int:
    """How many of them have a node."""
    return sum("nodeName" in one["spec"] for one in pods(cluster, team))


def wait_bound(cluster: Cluster, a: int, b: int) -> None:
    """Wait until the teams have so many Pods with a node."""

    def is_so() -> bool:
        return [bound(cluster, team) for team in TEAMS] == [a, b]

    try:
        wait_until(is_so, SOON, f"{a} and {b} Pods bound")
    except TimeoutError as error:
        found = [bound(cluster, team) for team in TEAMS]
        raise TimeoutError(f"{error}; they are {found}: {messages(cluster, 'team-a')}") from None


def messages(cluster: Cluster, team: str) -> set[str]:
    """Why Pods of a team wait."""
    conditions = (c for one in pods(cluster, team) for c in one["status"].get("conditions", ()))
    return {c["message"] for c in conditions if c["type"] == "PodScheduled" and "message" in c}


def wait_message(cluster: Cluster, team: str, text: str) -> None:
    """Wait until a Pod of the team is told that."""
    wait_until(lambda: any(text in m for m in messages(cluster, team)), SOON, text)


def scale(cluster: Cluster, team: str, replicas: int) -> None:
    """Have the team run so many Pods."""
    cluster.kubectl("scale", "deployment/work", f"--replicas={replicas}", namespace=team)


def test_what_is_lent_is_taken_back_and_lent_again(cluster: Cluster, bayplan: Bayplan) -> None:
    apply(cluster, "quotas", "team-a")
    wait_bound(cluster, 6, 0)

    apply(cluster, "team-b")
    wait_bound(cluster, 4, 4)
    wait_message(cluster, "team-a", ABOVE_TOTAL)

    scale(cluster, "team-b", 0)
    wait_bound(cluster, 6, 0)
    scale(cluster, "team-a", 9)
    wait_bound(cluster, 7, 0)
    wait_message(cluster, "team-a", ABOVE_MAXIMUM)
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")


def test_a_quota_counts_the_pods_before_it_and_nothing_once_it_is_gone(
    cluster: Cluster, bayplan: Bayplan
) -> None:
    for team in TEAMS:
        cluster.kubectl("create", "namespace", team)
    apply(cluster, "team-a")
    wait_bound(cluster, 6, 0)

    apply(cluster, "quotas", "team-b")
    wait_bound(cluster, 4, 4)

    cluster.kubectl("delete", "elasticquotas", "--all", namespace="team-a")
    cluster.kubectl("delete", "elasticquotas", "--all", namespace="team-b")
    scale(cluster, "team-b", 0)
    scale(cluster, "team-a", 8)
    wait_bound(cluster, 8, 0)
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
