"""Choosing a control plane, its files, and the nodes made in it; no server needed."""

from pathlib import Path

import pytest
import yaml
from cryptography import x509
from e2e.provider import (
    ControlPlane,
    GoProgram,
    NodeSpec,
    StartError,
    Taint,
    UnsupportedError,
    golang,
    provide,
    token_kubeconfig,
    wait_until,
)
from e2e.provider import choose as choose_module
from e2e.provider.choose import chosen
from e2e.provider.kubeconfig import cert_kubeconfig, current_cluster
from e2e.provider.pki import Authority


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PROVIDER", "BAYPLAN_KUBECONFIG", "KUBECONFIG", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BAYPLAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(choose_module, "kind_answers", lambda: False)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, "build", id="nothing at hand"),
        pytest.param({"KUBECONFIG": "/k"}, "build", id="a KUBECONFIG is not a wish"),
        pytest.param({"KUBEBUILDER_ASSETS": "/nowhere"}, "build", id="no binaries there"),
        pytest.param({"BAYPLAN_KUBECONFIG": "/k"}, "existing", id="a kubeconfig for us"),
        pytest.param({"PROVIDER": "assets"}, "assets", id="PROVIDER decides"),
        pytest.param({"PROVIDER": "kind", "BAYPLAN_KUBECONFIG": "/k"}, "kind", id="over the rest"),
    ],
)
def test_the_environment_chooses_the_provider(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert chosen().provider == expected


def test_kind_comes_before_binaries_where_docker_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert chosen().provider == "assets"
    monkeypatch.setattr(choose_module, "kind_answers", lambda: True)
    assert chosen().provider == "kind"


def test_an_unknown_provider_is_named_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r"'minikube'.*existing, kind, assets, build"):
        provide(provider="minikube")


def test_an_existing_cluster_needs_a_kubeconfig_that_is_there() -> None:
    with pytest.raises(StartError, match="no kubeconfig"), provide(provider="existing"):
        pass


@pytest.mark.parametrize("provider", ["existing", "kind"])
def test_an_api_server_of_somebody_else_takes_no_flags(provider: str) -> None:
    cluster = provide("--v=4", provider=provider)
    with pytest.raises(UnsupportedError):
        cluster.start()
    ControlPlane.stop(cluster)


def test_a_stopped_control_plane_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BAYPLAN_KUBECONFIG", str(_kubeconfig(tmp_path)))
    with provide() as cluster:
        assert cluster.folder.is_dir()
        assert cluster.start_kube_scheduler() is None
    assert not cluster.folder.exists()


def test_the_folder_of_a_killed_run_is_removed_and_that_of_a_live_one_is_not() -> None:
    live, killed = provide(provider="build"), provide(provider="build")
    killed._lock.close()  # what the kernel does when the process ends
    another = provide(provider="build")
    assert live.folder.exists()
    assert not killed.folder.exists()
    live.stop()
    another.stop()


def _kubeconfig(folder: Path) -> Path:
    authority = Authority(folder / "pki")
    pair = authority.issue("admin", "admin", "system:masters")
    return cert_kubeconfig(folder / "admin", "https://127.0.0.1:1", authority.cert, pair)


def test_a_token_kubeconfig_is_for_the_same_cluster_and_holds_no_certificate(
    tmp_path: Path,
) -> None:
    admin = _kubeconfig(tmp_path)
    path = token_kubeconfig(tmp_path / "token", admin, "secret")
    assert current_cluster(path) == current_cluster(admin)
    assert yaml.safe_load(path.read_text())["users"][0]["user"] == {"token": "secret"}
    assert path.stat().st_mode & 0o077 == 0


def test_a_kubeconfig_without_its_current_context_is_an_error(tmp_path: Path) -> None:
    path = _kubeconfig(tmp_path)
    path.write_text(path.read_text().replace("current-context: ", "current-context: not-"))
    with pytest.raises(LookupError, match="not-bayplan"):
        current_cluster(path)


def test_certificates_are_signed_by_their_authority_and_keys_are_private(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.issue("scheduler", "system:kube-scheduler", "a-group")
    cert = x509.load_pem_x509_certificate(pair.cert.read_bytes())
    cert.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.cert.read_bytes()))
    assert cert.subject.rfc4514_string() == "O=a-group,CN=system:kube-scheduler"
    assert pair.key.stat().st_mode & 0o077 == 0


def _program(module: Path, **changes: str) -> GoProgram:
    return GoProgram("tool", module, "./tool", changes)


def _module(folder: Path) -> Path:
    (folder / "tool").mkdir(parents=True)
    (folder / "go.mod").write_text("module m\n\ngo 1.26.0\n")
    (folder / "go.sum").touch()
    (folder / "tool" / "main.go").write_text("package main\nfunc main() {}\n")
    return folder


def test_a_program_keeps_its_key_wherever_the_checkout_is(tmp_path: Path) -> None:
    assert _program(_module(tmp_path / "a"))._key() == _program(_module(tmp_path / "b"))._key()


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "tool/main.go"])
def test_a_changed_source_is_another_program(tmp_path: Path, file: str) -> None:
    module = _module(tmp_path / "m")
    before = _program(module)._key()
    (module / file).write_text("changed")
    assert _program(module)._key() != before


def test_a_changed_variable_is_another_program(tmp_path: Path) -> None:
    module = _module(tmp_path / "m")
    assert _program(module, version="1")._key() != _program(module, version="2")._key()


def test_a_node_has_the_labels_and_resources_of_its_specification() -> None:
    node = NodeSpec("n1", zone="a", gpus=2, labels={"x": "y"}, images={"i": 5}).manifest()
    labels = node["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "n1"
    assert labels["topology.kubernetes.io/zone"] == "a"
    assert labels["x"] == "y"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert node["status"]["images"] == [{"names": ["i"], "sizeBytes": 5}]


def test_a_node_can_be_tainted_cordoned_and_without_zone() -> None:
    node = NodeSpec("n1", taints=(Taint("k", "v", "NoExecute"),), unschedulable=True).manifest()
    assert node["spec"]["taints"] == [{"key": "k", "value": "v", "effect": "NoExecute"}]
    assert node["spec"]["unschedulable"] is True
    assert "topology.kubernetes.io/zone" not in node["metadata"]["labels"]
    assert "nvidia.com/gpu" not in node["status"]["capacity"]


def test_waiting_returns_the_first_true_answer() -> None:
    answers = iter([0, None, "yes", "later"])
    assert wait_until(lambda: next(answers), 5, "an answer", interval=0) == "yes"


def test_waiting_in_vain_says_what_for() -> None:
    with pytest.raises(TimeoutError, match="a miracle: not within 0 s"):
        wait_until(list, 0, "a miracle")


GO = """#!/bin/sh
case "$1" in
  list) echo 'go: downloading a v1'; echo; printf 'b\\nc\\nm/tool\\n' ;;
  build) while [ "$1" != -o ]; do shift; done; printf 'b\\nc\\nm/tool\\n'; touch "$2" ;;
esac
"""


def test_a_build_says_how_much_of_it_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go = tmp_path / "go"
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setattr(golang, "toolchain", lambda _: go)
    monkeypatch.setattr(golang, "PROGRESS", 0.0)
    assert _program(_module(tmp_path / "m")).binary().exists()
    said = [line.partition(" s: ")[2] for line in capsys.readouterr().err.splitlines()]
    shown = ["1 modules downloaded"] * 5 + [f"{n} of 3 packages compiled" for n in (1, 2, 3)]
    assert [line for line in said if line] == shown
