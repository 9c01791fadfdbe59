"""Headers and handles: fresh credentials, the right host, nothing from the environment."""

from __future__ import annotations

import socket
from pathlib import Path

import pycurl
import pytest
from kubernetes.client import Configuration
from tests.client.fault_server import FaultServer

from bayplan.client.connection import (
    CREDENTIALS_AGE,
    MERGE_PATCH,
    SILENCE_MS,
    Connection,
    _limit_silence,
)
from bayplan.client.errors import Unauthorized, Unreachable
from bayplan.client.http import Http


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def configuration(**settings: object) -> Configuration:
    made = Configuration(host="https://server.example:6443/")
    for name, value in settings.items():
        setattr(made, name, value)
    return made


def authorization(connection: Connection) -> str:
    (value,) = [h for h in connection.headers() if h.startswith("Authorization: ")]
    return value.removeprefix("Authorization: ")


def test_headers_say_who_we_are_and_what_we_send() -> None:
    headers = Connection(configuration()).headers(MERGE_PATCH)
    assert "Content-Type: application/merge-patch+json" in headers
    assert any(h.startswith("User-Agent: bayplan/") for h in headers)
    assert not any(h.startswith("Authorization") for h in headers)


def test_headers_are_the_same_list_until_the_credentials_change(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", Clock()
    token.write_text("one\n")
    connection = Connection(configuration(), token, clock=clock)
    first = connection.headers()
    assert authorization(connection) == "Bearer one"
    clock.now += CREDENTIALS_AGE + 1
    assert connection.headers() is first
    token.write_text("two\n")
    assert connection.headers() is first
    clock.now += CREDENTIALS_AGE + 1
    assert authorization(connection) == "Bearer two"


def test_credentials_are_read_again_at_once_after_they_were_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    connection = Connection(configuration(), token, clock=Clock())
    connection.headers()
    token.write_text("two")
    connection.forget_credentials()
    assert authorization(connection) == "Bearer two"


def test_a_token_that_the_official_client_renews_is_used() -> None:
    settings = configuration(api_key={"BearerToken": "Bearer old"})

    def renew(target: Configuration) -> None:
        target.api_key["BearerToken"] = "Bearer renewed\n"

    settings.refresh_api_key_hook = renew  # type: ignore[assignment]  # its stub says None
    assert authorization(Connection(settings)) == "Bearer renewed"


def test_a_token_file_that_cannot_be_read_is_a_matter_of_credentials(tmp_path: Path) -> None:
    connection = Connection(configuration(), tmp_path / "missing")
    with pytest.raises(Unauthorized, match="missing"):
        connection.headers()


def test_another_tls_name_is_in_the_url_and_the_real_host_in_the_host_header() -> None:
    connection = Connection(configuration(tls_server_name="kubernetes"))
    assert connection.url("/api") == "https://kubernetes:6443/api"
    assert "Host: server.example:6443" in connection.headers()
    assert connection.server == "https://server.example:6443"


def options(**settings: object) -> dict[int, object]:
    return dict(Connection(configuration(**settings))._options)


@pytest.mark.parametrize(
    ("settings", "option", "expected"),
    [
        pytest.param({}, pycurl.SSL_VERIFYPEER, 1, id="verified"),
        pytest.param({"verify_ssl": False}, pycurl.SSL_VERIFYPEER, 0, id="insecure peer"),
        pytest.param({"verify_ssl": False}, pycurl.SSL_VERIFYHOST, 0, id="insecure host"),
        pytest.param({"ssl_ca_cert": "/ca"}, pycurl.CAINFO, "/ca", id="CA file"),
        pytest.param({"ca_cert_data": "PEM"}, pycurl.CAINFO_BLOB, b"PEM", id="CA data"),
        pytest.param({"cert_file": "/c", "key_file": "/k"}, pycurl.SSLCERT, "/c", id="cert"),
        pytest.param({"cert_file": "/c", "key_file": "/k"}, pycurl.SSLKEY, "/k", id="key"),
        pytest.param({"proxy": None}, pycurl.PROXY, "", id="no proxy"),
        pytest.param({"proxy": "http://p:1"}, pycurl.PROXY, "http://p:1", id="proxy"),
    ],
)
def test_the_configuration_becomes_options_of_the_handle(
    settings: dict[str, bool | str | None], option: int, expected: bytes | int | str
) -> None:
    assert options(**settings)[option] == expected


def test_the_kernel_gives_up_a_connection_to_a_machine_that_vanished() -> None:
    with socket.socket() as connection:
        assert _limit_silence(connection.fileno(), 0) == pycurl.SOCKOPT_OK
        silence = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert silence == SILENCE_MS


def test_a_proxy_is_gone_through(server: FaultServer) -> None:
    server.script = lambda exchange: exchange.answer(200, {"path": exchange.path})
    connection = Connection(Configuration(host="http://api.example:6443", proxy=server.url))
    body = bytearray()
    handle = connection.handle()
    handle.setopt(pycurl.URL, connection.url("/version"))
    handle.setopt(pycurl.WRITEFUNCTION, body.extend)
    handle.perform()
    assert b"http://api.example:6443/version" in body


def test_sockets_of_somebody_else_carry_requests(server: FaultServer) -> None:
    address = server.server_address[:2]
    sockets = [socket.create_connection(address)]  # type: ignore[arg-type]

    def open_socket() -> socket.socket | int:
        return sockets.pop() if sockets else int(pycurl.SOCKET_BAD)

    server.script = lambda exchange: exchange.answer(200, {"path": exchange.path})
    elsewhere = Configuration(host="http://localhost:1")
    http = Http(Connection(elsewhere, open_socket=open_socket))
    assert http.get("/one") == b'{"path": "/one"}'
    assert http.get("/two") == b'{"path": "/two"}', "on the same connection"
    assert server.requests[0].client_address == server.requests[1].client_address
    last = Connection(elsewhere, open_socket=open_socket, peer="the leader")
    with pytest.raises(Unreachable, match="cannot reach the leader at http://localhost:1: "):
        Http(last, max_tries=1).get("/three")
