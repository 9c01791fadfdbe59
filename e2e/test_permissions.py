"""bayplan may do what it does, and nothing else. Runs after all other tests; see conftest.py."""

from __future__ import annotations

import pytest

from e2e.audit import Audit, granted
from e2e.provider.choose import chosen

pytestmark = pytest.mark.e2e


def test_every_permission_is_used_and_none_is_missing(audit: Audit) -> None:
    if not chosen().owns_parts:
        pytest.skip("the audit log of somebody else is not ours to read")
    used = audit.used()
    assert granted() - used == set(), "granted, but never used"
    assert used - granted() == set(), "asked for, but not granted"
