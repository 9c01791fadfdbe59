"""Which kind of resource a name is, by the rules of the Kubernetes API."""

from __future__ import annotations

import re
from functools import lru_cache

CORE = ("cpu", "memory", "ephemeral-storage")
"""The resources that every node has, in the order in which reasons name them."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"(?=.{1,63}\Z)([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether ``name`` is an extended resource: qualified, and not in the kubernetes.io domain."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    prefix, _, rest = name.partition("/")
    return bool(_PREFIX.fullmatch(f"requests.{prefix}") and _NAME.fullmatch(rest))


def is_scalar(name: str) -> bool:
    """Whether the scheduler counts ``name`` besides the `CORE` ones; others it does not know."""
    return (
        is_extended(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )
