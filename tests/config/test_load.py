import base64
import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tests.config.cases import HEADER

from bayplan.config import (
    IN_TREE,
    ConfigError,
    default_configuration,
    load_config,
    parse_config,
    resolve_config,
)
from bayplan.config.args import NodeResourcesFitArgs
from bayplan.config.load import MOST_CHARACTERS


def test_errors_are_led_by_the_file_and_all_told(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        HEADER
        + """
parallelism: 0
profiles:
- plugins:
    score:
      enabled:
      - name: NodeAffinity
      - name: NodeRsourcesFit
"""
    )
    with pytest.raises(ConfigError) as error:
        load_config(file, IN_TREE)
    assert str(error.value).splitlines() == [
        f"{file}: parallelism: must be greater than 0",
        f"{file}: profiles[0].plugins.score.enabled[1].name: "
        'unknown plugin "NodeRsourcesFit" (did you mean NodeResourcesFit?)',
    ]


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "none.yaml", IN_TREE)
    assert str(error.value) == f"{tmp_path}/none.yaml: No such file or directory"


def test_a_file_of_other_bytes_says_so(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"\xe9\n")
    with pytest.raises(ConfigError, match="is no UTF-8 text"):
        load_config(file, IN_TREE)


def test_a_file_that_no_config_map_could_hold_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("#" * (MOST_CHARACTERS + 1))
    with pytest.raises(ConfigError, match="has more than 1048576 characters"):
        load_config(file, IN_TREE)


def test_without_a_file_there_is_one_profile_with_a_lease_of_its_own() -> None:
    effective = resolve_config(default_configuration(), IN_TREE)
    assert [profile.scheduler_name for profile in effective.profiles] == ["bayplan"]
    assert effective.settings.leader_election.resource_name == "bayplan"
    assert effective.warnings == ()


def test_a_file_that_does_not_name_its_profile_is_default_scheduler() -> None:
    effective = parse_config(HEADER, IN_TREE)
    assert [profile.scheduler_name for profile in effective.profiles] == ["default-scheduler"]
    assert effective.warnings == ()


@pytest.mark.parametrize(
    ("election", "warned"),
    [
        ("{}", True),
        ("{leaderElect: false}", False),
        ("{resourceName: mine}", False),
        ("{resourceNamespace: mine}", False),
    ],
)
def test_sharing_the_lease_of_kube_scheduler_is_warned_of(election: str, warned: bool) -> None:
    text = f"{HEADER}leaderElection: {election}\nprofiles: [{{schedulerName: mine}}]\n"
    paths = [warning.path for warning in parse_config(text, IN_TREE).warnings]
    assert paths == (["leaderElection.resourceName"] if warned else [])


def test_resources_that_an_extender_looks_after_alone_are_ignored_in_every_profile() -> None:
    text = f"""{HEADER}
profiles:
- schedulerName: a
  pluginConfig:
  - name: NodeResourcesFit
    args: {{ignoredResources: [example.com/own]}}
- schedulerName: b
- schedulerName: c
  plugins: {{multiPoint: {{disabled: [{{name: NodeResourcesFit}}]}}}}
  pluginConfig: [{{name: NodeResourcesFit}}]
extenders:
- managedResources: [{{name: example.com/a, ignoredByScheduler: true}}, {{name: example.com/b}}]
"""
    a, b, c = parse_config(text, IN_TREE).profiles
    for profile in (a, b):
        args = profile.plugin_args["NodeResourcesFit"]
        assert isinstance(args, NodeResourcesFitArgs)
        assert args.ignored_resources == ("example.com/a",)
    assert "NodeResourcesFit" not in c.plugin_args


def test_only_the_first_document_is_read_and_that_is_said() -> None:
    effective = parse_config(f"{HEADER}---\nparallelism: 0\n", IN_TREE)
    assert [str(warning) for warning in effective.warnings] == [
        "only the first document of the file is read"
    ]


def write_pair(folder: Path, name: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    cert = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36500))
        .sign(key, SHA256())
    )
    pem = cert.public_bytes(Encoding.PEM)
    (folder / f"{name}.pem").write_bytes("# Főtanúsítvány\n".encode() + pem)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{name}.key").write_bytes(secret)


def tls_errors(fields: dict[str, str]) -> list[str]:
    text = f"{HEADER}extenders: [{{tlsConfig: {json.dumps(fields)}}}]\n"
    try:
        parse_config(text, IN_TREE)
    except ConfigError as error:
        return error.lines()
    return []


def test_certificates_of_extenders_are_read_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pair(tmp_path, "a")
    write_pair(tmp_path, "b")
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")  # a read-only root, and no /tmp
    data = base64.b64encode(Path(f"{a}.pem").read_bytes()).decode()
    unusable = "holds no usable PEM data"
    assert tls_errors({"caFile": f"{a}.pem", "certFile": f"{a}.pem", "keyFile": f"{a}.key"}) == []
    assert tls_errors({"caData": data, "certData": data, "keyFile": f"{a}.key"}) == []
    assert tls_errors({"certFile": f"{a}.pem", "keyFile": f"{b}.key"}) == [
        f"extenders[0].tlsConfig.certFile: {unusable}"
    ]
    assert tls_errors({"caFile": f"{a}.key"}) == [f"extenders[0].tlsConfig.caFile: {unusable}"]
    assert tls_errors({"certData": data, "keyFile": f"{a}.pem"}) == [
        f"extenders[0].tlsConfig.certData: {unusable}"
    ]
