"""Permissions: the resources and verbs that bayplan needs, as in RBAC rules.

A test checks that deploy/base/rbac.yaml grants exactly these. The end-to-end tests compare both
with the audit log of a real API server. If you add a request, add its verb here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bayplan.api.kinds import (
    EVENT,
    KUBERNETES_POD_GROUP,
    LEASE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RESOURCE_CLAIM,
    Kind,
)

Resource = tuple[str, str]
"""API group, and plural with a subresource if any."""
Permissions = Mapping[Resource, frozenset[str]]


def _of(kind: Kind[object], subresource: str = "") -> Resource:
    return kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural


REQUESTS: Permissions = {
    _of(POD, "binding"): frozenset({"create"}),
    _of(POD, "status"): frozenset({"patch"}),
    # Looked up: a binding whose answer was lost, a Pod that a node may have rejected. Extenders get
    # complete Pods; preemption deletes.
    _of(POD): frozenset({"get", "delete"}),
    _of(KUBERNETES_POD_GROUP, "status"): frozenset({"patch"}),
    _of(EVENT): frozenset({"create", "patch"}),
    _of(PERSISTENT_VOLUME): frozenset({"patch"}),
    _of(PERSISTENT_VOLUME_CLAIM): frozenset({"patch"}),
    # The API server asks for "binding" where the status says which devices a claim has.
    # Claims for extended resources are made by the scheduler.
    _of(RESOURCE_CLAIM): frozenset({"get", "patch", "create", "delete"}),
    _of(RESOURCE_CLAIM, "status"): frozenset({"patch"}),
    _of(RESOURCE_CLAIM, "binding"): frozenset({"patch"}),
    # Who may read the port: `bayplan.server`.
    ("authentication.k8s.io", "tokenreviews"): frozenset({"create"}),
    ("authorization.k8s.io", "subjectaccessreviews"): frozenset({"create"}),
    # One of them: the authority that signs the certificates of clients.
    ("", "configmaps"): frozenset({"get"}),
}
"""The permissions in addition to watching, in all namespaces."""

ELECTION: Permissions = {
    # The last three: of the Lease of a process that applies a plan of moves.
    _of(LEASE): frozenset({"create", "get", "update", "list", "patch", "watch"})
}
"""What leader election asks for, and applying plans, in the namespace of the Lease."""

AGGREGATED: Permissions = {
    ("authorization.k8s.io", "subjectaccessreviews"): frozenset({"create"}),
    # Asked of the scheduler's port: `bayplan.server.access`.
    ("view.bayplan.dev", "users"): frozenset({"impersonate"}),
}
"""What the process of the aggregated API asks for, in all namespaces."""
AGGREGATED_NAMESPACE: Permissions = {_of(LEASE): frozenset({"get"}), _of(POD): frozenset({"get"})}
"""The same in the namespace of the Lease; the ConfigMap comes with a role of Kubernetes."""


def cluster_wide(kinds: Iterable[Kind[object]]) -> Permissions:
    """All that is needed cluster-wide where ``kinds`` are watched."""
    verbs: dict[Resource, frozenset[str]] = defaultdict(frozenset, REQUESTS)
    for kind in kinds:
        verbs[_of(kind)] |= {"list", "watch"}
    return dict(verbs)
