"""deploy/base/rbac.yaml grants what is asked for, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.client.permissions import (
    AGGREGATED,
    AGGREGATED_NAMESPACE,
    ELECTION,
    Permissions,
    cluster_wide,
)

from bayplan.aggregated.resources import GROUP, resources
from bayplan.api.kinds import (
    APP_GROUP,
    COMPOSITE_POD_GROUP,
    ELASTIC_QUOTA,
    JOB,
    JOB_SET,
    KINDS,
    KUBERNETES_POD_GROUP,
    LEADER_WORKER_SET,
    NETWORK_TOPOLOGY,
    NODE_KIND,
    NODE_RESOURCE_TOPOLOGY,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    TOPOLOGY,
    Kind,
)
from bayplan.config import (
    default_configuration,
    load_config,
    parse_feature_gates,
    resolve_config,
)
from bayplan.engine.registry import Registry

BASE = Path(__file__).parents[2] / "deploy" / "base"
COMPONENTS = BASE.parent / "components"
RBAC = BASE / "rbac.yaml"


OPT_IN: dict[str, list[Kind[Any]]] = {
    "node-resource-topology": [NODE_RESOURCE_TOPOLOGY],
    "network-overhead": [APP_GROUP, NETWORK_TOPOLOGY],
}
"""Granted by a component of deploy/, for the plugins that read them."""
_OPT_IN = {kind for kinds in OPT_IN.values() for kind in kinds}
OF_PLUGINS = {ELASTIC_QUOTA, JOB, JOB_SET, LEADER_WORKER_SET} | _OPT_IN
"""Only for plugins that deploy/ does not enable, or with arguments that it does not have."""


def granted(role: str, path: Path = RBAC) -> Permissions:
    """The verbs of the rules of all roles of that kind (Role, ClusterRole), by resource."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(path.read_text()))
    verbs: dict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)
    for rule in (r for d in documents if d["kind"] == role for r in d["rules"]):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs[group, resource] |= frozenset(rule["verbs"])
    return dict(verbs)


def test_the_cluster_role_is_what_is_asked_for() -> None:
    assert granted("ClusterRole") == cluster_wide(set(KINDS.values()) - _OPT_IN)


@pytest.mark.parametrize(("component", "kinds"), OPT_IN.items(), ids=str)
def test_a_component_grants_what_is_not_in_the_cluster_role(
    component: str, kinds: list[Kind[Any]]
) -> None:
    path = COMPONENTS / component / "rbac.yaml"
    expected = {(kind.group, kind.plural): {"list", "watch"} for kind in kinds}
    assert granted("ClusterRole", path) == expected


def test_the_role_in_the_namespace_is_what_leader_election_asks_for() -> None:
    assert granted("Role") == ELECTION


def test_the_aggregated_api_may_look_for_the_leader_and_ask_for_others() -> None:
    path = COMPONENTS / "api" / "rbac.yaml"
    assert granted("ClusterRole", path) == AGGREGATED
    assert granted("Role", path) == AGGREGATED_NAMESPACE


def test_users_are_granted_the_resources_that_the_api_has() -> None:
    verbs = {(GROUP, one.name): {one.verb} for one in resources()}
    assert granted("ClusterRole", COMPONENTS / "api" / "users.yaml") == verbs


def test_the_default_configuration_watches_no_kind_of_others() -> None:
    registry = Registry()
    config = resolve_config(default_configuration("bayplan"), registry.known)
    others = {
        POD_GROUP,
        QUEUE,
        NODE_KIND,
        KUBERNETES_POD_GROUP,
        COMPOSITE_POD_GROUP,
        PRIORITY_CLASS,
        TOPOLOGY,
    } | OF_PLUGINS
    assert set(registry.kinds(config)) == set(KINDS.values()) - others


def test_the_configuration_of_deploy_watches_pod_groups_and_queues_too() -> None:
    registry = Registry()
    config = load_config(BASE / "config.yaml", registry.known)
    others = {KUBERNETES_POD_GROUP, COMPOSITE_POD_GROUP} | OF_PLUGINS
    assert set(registry.kinds(config)) == set(KINDS.values()) - others


ALONE, ALL = "GenericWorkload=true", "TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"


@pytest.mark.parametrize(
    ("flags", "others"), [([ALONE], {COMPOSITE_POD_GROUP}), ([ALONE, ALL], set())], ids=str
)
def test_the_groups_of_kubernetes_are_watched_with_their_gates(
    flags: list[str], others: set[Kind[Any]]
) -> None:
    registry = Registry()
    config = load_config(BASE / "config.yaml", registry.known, parse_feature_gates(flags))
    assert set(registry.kinds(config)) == set(KINDS.values()) - OF_PLUGINS - others
