"""Reading a running cluster: pages, kinds that are not there, and what is said of a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.client.fault_server import Exchange, FaultServer, running_server
from tests.kubeconfig import write_kubeconfig

from bayplan.api.kinds import NODE, POD, RESOURCE_SLICE, Kind
from bayplan.cli import live


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def kubeconfig(server: FaultServer, tmp_path: Path) -> str:
    return write_kubeconfig(tmp_path, server.url)


def names(kubeconfig: str, *kinds: Kind[Any]) -> list[tuple[str, str]]:
    """Kind and name of what is listed."""
    listed = live.objects(kubeconfig, kinds)
    return [(kind.name, json.loads(bytes(data))["name"]) for kind, data in listed]


def test_lists_are_read_page_by_page_to_the_end(server: FaultServer, kubeconfig: str) -> None:
    def script(exchange: Exchange) -> None:
        if exchange.bare_path.endswith("/nodes"):
            exchange.answer(200, {"metadata": {}, "items": None})
        elif "continue" in exchange.query:
            assert exchange.query["continue"] == "a/b="
            exchange.answer(200, {"metadata": {}, "items": [{"name": "p3"}]})
        else:
            items = [{"name": "p1"}, {"name": "p2"}]
            exchange.answer(200, {"items": items, "metadata": {"continue": "a/b="}})

    server.script = script
    assert names(kubeconfig, NODE, POD) == [("Pod", "p1"), ("Pod", "p2"), ("Pod", "p3")]
    assert [request.path.partition("?")[0] for request in server.requests] == [
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/pods",
    ]
    assert all(f"limit={live.PAGE}" in request.path for request in server.requests)


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        pytest.param(404, "NotFound", "", id="not served"),
        pytest.param(
            403, "Forbidden", "there may be objects of kind ResourceSlice: ", id="not allowed"
        ),
    ],
)
def test_an_optional_kind_that_cannot_be_read_counts_as_empty(
    server: FaultServer,
    kubeconfig: str,
    capsys: pytest.CaptureFixture[str],
    status: int,
    reason: str,
    said: str,
) -> None:
    def script(exchange: Exchange) -> None:
        if exchange.bare_path.endswith("/resourceslices"):
            exchange.error(status, reason)
        else:
            exchange.answer(200, {"metadata": {}, "items": [{"name": "n1"}]})

    server.script = script
    assert RESOURCE_SLICE.optional
    assert names(kubeconfig, RESOURCE_SLICE, NODE) == [("Node", "n1")]
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert bool(told) is bool(said)


def test_a_kind_that_everything_needs_and_that_may_not_be_read_ends_it(
    server: FaultServer, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = lambda exchange: exchange.error(403, "Forbidden", "nodes is forbidden")
    with pytest.raises(typer.Exit) as ended:
        names(kubeconfig, NODE)
    assert ended.value.exit_code == 2
    assert "nodes is forbidden" in capsys.readouterr().err


def test_credentials_that_are_not_there_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        names(str(tmp_path / "missing"), NODE)
    assert ended.value.exit_code == 2
    assert f"{tmp_path}/missing: no such file" in capsys.readouterr().err
