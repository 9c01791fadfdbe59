"""`make run` in a cluster of somebody else: what is theirs stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO

import pytest
import yaml

from e2e.cluster import DEPLOY, SOON, SYSTEM, Cluster, Json
from e2e.demo import BORROWER, LENT, main
from e2e.provider import ControlPlane, NodeSpec, create_nodes, provide, wait_until
from e2e.provider.choose import chosen
from e2e.provider.golang import ROOT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not chosen().owns_parts, reason="needs a cluster that is ours to lend"),
]

TRANSIENT = {"Event", "Lease", "Pod", "EndpointSlice", "Endpoints"}
"""Kinds that change by themselves."""


class Theirs:
    """A cluster of somebody else, with a node that takes Pods."""

    def __init__(self, plane: ControlPlane) -> None:
        self.kubectl = Cluster(plane).kubectl
        plane.start_controller_manager()
        plane.start_kwok()
        create_nodes(plane.kubeconfig, [NodeSpec("theirs")])
        self.folder = plane.folder

    def objects(self) -> dict[tuple[str, ...], Json]:
        """Uid, labels and spec of all that is in the cluster, by kind, namespace and name."""
        kinds = self.kubectl("api-resources", "--verbs=list,get", "-o=name").split()
        answer = self.kubectl("get", ",".join(kinds), "--all-namespaces", "-o=json")
        return {
            (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): {
                "uid": one["metadata"].get("uid"),
                "labels": one["metadata"].get("labels"),
                "spec": one.get("spec"),
            }
            for one in json.loads(answer)["items"]
            if one["kind"] not in TRANSIENT
        }


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with provide() as running:
        yield running


@pytest.fixture(scope="module")
def theirs(plane: ControlPlane) -> Theirs:
    return Theirs(plane)


@pytest.fixture(autouse=True)
def _environment(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make run` is given, but for CORDON."""
    monkeypatch.setenv("PROVIDER", "existing")
    monkeypatch.setenv("BAYPLAN_KUBECONFIG", str(plane.kubeconfig))
    monkeypatch.setenv("ONCE", "1")
    monkeypatch.setattr("sys.stdin", StringIO())


@pytest.fixture
def tenants(theirs: Theirs) -> Iterator[str]:
    """Namespaces and Queues of the names that those of the demo have."""
    theirs.kubectl("apply", "-k", str(DEPLOY / "crds"))
    theirs.kubectl("wait", "--for=condition=Established", "crd", "--all")
    theirs.kubectl("create", "-f", str(LENT))
    yield f"Namespace {BORROWER}"
    theirs.kubectl("delete", "-f", str(LENT))
    theirs.kubectl("delete", "-k", str(DEPLOY / "crds"))


@pytest.fixture
def release(theirs: Theirs) -> Iterator[str]:
    """A bayplan of another name in another namespace, as the chart installs it."""
    documents = theirs.kubectl("kustomize", str(DEPLOY))
    [deployment] = [d for d in yaml.safe_load_all(documents) if d["kind"] == "Deployment"]
    deployment["metadata"] |= {"name": "second", "namespace": "default"}
    deployment["spec"]["replicas"] = 0
    path = theirs.folder / "release.yaml"
    path.write_text(yaml.safe_dump(deployment))
    theirs.kubectl("create", "-f", str(path))
    yield "Deployment second in default"
    theirs.kubectl("delete", "-f", str(path))


@pytest.fixture
def account(theirs: Theirs) -> Iterator[str]:
    """One object of deploy/."""
    theirs.kubectl("create", "serviceaccount", "bayplan", namespace=SYSTEM)
    yield "ServiceAccount bayplan in kube-system"
    theirs.kubectl("delete", "serviceaccount", "bayplan", namespace=SYSTEM)


def refusal() -> str:
    """Run the demo; why it ends before it has begun."""
    with pytest.raises(SystemExit) as ended:
        main()
    return str(ended.value)


@pytest.mark.parametrize("what", ["tenants", "release", "account"])
def test_a_cluster_that_has_any_of_it_is_refused_and_nothing_in_it_is_touched(
    theirs: Theirs, what: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORDON", "yes")
    name = request.getfixturevalue(what)
    before = theirs.objects()
    assert name in refusal()
    assert theirs.objects() == before


@pytest.mark.parametrize("answer", ["", "no"])
def test_its_nodes_are_not_cordoned_without_a_yes(
    theirs: Theirs, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORDON", answer)
    before = theirs.objects()
    why = refusal()
    nodes = [name for kind, _, name in sorted(before) if kind == "Node"]
    assert "theirs" in nodes
    assert f"these nodes are cordoned: {', '.join(nodes)};" in why
    assert "CORDON=yes" in why
    assert theirs.objects() == before


def test_the_demo_leaves_the_cluster_as_it_was(theirs: Theirs) -> None:
    before = theirs.objects()
    run = subprocess.run(
        [sys.executable, "-m", "e2e.demo"],
        cwd=ROOT,
        env=os.environ | {"CORDON": "yes"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "all 20 Pods are as expected" in run.stdout
    wait_until(lambda: theirs.objects() == before, SOON, "the cluster as it was")
