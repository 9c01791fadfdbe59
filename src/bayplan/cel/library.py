"""The whole environment: importing this module registers every function; and the types."""

from __future__ import annotations

from typing import Final

from bayplan.cel.functions import (  # noqa: F401
    authorization,
    formats,
    lists,
    network,
    optionals,
    quantity,
    regex,
    semver,
    standard,
    strings,
    times,
    urls,
)
from bayplan.cel.values import TYPE_NAMES

# Names that stand for a type. Of Kubernetes' own types only these two have names in expressions.
TYPES: Final = frozenset({*TYPE_NAMES.values(), "net.IP", "net.CIDR"})
