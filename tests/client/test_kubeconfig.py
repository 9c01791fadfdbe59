"""Which credentials are found, and what is said about those that are no use."""

from __future__ import annotations

import base64
import ssl
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import incluster_config, kube_config
from tests.certificates import Authority
from tests.client.fault_server import Exchange, FaultServer

from bayplan.client import kubeconfig
from bayplan.client.connection import Connection
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError, load, namespace

GOOD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "main",
    "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"}}],
    "users": [{"name": "u", "user": {"token": "abc"}}],
}


def write(folder: Path, content: object, name: str = "config") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def test_a_kubeconfig_gives_server_and_token(tmp_path: Path) -> None:
    configuration, token_file = load(write(tmp_path, GOOD), {})
    assert configuration.host == "https://127.0.0.1:6443"
    assert configuration.auth_settings()["BearerToken"]["value"] == "Bearer abc"
    assert token_file is None


def test_a_user_without_credentials_is_fine(tmp_path: Path) -> None:
    configuration, _ = load(write(tmp_path, GOOD | {"users": [{"name": "u", "user": {}}]}), {})
    assert configuration.auth_settings() == {}


def test_the_environment_names_the_file_where_no_argument_does(tmp_path: Path) -> None:
    configuration, _ = load(None, {"KUBECONFIG": write(tmp_path, GOOD)})
    assert configuration.host == "https://127.0.0.1:6443"


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    first = write(tmp_path, {k: v for k, v in GOOD.items() if k != "users"}, "first")
    second = write(tmp_path, {"users": [{"name": "u", "user": {"tokenFile": "t"}}]}, "second")
    (tmp_path / "t").write_text("from-file")
    configuration, token_file = load(f"{first}:{second}:/does/not/exist", {})
    assert configuration.host == "https://127.0.0.1:6443"
    assert token_file == tmp_path / "t"


def test_another_context_than_the_current_one_is_used_with_its_user_and_namespace(
    tmp_path: Path,
) -> None:
    other = {"name": "other", "context": {"cluster": "c", "user": "v", "namespace": "shop"}}
    content = GOOD | {
        "contexts": [*GOOD["contexts"], other],
        "users": [*GOOD["users"], {"name": "v", "user": {"tokenFile": "t"}}],
    }
    path = write(tmp_path, content)
    (tmp_path / "t").write_text("of-v")
    assert load(Kubeconfig(path, "other"), {})[1] == tmp_path / "t"
    assert load(Kubeconfig(path), {})[1] is None
    assert namespace(Kubeconfig(path, "other"), {}) == "shop"
    assert namespace(path, {}) == "default"
    with pytest.raises(KubeconfigError, match="nowhere"):
        load(Kubeconfig(path, "nowhere"), {})


@pytest.mark.parametrize("content", ["", "a: [", GOOD | {"contexts": [{}]}])
def test_a_broken_kubeconfig_names_no_namespace(tmp_path: Path, content: object) -> None:
    assert namespace(write(tmp_path, content), {}) == "default"


def exec_user(command: str) -> dict[str, Any]:
    api = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": api, "command": command, "interactiveMode": "Never"}}
    return GOOD | {"users": [{"name": "u", "user": user}]}


def test_an_exec_plugin_gives_the_token(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"from-plugin"}}\'\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    configuration, _ = load(write(tmp_path, exec_user(str(plugin))), {})
    assert configuration.auth_settings()["BearerToken"]["value"] == "Bearer from-plugin"


def without(*keys: str) -> dict[str, object]:
    return {k: v for k, v in GOOD.items() if k not in keys}


BROKEN = [
    pytest.param("", "not a kubeconfig (no mapping at the top)", id="empty"),
    pytest.param("- a\n", "not a kubeconfig (no mapping at the top)", id="a list"),
    pytest.param("a: [\n", "not valid YAML at line 2:", id="no YAML"),
    pytest.param("\0", "not valid YAML", id="a binary file"),
    pytest.param(without("current-context"), "current-context", id="no current context"),
    pytest.param(without("contexts"), "main", id="no contexts"),
    pytest.param(without("clusters"), "Expected object with name c", id="no clusters"),
    pytest.param(GOOD | {"contexts": [{}]}, "name", id="a context without a name"),
    pytest.param(GOOD | {"clusters": 5}, "int", id="a number for a list"),
    pytest.param(exec_user("/does/not/exist"), "exec plugin /does/not/exist gave", id="exec"),
]


@pytest.mark.parametrize(("content", "expected"), BROKEN)
def test_a_broken_kubeconfig_is_named_with_what_is_wrong(
    tmp_path: Path,
    content: dict[str, Any] | str,
    expected: str,
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(KubeconfigError) as caught:
        load(path, {})
    message = str(caught.value)
    assert message.startswith(f"kubeconfig {path}: ")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("path", "environ", "expected"),
    [
        pytest.param("/no/file", {}, "kubeconfig /no/file: no such file", id="argument"),
        pytest.param(None, {"KUBECONFIG": "/no/file"}, "/no/file: no such file (and", id="env"),
        pytest.param(None, {}, "no such file (and this is no Pod", id="nothing at all"),
    ],
)
def test_a_missing_kubeconfig_is_named(
    path: str | None,
    environ: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(kubeconfig, "DEFAULT_PATH", str(tmp_path / "none"))
    with pytest.raises(KubeconfigError) as caught:
        load(path, environ)
    assert expected in str(caught.value)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(KubeconfigError, match="not a text file"):
        load(str(path), {})


@pytest.fixture
def service_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that a Pod has its service account's files in."""
    (tmp_path / "token").write_text("from-account")
    (tmp_path / "ca.crt").write_text("PEM")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


def test_in_a_pod_the_service_account_is_used(service_account: Path) -> None:
    configuration, token_file = load(None)
    assert configuration.host == "https://10.0.0.1:443"
    assert configuration.ssl_ca_cert == str(service_account / "ca.crt")
    assert token_file == service_account / "token"


def test_a_refused_token_of_the_service_account_is_read_again_at_once(
    service_account: Path, server: FaultServer
) -> None:
    configuration, token_file = load(None)
    configuration.host = server.url
    connection = Connection(configuration, token_file)
    connection.headers()
    (service_account / "token").write_text("renewed")

    def answer(exchange: Exchange) -> None:
        if exchange.headers["Authorization"] == "Bearer renewed":
            exchange.answer()
        else:
            exchange.error(401, "Unauthorized")

    server.script = answer
    Http(connection).get("/a")
    used = [request.headers["Authorization"] for request in server.requests]
    assert used == ["Bearer from-account", "Bearer renewed"]


def test_a_pod_without_a_service_account_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(KubeconfigError, match="in-cluster credentials: Service token file"):
        load(None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_an_exec_plugin_gives_a_certificate_that_no_folder_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"clientCertificateData":"CERT","clientKeyData":"KEY"}}\'\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(kubeconfig, "SHARED_MEMORY", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    configuration, _ = load(write(tmp_path, exec_user(str(plugin))), {})
    assert Path(configuration.cert_file).read_text() == "CERT"
    assert Path(configuration.key_file).read_text() == "KEY"
    assert list(shared.iterdir()) == []


def test_inline_authorities_stay_readable_when_the_token_is_read(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1", "certificate-authority-data": encoded(b"PEM")}
    path = write(tmp_path, GOOD | {"clusters": [{"name": "c", "cluster": cluster}]})
    for _ in range(2):  # the official loader remembers the files of the first time
        configuration, _token_file = load(path, {})
        for _ in range(2):  # each time it sets its own paths again
            assert configuration.auth_settings()["BearerToken"]["value"] == "Bearer abc"
            assert Path(configuration.ssl_ca_cert).read_text() == "PEM"


def test_no_function_of_the_official_client_is_replaced(tmp_path: Path) -> None:
    load(write(tmp_path, GOOD), {})
    modules = [getattr(value, "__module__", None) or "" for value in vars(kube_config).values()]
    assert not [module for module in modules if module.startswith("bayplan")]


def test_inline_certificates_are_shown_to_the_server_and_written_nowhere(
    tmp_path: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.files("server", tmp_path))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.ca.decode())
    server.socket = context.wrap_socket(server.socket, server_side=True)
    cert, key = authority.issue("scheduler")
    user = {"client-certificate-data": encoded(cert), "client-key-data": encoded(key)}
    cluster = {
        "server": server.url.replace("http:", "https:"),
        "certificate-authority-data": encoded(authority.ca),
        "tls-server-name": "server",
    }
    document = GOOD | {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = write(tmp_path, document)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")  # a read-only root, and no /tmp
    configuration, _ = load(path, {})
    seen = []

    def script(exchange: Exchange) -> None:
        seen.append(exchange.connection.getpeercert())
        exchange.answer(200, {})

    server.script = script
    Http(Connection(configuration), max_tries=1).get("/api")
    assert seen[0]["subject"] == ((("commonName", "scheduler"),),)
