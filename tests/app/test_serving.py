"""The ports of a process: HTTPS for those who may, plain HTTP on the loopback."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.client.fault_server import FaultServer, running_server
from tests.server.conftest import Client, trusting, with_certificate

from bayplan.app.serving import Serving
from bayplan.client.http import Http
from bayplan.server import secure_port
from bayplan.server.options import PortError, PortOptions
from bayplan.server.pages import Answer, Page
from bayplan.telemetry.instrument import Instrument

PROBES = {path: Page(lambda _: Answer(200, b"ok")) for path in ("/livez", "/metrics")}
PAGES = {"/debug": Page(lambda _: Answer(200, b"ok"))}


@pytest.fixture
def api_server() -> Iterator[FaultServer]:
    with running_server() as server:
        server.script = lambda exchange: exchange.error(403, message="no")
        yield server


@pytest.fixture
def start(api_server: FaultServer) -> Iterator[object]:
    with ExitStack() as stack:

        def starting(options: PortOptions) -> Serving:
            http = Http(api_server.connection(), max_tries=1)
            made = Serving(options, http, Instrument(), PROBES, PAGES)
            made.start()
            stack.callback(made.stop)
            return made

        yield starting


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def files(authority: Authority, folder: Path) -> PortOptions:
    certificate, key = authority.files("127.0.0.1", folder)
    ca = folder / "ca.crt"
    ca.write_bytes(authority.ca)
    return PortOptions(free(), "127.0.0.1", cert_file=certificate, key_file=key, client_ca_file=ca)


def test_the_secure_port_has_all_pages_for_those_who_may(start: object, tmp_path: Path) -> None:
    assert callable(start)
    authority = Authority()
    [port] = start(files(authority, tmp_path)).ports.values()
    admin = Client(port, with_certificate(authority, tmp_path, "admin", "system:masters"))
    anybody = Client(port, trusting(authority))
    paths = ("/livez", "/metrics", "/debug")
    assert [admin.get(path).status for path in paths] == [200, 200, 200]
    # The API server of this test does not review anything.
    assert [anybody.get(path).status for path in paths] == [200, 503, 503]


def test_the_insecure_port_has_probes_and_metrics_on_the_loopback(start: object) -> None:
    assert callable(start)
    ports = start(PortOptions(secure_port=0, insecure_port=free())).ports
    client = Client(ports["insecure_port"])
    paths = ("/livez", "/metrics", "/debug")
    assert [client.get(path).status for path in paths] == [200, 200, 404]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((address(), ports["insecure_port"]))


def address() -> str:
    """Another address of this machine's loopback."""
    return "127.0.0.2"


def test_without_a_certificate_one_is_made(start: object) -> None:
    assert callable(start)
    [port] = start(PortOptions(free(), "127.0.0.1")).ports.values()
    shown = ssl.get_server_certificate(("127.0.0.1", port))
    trust = ssl.create_default_context(cadata=shown)
    assert Client(port, trust).get("/livez").status == 200


def test_a_rotated_certificate_is_noticed(
    start: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(start)
    monkeypatch.setattr(secure_port, "LOOK_SECONDS", 0.01)
    options = files(Authority(), tmp_path)
    [port] = start(options).ports.values()
    later = Authority()
    certificate, key = later.issue("127.0.0.1")
    assert options.cert_file
    assert options.key_file
    options.key_file.write_bytes(key)
    options.cert_file.write_bytes(certificate)
    client = Client(port, trusting(later))
    while True:
        try:
            assert client.get("/livez").status == 200
            break
        except OSError:
            continue  # not noticed yet


def test_a_port_that_cannot_be_had_gives_up_the_other(api_server: FaultServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        secure = free()
        options = PortOptions(secure, "127.0.0.1", taken.getsockname()[1])
        with pytest.raises(PortError, match="in use"):
            Serving(options, Http(api_server.connection()), Instrument(), PROBES, PAGES)
    socket.create_server(("127.0.0.1", secure)).close()


def test_no_port_at_all_is_fine(start: object) -> None:
    assert callable(start)
    assert start(PortOptions(secure_port=0)).ports == {}
