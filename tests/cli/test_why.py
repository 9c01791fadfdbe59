"""``bayplan why``: one Pod, all that wait, names for the shell, and schedulers of other ages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.client.fault_server import Exchange, FaultServer, running_server
from tests.kubeconfig import write_kubeconfig
from typer.testing import CliRunner, Result

from bayplan.aggregated.resources import PREFIX
from bayplan.cli import why as command
from bayplan.cli.app import app

Why = Callable[..., Result]
PODS = "/api/v1/namespaces/shop/pods"


class Cluster:
    """An API server, with or without the aggregated API, and a scheduler's port in one."""

    def __init__(self, server: FaultServer, folder: Path) -> None:
        self.server, self.api = server, False
        self.pods = [("shop", "web"), ("shop", "gone"), ("bank", "db")]
        self.error: tuple[int, str] | None = None
        self.kubeconfig = write_kubeconfig(folder, server.url)
        server.script = self.serve

    def serve(self, exchange: Exchange) -> None:
        path = exchange.bare_path
        if path.endswith("/pods"):
            namespace = "" if path == "/api/v1/pods" else path.split("/")[4]
            metas = [{"namespace": ns, "name": n} for ns, n in self.pods if namespace in ("", ns)]
            items = [{"metadata": meta} for meta in metas]
            exchange.answer(200, {"metadata": {}, "items": items})
        elif path == PREFIX and self.api:
            exchange.answer(200, {})
        elif self.error is not None and (path == "/why" or path.endswith("/explanation")):
            exchange.answer(self.error[0], f"{self.error[1]}\n".encode())
        elif path == "/why" and exchange.query["pod"] != "gone":
            exchange.answer(200, answer(exchange.query["namespace"], exchange.query["pod"]))
        elif self.api and path.endswith("/explanation"):
            parts = path.removeprefix(PREFIX).split("/")
            exchange.answer(200, answer(parts[2], parts[4]))
        else:
            exchange.error(404, "NotFound", "there is no Pod shop/gone")


def answer(namespace: str, name: str) -> dict[str, Any]:
    nodes = [f"n{i}" for i in range(5)]
    rejected = {"nodes": 5, "plugin": "Fit", "reasons": ["too small"], "some": nodes}
    return {
        "kind": "PodAnswer",
        "pod": f"{namespace}/{name}",
        "state": "Pending",
        "sentence": f"{name} waits.",
        "queue": {"state": "backoff", "attempts": 7, "rejectedBy": ["Fit"]},
        "last": {"time": "2026-01-01T00:00:00Z", "reason": "Unschedulable"},
        "now": {"rejected": [rejected]},
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_server() as server:
        yield Cluster(server, tmp_path)


@pytest.fixture
def why(cluster: Cluster) -> Iterator[Why]:
    """Runs the command; with ``direct`` it is told where the port is."""

    def run(*arguments: str, direct: bool = True) -> Result:
        where = [f"--kubeconfig={cluster.kubeconfig}"]
        where += [f"--server={cluster.server.url}"] if direct else []
        return CliRunner().invoke(app, ["why", *where, "-n", "shop", *arguments])

    yield run
    structlog.reset_defaults()


def test_a_wide_answer_has_all_names(why: Why) -> None:
    assert "n0, n1, n2\n" in why("web").output
    assert "n0, n1, n2, n3, n4" in why("pod/web", "-o", "wide").output
    assert json.loads(why("shop/web", "-o", "json").output)["pod"] == "shop/web"


def test_of_a_group_that_is_placed_there_is_the_sentence_alone(why: Why, cluster: Cluster) -> None:
    sentence = "group shop/train: 4 Pods have a node, none waits."
    said = {"kind": "GroupAnswer", "group": "shop/train", "placed": 4, "sentence": sentence}
    cluster.server.script = lambda exchange: exchange.answer(200, said)
    run = why("podgroup/train", "-n", "shop")
    assert (run.exit_code, run.stdout.strip()) == (0, sentence)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"evaluated": 12, "fitting": 1}, "1 of 12 nodes fitted"),
        (
            {"evaluated": 12, "fitting": 10, "equal": 2, "total": 469},
            "10 of 12 nodes fitted, 2 of these with the highest score, 469",
        ),
    ],
)
def test_of_a_bound_pod_it_is_said_how_its_node_was_chosen(
    chosen: dict[str, int], said: str
) -> None:
    last = {"time": "T", "reason": "Scheduled", "node": "n1", "chosen": chosen}
    assert list(command.lines({"last": last})) == [f"last attempt, T: Scheduled on n1: {said}"]


def test_without_a_name_each_pod_that_waits_is_a_row(why: Why, cluster: Cluster) -> None:
    rows = [line.split() for line in why().output.splitlines()]
    assert rows == [["pod", "why"], ["shop/web", "web", "waits."]]
    wide = why("-A", "-o", "wide").output.splitlines()
    assert wide[1].split()[:4] == ["shop/web", "Pending", "7", "Fit"]
    assert wide[2].startswith("bank/db")
    listed = json.loads(why("-l", "app=web", "-o", "json").output)
    assert [one["pod"] for one in listed] == ["shop/web"]
    selectors = [r.path for r in cluster.server.requests if "labelSelector=app%3Dweb" in r.path]
    assert len(selectors) == 1


def test_no_more_pods_are_asked_about_than_a_scheduler_should_be(
    why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST", 2)
    run = why("-A")
    assert "there are more: only 2 were asked about" in run.output
    assert "bank/db" not in run.output


def test_where_nothing_waits_it_is_said(why: Why, cluster: Cluster) -> None:
    cluster.pods = []
    run = why()
    assert (run.exit_code, run.output) == (1, "no Pod waits\n")
    assert json.loads(why("-o", "json").stdout) == []
    assert why("web", "-A").exit_code == 2


def test_the_aggregated_api_is_asked_where_there_is_one(why: Why, cluster: Cluster) -> None:
    cluster.api = True
    assert "web waits." in why("web", direct=False).output
    assert cluster.server.requests[-1].path == f"{PREFIX}/namespaces/shop/pods/web/explanation"
    run = why("web", "--lease=kube-system/other", direct=False)
    assert run.exit_code == 2
    assert "there is no Lease kube-system/other" in run.output


def test_without_it_the_lease_is_looked_for(why: Why) -> None:
    run = why("web", direct=False)
    assert run.exit_code == 2
    assert "there is no Lease kube-system/bayplan" in run.output


@pytest.mark.parametrize(
    ("status", "text"),
    [(404, "not found"), (403, 'forbidden: User "alice" cannot get path "/why"')],
    ids=["an administrator", "another user"],
)
def test_a_scheduler_that_has_no_such_page_is_older(
    why: Why, cluster: Cluster, status: int, text: str
) -> None:
    cluster.error = status, text
    run = why("web")
    assert run.exit_code == 2
    assert "the scheduler is older than this command: it has no page /why" in run.output


def completed(*words: str) -> list[str]:
    """What ``kubectl_complete-bayplan`` prints."""
    code = "from bayplan.cli.completion import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def test_names_are_completed(cluster: Cluster) -> None:
    where = ("why", f"--kubeconfig={cluster.kubeconfig}", "-n", "shop")
    assert completed(*where, "w") == ["web", ":4"]
    assert completed(*where, "pod/g") == ["pod/gone", ":4"]
    assert completed(*where, "po") == ["pod/", "podgroup/", ":4"]
    assert completed(*where, "nothing/") == [":4"]
    cluster.server.script = lambda exchange: exchange.error(403)
    assert completed(*where, "w") == [":4"]
    assert completed("stat") == ["status", ":4"]
