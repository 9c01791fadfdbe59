"""``bayplan status``: 80 columns, other forms, and what its exit code says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from tests.client.fault_server import FaultServer, running_server
from tests.kubeconfig import write_kubeconfig
from typer.testing import CliRunner, Result

from bayplan.cli.app import app

NAME = "a-namespace/a-deployment-7d9f8b6c54-x2x9z"
ANSWER: dict[str, Any] = {
    "sentence": "bayplan-6c9d7f_4a leads since 2026-01-01T12:00:00Z; 12 Pods wait.",
    "leads": True,
    "leaderSince": "2026-01-01T12:00:00Z",
    "ready": True,
    "rates": {"seconds": 60, "scheduled": 12.5, "unschedulable": 2.0, "error": 0.5},
    "plugins": [
        {"plugin": "AvoidBusyNodes", "point": "Filter", "failures": 30, "recentFailures": 4},
        {
            "plugin": "AsksTheWeb",
            "point": "Score",
            "failures": 0,
            "recentFailures": 0,
            "calls": 90,
            "hundredthOverSeconds": 0.59,
        },
    ],
    "configuration": {"read": "2026-01-01T12:00:00Z", "used": True, "reloads": 1, "failed": 0},
    "waiting": {
        "entries": 3,
        "pods": 12,
        "by": [{"cause": "NodeAffinity, NodeResourcesFit, TaintToleration", "entries": 2}],
        "oldest": [
            {
                "pod": NAME,
                "seconds": 200_000,
                "attempts": 120,
                "state": "unschedulable",
                "cause": "NodeAffinity, NodeResourcesFit, TaintToleration",
                "message": "0/3 nodes are available: 3 Insufficient cpu.",
            },
            {
                "group": "a-namespace/train",
                "pods": 10,
                "attempts": 0,
                "state": "gated",
                "cause": "Coscheduling",
            },
        ],
    },
    "inFlight": {
        "bindings": 3,
        "permit": {"Hold": 1},
        "preBind": 1,
        "groups": 1,
        "evictions": 2,
        "leaving": 5,
    },
}

Status = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        running.script = lambda exchange: exchange.answer(200, ANSWER)
        yield running


@pytest.fixture
def status(server: FaultServer, tmp_path: Path) -> Iterator[Status]:
    """Runs the command against the server; logging, which it sets up, is as before afterwards."""
    kubeconfig = f"--kubeconfig={write_kubeconfig(tmp_path)}"
    where = (f"--server={server.url}", kubeconfig)
    yield lambda *args: CliRunner().invoke(app, ["status", *where, *args])
    structlog.reset_defaults()


def test_it_fits_80_columns_and_says_it_all(status: Status) -> None:
    run = status()
    assert run.exit_code == 0, run.output
    assert max(map(len, run.output.splitlines())) <= 80
    assert run.output.splitlines()[0] == ANSWER["sentence"]
    for text in (
        "12.5 bindings, 15 attempts, 0.5 errors (last 60 s)",
        "3 bindings (1 in Permit for Hold, 1 in PreBind); 1 groups; 2",
        "read 2026-01-01T12:00:00Z, reloaded 1 times",
        "2d7h",
        NAME,
        "a-namespace/train (10 Pods)",
        "AvoidBusyNodes",
        "0.59 s",
    ):
        assert text in run.output
    assert "Insufficient cpu" not in run.output


def test_wide_has_what_was_said_and_whole_names(status: Status) -> None:
    run = status("-o", "wide")
    for text in (NAME, "unschedulable", "0/3 nodes are available"):
        assert text in run.output


def test_the_answer_is_printed_as_it_is(status: Status) -> None:
    assert json.loads(status("-o", "json").output) == ANSWER
    assert yaml.safe_load(status("-o", "yaml").output) == ANSWER


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False, "notReady": ["Node: forbidden"]},
        {"leads": False, "leaderSince": None},
        {"unanswered": "the scheduling thread did not answer in 5 s"},
        {"configuration": {"read": "", "used": False, "problem": "profiles: none"}},
    ],
    ids=["not ready", "nobody leads", "unanswered", "files not used"],
)
def test_what_is_wrong_is_said_and_ends_with_1(
    status: Status, server: FaultServer, change: dict[str, Any]
) -> None:
    changed = {key: value for key, value in (ANSWER | change).items() if value is not None}
    server.script = lambda exchange: exchange.answer(200, changed)
    run = status()
    assert run.exit_code == 1
    for text in ("Node: forbidden", "did not answer", "profiles: none"):
        assert (text in run.output) == (text in str(change))


def test_whoever_may_not_ask_is_told_and_it_ends_with_2(
    status: Status, server: FaultServer
) -> None:
    server.script = lambda exchange: exchange.error(403, "Forbidden", "may not list pods")
    run = status("-n", "shop")
    assert run.exit_code == 2
    assert "may not list pods" in run.output
    assert server.requests[-1].path == "/status?namespace=shop"
