"""The chart, rendered by helm: the same objects as deploy/, and what its values change."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.config import IN_TREE, parse_config
from e2e.cluster import DEPLOY, NAME, SYSTEM, Json
from e2e.deployment import CHART, helm
from e2e.provider.programs import program

pytestmark = pytest.mark.e2e

Objects = dict[tuple[str, str], Json]


def render(home: Path, namespace: str = SYSTEM, release: str = NAME, **values: object) -> Objects:
    """The objects of a release by kind and name."""
    flags = [f"--namespace={namespace}"]
    flags += [f"--set-json={key.replace('__', '.')}={json.dumps(v)}" for key, v in values.items()]
    run = helm("template", release, str(CHART), *flags, home=home)
    assert run.returncode == 0, run.stderr
    return by_name(run.stdout)


def by_name(text: str) -> Objects:
    documents = [one for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def comparable(objects: Objects) -> Objects:
    """Without what the two tools add, each in its way: labels, and what rolls the Deployment."""
    result: Objects = {}
    for (kind, _), one in objects.items():
        one["metadata"].pop("labels", None)
        if kind == "ConfigMap":
            one["metadata"]["name"] = f"{NAME}-config"
            one["data"] = {file: yaml.safe_load(text) for file, text in one["data"].items()}
        if kind == "Deployment":
            template = one["spec"]["template"]
            template["metadata"].pop("annotations", None)
            for volume in template["spec"].get("volumes", ()):
                if volume["name"] == "config":
                    volume["configMap"]["name"] = f"{NAME}-config"
        result[kind, one["metadata"]["name"]] = one
    return result


def kustomized(folder: Path) -> Objects:
    """The objects of a kustomization but for CRDs, which a chart does not own."""
    kubectl = [str(program("kubectl")), "kustomize", str(folder)]
    objects = comparable(by_name(subprocess.check_output(kubectl, text=True)))
    return {key: one for key, one in objects.items() if key[0] != "CustomResourceDefinition"}


@pytest.mark.parametrize(
    ("folder", "values"),
    [
        (".", {}),
        ("overlays/with-controllers", {"controllers__enabled": True}),
        ("overlays/with-api", {"api__enabled": True}),
    ],
    ids=["no values", "with controllers", "with the API"],
)
def test_it_is_what_deploy_is(tmp_path: Path, folder: str, values: dict[str, Any]) -> None:
    ours, theirs = kustomized(DEPLOY / folder), comparable(render(tmp_path, **values))
    assert theirs.keys() == ours.keys()
    for key, one in ours.items():
        assert theirs[key] == one


def test_the_controllers_of_another_release_have_a_lease_of_their_own(tmp_path: Path) -> None:
    arguments = ["--scheduler-name=plans"]
    values: dict[str, Any] = {
        "controllers__enabled": True,
        "controllers__extraArgs": arguments,
    }
    objects = render(tmp_path, "plans", "second", **values)
    pod = objects["Deployment", "second-controllers"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "second-controllers"
    assert pod["containers"][0]["args"] == [
        "controllers",
        "--lease-name=second-controllers",
        "--lease-namespace=plans",
        *arguments,
    ]
    [subject] = objects["ClusterRoleBinding", "second-controllers"]["subjects"]
    assert (subject["name"], subject["namespace"]) == ("second-controllers", "plans")


def test_the_api_of_another_release_asks_that_one_and_shows_its_certificate(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "api__enabled": True,
        "api__tlsSecret": "second-tls",
        "api__caBundle": "Y2E=",
    }
    objects = render(tmp_path, "plans", "second", **values)
    spec = objects["APIService", "v1alpha1.view.bayplan.dev"]["spec"]
    assert spec["service"] == {"name": "second-api", "namespace": "plans", "port": 443}
    assert (spec["caBundle"], "insecureSkipTLSVerify" in spec) == ("Y2E=", False)
    pod = objects["Deployment", "second-api"]["spec"]["template"]["spec"]
    [container], [volume] = pod["containers"], pod["volumes"]
    assert pod["serviceAccountName"] == "second-api"
    assert container["args"][:2] == ["api", "--lease=plans/second"]
    assert volume["secret"] == {"secretName": "second-tls"}
    assert objects["Role", "second-api"]["rules"][0]["resourceNames"] == ["second"]
    binding = objects["RoleBinding", "second-api-authentication"]
    assert binding["metadata"]["namespace"] == SYSTEM
    [subject] = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("second-api", "plans")


def test_helm_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    run = helm("lint", "--strict", str(CHART), home=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_it_has_the_version_of_the_package() -> None:
    from bayplan import __version__  # noqa: PLC0415

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_a_release_of_another_name_and_namespace_names_all_its_own_objects(tmp_path: Path) -> None:
    objects = render(tmp_path, "plans", "second")
    assert {name for _, name in objects} == {"second", "second-leader", "second-config"}
    config = yaml.safe_load(objects["ConfigMap", "second-config"]["data"]["config.yaml"])
    assert config["leaderElection"]["resourceName"] == "second"
    assert config["leaderElection"]["resourceNamespace"] == "plans"
    role = objects["Role", "second-leader"]
    assert role["metadata"]["namespace"] == "plans"
    assert leases(role) == [["second"], ["second-improve"]]
    for (kind, _), one in objects.items():
        for subject in one.get("subjects", ()):
            assert (subject["name"], subject["namespace"]) == ("second", "plans"), kind
        assert one["metadata"].get("namespace", "plans") == "plans"


def leases(role: Json) -> list[list[str]]:
    """Which objects the rules of a role name."""
    return [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]


def test_who_applies_plans_has_the_roles_of_deploy(tmp_path: Path) -> None:
    objects = render(tmp_path, rbac__improve=True)
    for one in yaml.safe_load_all((DEPLOY / "components/improve/users.yaml").read_text()):
        made = objects[one["kind"], one["metadata"]["name"]]
        made["metadata"].pop("labels")
        assert made == one


def test_who_applies_plans_of_another_release_may_write_its_lease(tmp_path: Path) -> None:
    config = {"leaderElection": {"resourceName": "third", "resourceNamespace": "leases"}}
    objects = render(tmp_path, "plans", "second", rbac__improve=True, config=config)
    role = objects["Role", "second-improve"]
    assert role["metadata"]["namespace"] == "leases"
    assert leases(role) == [["third-improve"]]
    assert leases(objects["ClusterRole", "second-improve"]) == [[SYSTEM]]


def test_instead_of_kube_scheduler_it_may_write_that_lease(tmp_path: Path) -> None:
    lease = {"resourceName": "kube-scheduler", "resourceNamespace": SYSTEM}
    config = {"leaderElection": lease, "profiles": [{"schedulerName": "default-scheduler"}]}
    objects = render(tmp_path, "plans", config=config)
    role = objects["Role", f"{NAME}-leader"]
    assert role["metadata"]["namespace"] == SYSTEM
    assert leases(role) == [["kube-scheduler"], ["kube-scheduler-improve"]]
    text = objects["ConfigMap", f"{NAME}-config"]["data"]["config.yaml"]
    [profile] = parse_config(text, IN_TREE).profiles
    assert profile.scheduler_name == "default-scheduler"


def test_plugins_and_the_rights_that_they_need_come_with_the_release(tmp_path: Path) -> None:
    rule = {"apiGroups": ["example.com"], "resources": ["windows"], "verbs": ["list", "watch"]}
    files = {"avoid_node.py": "from bayplan.framework import Plugin\n"}
    objects = render(tmp_path, plugins=files, rbac__extraRules=[rule], logLevel=5)
    assert objects["ConfigMap", f"{NAME}-plugins"]["data"] == files
    assert objects["ClusterRole", NAME]["rules"][-1] == rule
    [container] = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    assert "-v=5" in container["args"]


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--set=replicas=many", "replicas"),
        ("--set=replica=3", "replica"),
        ("--set=image.repository=", "repository"),
        ('--set-json=plugins={"a/b.py": ""}', "a/b.py"),
    ],
    ids=["no number", "no such value", "no image", "no file name"],
)
def test_a_wrong_value_is_refused_by_name(tmp_path: Path, flag: str, why: str) -> None:
    run = helm("template", NAME, str(CHART), flag, home=tmp_path)
    assert run.returncode != 0
    assert why in run.stderr


def test_a_shadow_is_what_deploy_has_and_judges_by_the_profile_of_the_values(
    tmp_path: Path,
) -> None:
    profile = {"schedulerName": "default-scheduler", "percentageOfNodesToScore": 50}
    values: dict[str, Any] = {"shadow__enabled": True, "shadow__config": {"profiles": [profile]}}
    objects = render(tmp_path, **values, replicas=0)
    name = f"{NAME}-shadow"
    for file in ("rbac", "service"):
        for one in yaml.safe_load_all((DEPLOY / "shadow" / f"{file}.yaml").read_text()):
            made = objects[one["kind"], name]
            made["metadata"].pop("labels")
            assert made == one
    config = parse_config(objects["ConfigMap", f"{name}-config"]["data"]["config.yaml"], IN_TREE)
    assert config.profiles[0].percentage_of_nodes_to_score == 50
    pod = objects["Deployment", name]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == name
    assert pod["containers"][0]["image"] == "bayplan:0.1.0"
    assert objects["Deployment", NAME]["spec"]["replicas"] == 0


def test_a_shadow_of_another_release_has_names_of_its_own(tmp_path: Path) -> None:
    objects = render(tmp_path, "plans", "second", fullnameOverride="second", shadow__enabled=True)
    pod = objects["Deployment", "second-shadow"]["spec"]["template"]["spec"]
    assert pod["volumes"][0]["configMap"]["name"] == "second-shadow-config"
    [subject] = objects["ClusterRoleBinding", "second-shadow"]["subjects"]
    assert (subject["name"], subject["namespace"]) == ("second-shadow", "plans")
