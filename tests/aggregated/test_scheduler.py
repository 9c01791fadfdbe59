"""Where the leader is, for the aggregated API; that it answers, e2e/test_aggregated.py shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.client.fault_server import Exchange, FaultServer, running_server

from bayplan.aggregated import scheduler as module
from bayplan.aggregated.scheduler import AGE_SECONDS, Scheduler
from bayplan.client.errors import Unreachable
from bayplan.client.http import Http
from bayplan.server.users import User

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/bayplan"
PODS = "/api/v1/namespaces/kube-system/pods"


class Leaders:
    """An API server with a Lease; and who was asked for an answer."""

    def __init__(self, folder: Path, server: FaultServer, patch: pytest.MonkeyPatch) -> None:
        self.addresses = {"bayplan-1": "10.0.0.1"}
        self.holder, self.now = "bayplan-1_ab", 0.0
        self.down: set[str] = set()
        self.asked: list[str] = []
        self._server = server
        server.script = self._serve
        file = folder / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": server.url}}
        user: dict[str, Any] = {"name": "c", "user": {"token": "t"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
        parts = {"clusters": [cluster], "users": [user], "contexts": [context]}
        file.write_text(yaml.safe_dump(parts | {"current-context": "c"}))
        http = Http(server.connection(), max_tries=1)
        self.scheduler = Scheduler(http, "kube-system/bayplan", str(file), clock=lambda: self.now)
        patch.setattr(module, "Http", self._http)

    def _http(self, connection: Any) -> Any:
        leaders = self

        class Fake:
            def once(self, *_: Any) -> bytes:
                if connection.server in leaders.down:
                    raise Unreachable("down")
                leaders.asked.append(connection.server)
                return b"{}"

        return Fake()

    def _serve(self, exchange: Exchange) -> None:
        name = exchange.bare_path.removeprefix(f"{PODS}/")
        if exchange.bare_path == LEASE:
            exchange.answer(200, {"spec": {"holderIdentity": self.holder}})
        elif name in self.addresses:
            port = {"name": "https", "containerPort": 10259}
            spec = {"containers": [{"name": "c", "ports": [port]}]}
            status = {"podIP": self.addresses[name]}
            exchange.answer(200, {"metadata": {"name": name}, "spec": spec, "status": status})
        else:
            exchange.error(404, "NotFound", "not found")

    def ask(self) -> str:
        self.scheduler.ask("GET", "/status", None, User("alice"))
        return self.asked[-1]

    def look_ups(self) -> int:
        """How often the Lease was read."""
        return sum(request.path == LEASE for request in self._server.requests)


@pytest.fixture
def leaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leaders]:
    with running_server() as server:
        yield Leaders(tmp_path, server, monkeypatch)


def test_the_address_of_the_leader_is_looked_up_now_and_then(leaders: Leaders) -> None:
    assert [leaders.ask() for _ in range(3)] == ["https://10.0.0.1:10259"] * 3
    assert leaders.look_ups() == 1
    leaders.holder, leaders.addresses["bayplan-2"] = "bayplan-2_cd", "fd00::2"
    leaders.now = AGE_SECONDS
    assert leaders.ask() == "https://[fd00::2]:10259"


def test_where_the_leader_is_gone_the_next_one_is_asked_at_once(leaders: Leaders) -> None:
    first = leaders.ask()
    leaders.down.add(first)
    leaders.holder, leaders.addresses["bayplan-2"] = "bayplan-2_cd", "10.0.0.2"
    assert leaders.ask() == "https://10.0.0.2:10259"


def test_without_a_leader_it_is_said_so(leaders: Leaders) -> None:
    leaders.holder = ""
    with pytest.raises(Unreachable, match="nobody holds the Lease kube-system/bayplan"):
        leaders.ask()
    leaders.holder, leaders.addresses["bayplan-1"] = "bayplan-1_ab", ""
    with pytest.raises(Unreachable, match="bayplan-1, which leads, has no address"):
        leaders.ask()
