"""deploy/rbac.yaml grants what is asked for, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from bayplan.api.kinds import KINDS, POD_GROUP
from bayplan.client.permissions import ELECTION, Permissions, cluster_wide
from bayplan.config import default_configuration, load_config, resolve_config
from bayplan.framework.registry import Registry

DEPLOY = Path(__file__).parents[2] / "deploy"
RBAC = DEPLOY / "rbac.yaml"


def granted(role: str) -> Permissions:
    """The verbs of the rules of all roles of that kind (Role, ClusterRole), by resource."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(RBAC.read_text()))
    verbs: dict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)
    for rule in (r for d in documents if d["kind"] == role for r in d["rules"]):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs[group, resource] |= frozenset(rule["verbs"])
    return dict(verbs)


def test_the_cluster_role_is_what_is_asked_for() -> None:
    assert granted("ClusterRole") == cluster_wide(KINDS.values())


def test_the_role_in_the_namespace_is_what_leader_election_asks_for() -> None:
    assert granted("Role") == ELECTION


def test_the_default_configuration_watches_every_kind_that_there_is() -> None:
    registry = Registry()
    config = resolve_config(default_configuration("bayplan"), registry.known)
    assert set(registry.kinds(config)) == set(KINDS.values()) - {POD_GROUP}


def test_the_configuration_of_deploy_watches_pod_groups_too() -> None:
    registry = Registry()
    config = load_config(DEPLOY / "config.yaml", registry.known)
    assert set(registry.kinds(config)) == set(KINDS.values())
