"""The certificate of the port, its versions and ciphers, and what happens when files change."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import structlog
from cryptography import x509
from tests.certificates import Authority
from tests.client.fault_server import FaultServer
from tests.server.conftest import Client, Ports, serving, trusting

from bayplan.client.http import Http
from bayplan.server import certificates, tls
from bayplan.server.certificates import Files, source
from bayplan.server.client_ca import AGE_SECONDS, RETRY_SECONDS, ConfigMapCA, FileCA
from bayplan.server.options import PortError, PortOptions
from bayplan.server.pages import Answer, Page, Pages
from bayplan.server.tls import ServingContext

PAGES: Pages = {"/healthz": Page(lambda _: Answer(200, b"ok"))}


def context_of(files: Files) -> ServingContext:
    return ServingContext(files, lambda: b"", "VersionTLS12", ())


def replace(files: Files, pair: tuple[bytes, bytes]) -> None:
    files.certificate.write_bytes(pair[0])
    files.key.write_bytes(pair[1])


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Files:
    return Files(*authority.files("127.0.0.1", tmp_path))


def test_a_certificate_that_changed_is_shown_to_the_next_client(ports: Ports, files: Files) -> None:
    context = context_of(files)
    context.load()
    port = ports.start(PAGES, tls=context)
    later = Authority()
    replace(files, later.issue("127.0.0.1"))
    with pytest.raises(OSError, match="certificate verify failed"):
        Client(port.port, trusting(later)).get("/healthz")
    context.refresh()
    assert Client(port.port, trusting(later)).get("/healthz").status == 200


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda files: files.key.unlink(), id="no key"),
        pytest.param(lambda files: files.certificate.write_bytes(b"rubbish"), id="no certificate"),
        pytest.param(
            lambda files: files.key.write_bytes(Authority().issue("x")[1]), id="another's key"
        ),
    ],
)
def test_what_cannot_be_used_is_said_once_and_changes_nothing(
    ports: Ports,
    files: Files,
    authority: Authority,
    damage: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = context_of(files)
    context.load()
    port = ports.start(PAGES, tls=context)
    assert callable(damage)
    damage(files)
    monkeypatch.setattr(tls, "log", structlog.get_logger())
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            context.refresh()
    assert [line["event"] for line in lines] == [
        "TLS certificates not read; the previous ones stay"
    ]
    assert Client(port.port, trusting(authority)).get("/healthz").status == 200


def test_a_certificate_that_cannot_be_used_at_the_start_is_an_error(files: Files) -> None:
    files.key.write_bytes(b"rubbish")
    with pytest.raises(PortError, match="TLS certificate: "):
        context_of(files).load()


def test_a_self_signed_certificate_is_good_for_this_machine(ports: Ports) -> None:
    pair = source(PortOptions(bind_address="0.0.0.0"))
    context = ServingContext(pair, lambda: b"", "VersionTLS12", ())
    port = ports.start(PAGES, tls=context)
    trust = ssl.create_default_context(cadata=pair().certificate.decode())
    assert Client(port.port, trust).get("/healthz").status == 200
    names = x509.load_pem_x509_certificate(pair().certificate).extensions
    found = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == ["localhost"]
    assert {str(ip) for ip in found.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}


def test_a_folder_gets_a_certificate_that_the_next_process_uses(tmp_path: Path) -> None:
    options = PortOptions(cert_dir=tmp_path / "made", bind_address="10.0.0.1")
    first = certificates.source(options)()
    assert (tmp_path / "made" / "bayplan.key").stat().st_mode & 0o777 == 0o600
    assert certificates.source(options)() == first


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(PortOptions(cert_file=Path("a")), "go together", id="no key"),
        pytest.param(PortOptions(key_file=Path("a")), "go together", id="no certificate"),
        pytest.param(PortOptions(cert_dir=Path("/dev/null/a")), "--cert-dir: ", id="no folder"),
    ],
)
def test_half_a_pair_is_refused(options: PortOptions, text: str) -> None:
    with pytest.raises(PortError, match=text):
        certificates.source(options)


def test_the_lowest_version_is_kept(ports: Ports, authority: Authority) -> None:
    context = serving(authority, min_version="VersionTLS13")
    port = ports.start(PAGES, tls=context)
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError):  # noqa: PT011 - the alert comes in several shapes
        Client(port.port, old).get("/healthz")
    assert Client(port.port, trusting(authority)).get("/healthz").status == 200


def test_only_the_named_suites_are_offered(ports: Ports, authority: Authority) -> None:
    suites = ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]
    port = ports.start(PAGES, tls=serving(authority, cipher_suites=suites))

    def status(cipher: str) -> int:
        client = trusting(authority)
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        client.set_ciphers(cipher)
        return Client(port.port, client).get("/healthz").status

    assert status("ECDHE-ECDSA-AES256-GCM-SHA384") == 200
    with pytest.raises(OSError):  # noqa: PT011 - the alert comes in several shapes
        status("ECDHE-ECDSA-AES128-GCM-SHA256")


@pytest.mark.parametrize("suite", sorted(tls.CIPHER_SUITES))
def test_every_suite_is_one_that_openssl_has(authority: Authority, suite: str) -> None:
    serving(authority, cipher_suites=[suite]).load()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param({"min_version": "VersionTLS11"}, "VersionTLS12 or VersionTLS13", id="version"),
        pytest.param(
            {"cipher_suites": ["TLS_RSA_WITH_RC4_128_SHA"]}, "no suite TLS_RSA", id="suite"
        ),
    ],
)
def test_what_is_not_offered_is_refused(
    authority: Authority, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(PortError, match=text):
        serving(authority, **settings)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_authority_of_clients_is_read_from_the_config_map_now_and_then(
    http: Http, api_server: FaultServer
) -> None:
    clock = Clock()
    api_server.script = lambda exchange: exchange.answer(200, {"data": {"client-ca-file": "one"}})
    authority = ConfigMapCA(http, clock)
    assert authority() == b""
    authority.refresh()
    authority.refresh()
    assert (authority(), len(api_server.requests)) == (b"one", 1)
    api_server.script = lambda exchange: exchange.answer(200, {"data": {"client-ca-file": "two"}})
    clock.now = AGE_SECONDS
    authority.refresh()
    assert authority() == b"two"


def test_an_authority_that_cannot_be_read_is_tried_again_and_the_last_one_stays(
    http: Http, api_server: FaultServer
) -> None:
    clock = Clock()
    api_server.script = lambda exchange: exchange.answer(200, {"data": {"client-ca-file": "one"}})
    authority = ConfigMapCA(http, clock)
    authority.refresh()
    api_server.script = lambda exchange: exchange.error(403, message="forbidden")
    clock.now = AGE_SECONDS
    authority.refresh()
    authority.refresh()
    assert (authority(), len(api_server.requests)) == (b"one", 2)
    clock.now += RETRY_SECONDS
    authority.refresh()
    assert len(api_server.requests) == 3


def test_an_authority_in_a_file_is_read_at_each_look(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(b"one")
    authority = FileCA(path)
    assert authority() == b"one"
    path.write_bytes(b"two")
    assert authority() == b"two"
