"""Makes the table of kinds and their fields in docs/plugins.md.

``python -m tests.docs.kinds_table`` prints it.
"""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec

from bayplan.api import kinds
from bayplan.api.kinds import KINDS, Kind
from bayplan.api.pod import Pod

_TOP = ("metadata",)


def kinds_table() -> str:
    """The table, in Markdown."""
    names = {kind: name for name, kind in vars(kinds).items() if isinstance(kind, Kind)}
    lines = ["| kind | API version | fields |", "|---|---|---|"]
    lines += [
        f"| `{names[kind]}` | {kind.api_version} | {', '.join(_fields(kind))} |"
        for kind in sorted(KINDS.values(), key=lambda kind: kind.name)
    ]
    return "\n".join(lines)


def _fields(kind: Kind[Any]) -> list[str]:
    """Its fields down to the second level, in snake_case."""
    if kind is kinds.POD:
        from_pod = [name.lstrip("_") for name in Pod.__slots__]
        return [f"`{name}`" for name in sorted([*from_pod, "labels", "namespace", "spec"])]
    type_ = type(kind.decode(b'{"metadata":{"name":"n"}}'))
    paths = []
    for name, hint in get_type_hints(type_).items():
        if name in _TOP or name not in type_.__struct_fields__:
            continue
        below = [t for t in (hint, *get_args(hint)) if isinstance(t, type)]
        struct = next((t for t in below if issubclass(t, msgspec.Struct)), None)
        if struct is None or name not in ("spec", "status"):
            paths.append(f"`{name}`")
        else:
            paths += [f"`{name}.{field}`" for field in struct.__struct_fields__]
    return paths or ["none"]


if __name__ == "__main__":
    print(kinds_table())  # noqa: T201
