"""The whole environment: importing this module registers every function; and the types."""

from __future__ import annotations

from typing import Final

from bayplan.cel.functions import (
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

LIBRARIES: Final = (
    standard,
    times,
    optionals,
    strings,
    lists,
    regex,
    quantity,
    semver,
    urls,
    network,
    formats,
    authorization,
)
# Names that stand for a type. Kubernetes' own types have no names in expressions.
TYPES: Final = frozenset(
    [
        "bool",
        "bytes",
        "double",
        "int",
        "uint",
        "string",
        "list",
        "map",
        "null_type",
        "type",
        "optional_type",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "net.IP",
        "net.CIDR",
    ]
)
