"""The rules for names that the configuration takes over from the Kubernetes API.

Each function yields what is wrong, nothing when the name is fine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NATIVE_DOMAIN = "kubernetes.io/"


def qualified_name(name: str) -> Iterator[str]:
    """A label key, a resource name: an optional DNS domain and a slash, then a short name."""
    prefix, slash, short = name.rpartition("/")
    if "/" in prefix:
        yield f'"{name}" has more than one slash'
        return
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        yield f'"{prefix}" is no lowercase DNS domain of at most 253 characters'
    if len(short) > 63 or not _NAME.fullmatch(short):
        yield (
            f'"{short}" must be 1 to 63 letters, digits, "-", "_" or ".", '
            "with a letter or digit at both ends"
        )


def label_value(value: str) -> Iterator[str]:
    """The value of a label, which may be empty."""
    if len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
        yield (
            f'"{value}" must be at most 63 letters, digits, "-", "_" or ".", '
            "with a letter or digit at both ends"
        )


def extended_resource(name: str) -> Iterator[str]:
    """A resource outside of kubernetes.io that is no quota name, such as example.com/gpu."""
    problems = list(qualified_name(name))
    if problems:
        yield from problems
        return
    native = "/" not in name or _NATIVE_DOMAIN in name
    # Quotas count the resource as requests.<name>, which must be a name too.
    if native or name.startswith("requests.") or any(qualified_name(f"requests.{name}")):
        yield f'"{name}" is no extended resource such as example.com/gpu'
