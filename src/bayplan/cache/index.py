"""Indexes: sets or dicts of members by key, without a key that has none."""

from __future__ import annotations

from typing import Any


def discard(index: dict[Any, Any], key: Any, member: Any) -> None:
    """Remove ``member`` from the set or dict at ``key``, and an empty one from ``index``."""
    members = index.get(key)
    if members is None:
        return
    if isinstance(members, set):
        members.discard(member)
    else:
        members.pop(member, None)
    if not members:
        del index[key]
