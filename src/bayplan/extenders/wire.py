"""What extenders answer, in the format of ``k8s.io/kube-scheduler/extender/v1``.

Go's field names go out; names in any case come in, as Go reads them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class _NamedMeta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _NamedMeta = msgspec.field(default_factory=_NamedMeta)


class _NodeList(msgspec.Struct):
    items: list[_Named] | None = None


class FilterResult(msgspec.Struct, rename=lambda name: name.replace("_", "")):
    """ExtenderFilterResult: the nodes that are left, whole or by name, and why others are not."""

    nodes: _NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str | None = None


class HostPriority(msgspec.Struct):
    """The score of a node, 0 to 10."""

    host: str = ""
    score: int = 0


class BindingResult(msgspec.Struct):
    """ExtenderBindingResult."""

    error: str | None = None


class _MetaPod(msgspec.Struct):
    uid: str = ""


class MetaVictims(msgspec.Struct, rename={"pdb_violations": "numpdbviolations"}):
    """Victims on a node, by uid."""

    pods: list[_MetaPod] | None = None
    pdb_violations: int = 0


class PreemptionResult(msgspec.Struct, rename={"victims": "nodenametometavictims"}):
    """ExtenderPreemptionResult: victims by node."""

    victims: dict[str, MetaVictims] | None = None


def decode(body: bytes, answer: type[T]) -> T:
    """``body`` as ``answer``.

    Raises:
        msgspec.MsgspecError: it is no JSON, or of another form.
    """
    return msgspec.convert(_fold(msgspec.json.decode(body)), answer)


def _fold(value: Any) -> Any:
    """``value`` with all keys in lower case."""
    if isinstance(value, dict):
        return {k.lower(): _fold(v) for k, v in value.items()}
    return [_fold(v) for v in value] if isinstance(value, list) else value
