"""How the controllers reach the API server, and what they write."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.fault_server import Exchange, FaultServer, running_server

from bayplan.api.kinds import QUEUE
from bayplan.controllers.operator import Operator, _ConnectionInfo
from bayplan.controllers.statuses import StatusFields
from bayplan.controllers.watched import Written
from bayplan.testing import make_object

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
SOON = 120.0
NOW = 1_700_000_000.0
TEAM = QUEUE, "team"


def test_it_trusts_certificates_without_an_authority_key_identifier() -> None:
    """As the scheduler does; Python refuses them from 3.13 on."""
    context = _ConnectionInfo(server="https://localhost").as_ssl_context()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED


class Controllers:
    """An operator without kopf, and a Queue: `bring` tells it of the Queue as the watch does."""

    def __init__(self, server: FaultServer, folder: Path) -> None:
        path = folder / "kubeconfig"
        path.write_text(KUBECONFIG.format(url=server.url))
        self.operator = Operator(str(path), ["bayplan"], None, 0)
        self._handle = self.operator._handler(QUEUE)
        self.queue = make_object(QUEUE, "team").spec(namespaceSelector={}).json

    async def bring(self, status: StatusFields, event: str | None = "MODIFIED") -> None:
        await self._handle({"type": event, "object": self.queue | {"status": status}})

    def statuses(self) -> dict[Written, StatusFields]:
        return self.operator._watched.statuses(NOW)

    async def write(self) -> None:
        for entry in self.statuses().items():
            await self.operator._write(asyncio.Semaphore(1), *entry)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        yield running


def test_a_status_is_replaced_as_a_whole(server: FaultServer, tmp_path: Path) -> None:
    controllers = Controllers(server, tmp_path)
    asyncio.run(controllers.bring({"used": {"cpu": "1"}, "unknown": "field"}))
    asyncio.run(controllers.write())
    [request] = server.requests
    [change] = json.loads(request.body)
    assert request.headers["Content-Type"] == "application/json-patch+json"
    assert (change["op"], change["path"]) == ("add", "/status")
    assert change["value"] == controllers.statuses()[TEAM]
    assert change["value"]["used"] == {}


def test_a_status_that_came_before_the_answer_is_written_over(
    server: FaultServer, tmp_path: Path
) -> None:
    """What the process that led before wrote last, or what the API server made of ours."""
    controllers = Controllers(server, tmp_path)

    async def work() -> None:
        loop = asyncio.get_running_loop()

        def answer(exchange: Exchange) -> None:
            bring = controllers.bring({"used": None})
            asyncio.run_coroutine_threadsafe(bring, loop).result(SOON)
            exchange.answer()

        server.script = answer
        await controllers.bring({})
        await controllers.write()

    asyncio.run(work())
    status = controllers.statuses()[TEAM]
    assert status["used"] == {}
    asyncio.run(controllers.bring(status))
    assert controllers.statuses() == {}


def test_uids_are_remembered_only_until_all_objects_have_come(
    server: FaultServer, tmp_path: Path
) -> None:
    controllers = Controllers(server, tmp_path)
    server.script = lambda exchange: exchange.answer(
        body={"metadata": {}, "items": [controllers.queue]}
    )

    async def work() -> None:
        waiting = asyncio.create_task(controllers.operator._wait_for_all([QUEUE]))
        while not server.requests:
            await asyncio.sleep(0)
        assert not waiting.done()
        await controllers.bring({})
        await asyncio.wait_for(waiting, SOON)
        await controllers.bring({})

    asyncio.run(work())
    assert controllers.operator._seen is None


def test_a_list_that_kopf_begins_anew_with_shows_what_was_deleted_meanwhile(
    server: FaultServer, tmp_path: Path
) -> None:
    """It says nothing of that; without its list the difference shows ten minutes later."""
    controllers = Controllers(server, tmp_path)
    operator = controllers.operator
    server.script = lambda exchange: exchange.answer(body={"metadata": {}, "items": []})

    async def work() -> None:
        await controllers.bring({})
        operator._seen = None
        resync = asyncio.create_task(operator._resync([QUEUE]))
        await controllers.bring({}, None)
        async with asyncio.timeout(SOON):
            while controllers.statuses():
                await asyncio.sleep(0.01)
        resync.cancel()

    asyncio.run(work())
    assert len(server.requests) == 1
