"""bayplan may do what it does, and nothing else. Runs after all other tests; see conftest.py."""

from __future__ import annotations

import pytest

from e2e.audit import Audit, granted
from e2e.provider.choose import chosen

pytestmark = pytest.mark.e2e

UNSEEN = {
    # The API server asks for it while it handles a patch of the status; it is no request.
    ("patch", "resource.k8s.io", "resourceclaims/binding"),
    # After a conflict with another writer of the claim, which no test provokes.
    ("get", "resource.k8s.io", "resourceclaims"),
    # When a Pod cannot be bound after a claim was made for its extended resources.
    ("delete", "resource.k8s.io", "resourceclaims"),
    # From an API server that streams no lists, with a plugin or a gate that no test enables there.
    ("list", "kueue.x-k8s.io", "topologies"),
    ("list", "batch", "jobs"),
    ("list", "topology.node.k8s.io", "noderesourcetopologies"),
    ("list", "appgroup.diktyo.x-k8s.io", "appgroups"),
    ("list", "networktopology.diktyo.x-k8s.io", "networktopologies"),
    ("list", "jobset.x-k8s.io", "jobsets"),
    ("list", "leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("list", "scheduling.k8s.io", "podgroups"),
    ("list", "scheduling.k8s.io", "priorityclasses"),
    ("list", "scheduling.k8s.io", "compositepodgroups"),
    ("list", "scheduling.x-k8s.io", "elasticquotas"),
}
"""Permissions that are needed and that these tests do not make bayplan use."""


PATIENCE = 900.0
"""Seconds that the tests of another worker may still take: its last file, on a busy machine."""


def test_every_permission_is_used_and_none_is_missing(
    audit: Audit, request: pytest.FixtureRequest
) -> None:
    if not chosen().owns_parts:
        pytest.skip("the audit log of somebody else is not ours to read")
    others = (item.nodeid for item in request.session.items if item is not request.node)
    audit.wait_over(others, PATIENCE)
    used = audit.used()
    assert granted() - used - UNSEEN == set(), "granted, but never used"
    assert used - granted() == set(), "asked for, but not granted"
