"""The manifests of deploy/ agree with each other and with the scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan import __version__
from bayplan.api.kinds import NODE_KIND, POD_GROUP, QUEUE, Kind
from bayplan.config import IN_TREE, parse_config
from bayplan.improve.orders import SUFFIX
from bayplan.server.options import PROBES, SECURE_PORT

DEPLOY = Path(__file__).parents[2] / "deploy"


def manifest(name: str) -> Any:
    """The one document of a file in deploy/."""
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


KUSTOMIZATIONS = sorted(
    str(file.parent.relative_to(DEPLOY)) for file in DEPLOY.rglob("kustomization.yaml")
)
INSTEAD = "overlays/instead-of-kube-scheduler"


@pytest.mark.parametrize("folder", KUSTOMIZATIONS)
def test_every_file_that_a_kustomization_names_is_there(folder: str) -> None:
    kustomization = manifest(f"{folder}/kustomization.yaml")
    maps = kustomization.get("configMapGenerator", [])
    files = [file for one in maps for file in one["files"]]
    names = [*kustomization["resources"], *files]
    assert [name for name in names if not (DEPLOY / folder / name).exists()] == []


COMPONENTS = sorted(
    str(file.relative_to(DEPLOY))
    for file in (DEPLOY / "components").rglob("*.yaml")
    if file.name != "kustomization.yaml"
)


@pytest.mark.parametrize("file", COMPONENTS)
def test_what_a_component_adds_is_where_bayplan_is(file: str) -> None:
    """A base that is named beside it gives its namespace to its own objects only."""
    namespace = manifest("base/kustomization.yaml")["namespace"]
    for one in yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8")):
        if not one["kind"].startswith(("Cluster", "APIService")):
            assert one["metadata"]["namespace"] == namespace


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("base/config.yaml", {"bayplan"}),
        (f"{INSTEAD}/config.yaml", {"default-scheduler"}),
        ("shadow/config.yaml", {"default-scheduler"}),
    ],
)
def test_every_configuration_is_one_that_bayplan_takes(file: str, names: set[str]) -> None:
    profiles = parse_config((DEPLOY / file).read_text(encoding="utf-8"), IN_TREE).profiles
    assert {profile.scheduler_name for profile in profiles} == names


def test_the_configuration_places_groups() -> None:
    text = (DEPLOY / "base/config.yaml").read_text(encoding="utf-8")
    (profile,) = parse_config(text, IN_TREE).profiles
    assert any(p.name == "Coscheduling" for plugins in profile.plugins.values() for p in plugins)


@pytest.mark.parametrize("kind", [POD_GROUP, QUEUE, NODE_KIND], ids=repr)
def test_the_custom_resource_is_the_one_that_is_watched(kind: Kind[Any]) -> None:
    spec = manifest(f"crds/{kind.plural}.yaml")["spec"]
    version = spec["versions"][0]["name"]
    assert f"{spec['group']}/{version}" == kind.api_version
    assert (spec["names"]["kind"], spec["names"]["plural"]) == (kind.name, kind.plural)
    assert (spec["scope"] == "Namespaced") is kind.namespaced


def test_the_image_has_the_version_of_the_package() -> None:
    (image,) = manifest("base/kustomization.yaml")["images"]
    assert image["newTag"] == __version__


def test_the_lease_of_the_configuration_is_the_one_that_may_be_written() -> None:
    lease = manifest("base/config.yaml")["leaderElection"]["resourceName"]
    documents = yaml.safe_load_all((DEPLOY / "base/rbac.yaml").read_text(encoding="utf-8"))
    rules = [rule for one in documents if one["kind"] == "Role" for rule in one["rules"]]
    named = [rule["resourceNames"] for rule in rules if "resourceNames" in rule]
    assert named == [[lease], [lease + SUFFIX]]


def test_in_the_place_of_kube_scheduler_its_lease_may_be_written() -> None:
    lease = manifest(f"{INSTEAD}/config.yaml")["leaderElection"]["resourceName"]
    (patch,) = manifest(f"{INSTEAD}/kustomization.yaml")["patches"]
    assert [change["value"] for change in yaml.safe_load(patch["patch"])] == [
        [lease],
        [lease + SUFFIX],
    ]


@pytest.mark.parametrize("name", ["base/service.yaml", "base/pod-disruption-budget.yaml"])
def test_what_selects_the_replicas_selects_their_labels(name: str) -> None:
    selector = manifest(name)["spec"]["selector"]
    labels = selector.get("matchLabels", selector)
    template = manifest("base/deployment.yaml")["spec"]["template"]
    assert labels.items() <= template["metadata"]["labels"].items()


def test_every_mounted_folder_is_a_volume() -> None:
    pod = manifest("base/deployment.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def container() -> Any:
    """The container of the replicas."""
    (found,) = manifest("base/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    return found


def test_probes_ask_for_pages_that_are_open_to_everybody() -> None:
    names = ("startupProbe", "livenessProbe", "readinessProbe")
    probes = [container()[name]["httpGet"] for name in names]
    assert {probe["path"] for probe in probes} <= set(PROBES)
    assert {(probe["port"], probe["scheme"]) for probe in probes} == {("https", "HTTPS")}


def test_services_monitors_and_policies_name_ports_that_there_are() -> None:
    (port,) = container()["ports"]
    assert port == {"name": "https", "containerPort": SECURE_PORT}
    (service,) = manifest("base/service.yaml")["spec"]["ports"]
    assert service["targetPort"] == port["name"]
    (endpoint,) = manifest("components/monitoring/service-monitor.yaml")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == (service["name"], "https")
    (rule,) = manifest("components/network-policy/network-policy.yaml")["spec"]["ingress"]
    assert [one["port"] for one in rule["ports"]] == [port["name"]]


def test_the_static_pod_is_the_one_of_the_deployment_but_for_its_files() -> None:
    static = manifest("static-pod.yaml")
    deployed = manifest("base/deployment.yaml")["spec"]["template"]["spec"]
    (container,), (other,) = static["spec"]["containers"], deployed["containers"]
    for field in ("ports", "resources", "securityContext"):
        assert container[field] == other[field]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe] == other[probe]
    assert static["spec"]["securityContext"] == deployed["securityContext"]
    assert container["image"] == f"bayplan:{__version__}"


def _rules(file: str, name: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8"))
    roles = [one for one in documents if one["kind"] == "ClusterRole"]
    [rules] = [role["rules"] for role in roles if role["metadata"]["name"] == name]
    return rules  # type: ignore[no-any-return]


def test_a_shadow_may_list_and_watch_what_the_scheduler_does_and_nothing_else() -> None:
    allowed = _rules("shadow/rbac.yaml", "bayplan-shadow")
    assert {verb for rule in allowed for verb in rule["verbs"]} == {"list", "watch"}
    watched = [rule for rule in _rules("base/rbac.yaml", "bayplan") if "watch" in rule["verbs"]]
    assert allowed == watched
    documents = yaml.safe_load_all((DEPLOY / "shadow/rbac.yaml").read_text(encoding="utf-8"))
    kinds = [one["kind"] for one in documents]
    assert kinds == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
