"""Lives: how long the Pods of a recording ran, by one look at all of it.

A Pod that ended by itself runs as long in a replay, from its binding there. A Pod that somebody
deleted is deleted at the same time. The end of a watch tells both apart: only a Pod that is deleted
has a deletionTimestamp. One that ended without a binding, as in a recording that was made of a
trace, runs as long as from its arrival to its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from bayplan.api.kinds import POD
from bayplan.recordings.lines import Line, Type, kind_id


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Pod).decode


@dataclass
class Lives:
    """What a recording says of its Pods.

    Attributes:
        runs: seconds from binding (or arrival) to end, by uid, of Pods that ended by themselves.
        lines: how many lines there are.
        start: the time of the first line.
        end: the time of the last line.
        bindings: how many Pods the recorded scheduler has bound.
    """

    runs: dict[str, float] = field(default_factory=dict)
    lines: int = 0
    start: float = 0.0
    end: float = 0.0
    bindings: int = 0


def lives_of(lines: Iterable[Line]) -> Lives:
    """Read all ``lines``.

    Raises:
        RecordingError: see `bayplan.recordings.file.lines_of`.
    """
    lives, pods = Lives(), kind_id(POD)
    began: dict[str, float] = {}
    bound: set[str] = set()
    for line in lines:
        lives.lines += 1
        lives.end = line.at
        if lives.lines == 1:
            lives.start = line.at
        if line.kind != pods or line.type is Type.BOUND:
            continue
        pod = _decode(line.object)
        uid = pod.metadata.uid
        if line.type is Type.DELETED:
            since = began.pop(uid, None)
            bound.discard(uid)
            if since is not None and not pod.metadata.deletion_timestamp:
                lives.runs[uid] = line.at - since
        elif pod.spec.node_name and uid not in bound:
            began[uid] = line.at
            bound.add(uid)
            lives.bindings += line.type is not Type.LISTED
        else:
            began.setdefault(uid, line.at)
    return lives
