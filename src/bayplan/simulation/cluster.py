"""Cluster: the content of a file as the scheduler would find it on the API server."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.kinds import (
    COMPOSITE_POD_GROUP,
    KINDS,
    KUBERNETES_POD_GROUP,
    NODE,
    POD,
    RESOURCE_CLAIM,
    Kind,
)
from bayplan.api.pod import Pod
from bayplan.simulation.admission import (
    Objects,
    PodAdmission,
    add_implied_namespaces,
    admit_claims,
    by_kind,
)
from bayplan.simulation.checks import (
    DEFAULT_NAMESPACE,
    decode,
    leave_out,
    note_dangling,
    usable,
    well_formed,
)
from bayplan.simulation.defaults import set_defaults
from bayplan.simulation.device_claims import make_claims
from bayplan.simulation.file_kinds import READABLE
from bayplan.simulation.files import ClusterFileError, Entry, Notes, Readable, read_entries
from bayplan.simulation.growth import Growth, grow
from bayplan.simulation.loss import Loss, lose
from bayplan.simulation.schema import UnusableError
from bayplan.simulation.workloads import expand
from bayplan.support.collector import collector_paused

STDIN = Path("-")
_SAID_BY_KUBELET = ("allocatedResources", "containerStatuses", "initContainerStatuses", "resources")
_RESIZE_CONDITIONS = ("PodResizePending", "PodResizeInProgress")
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass
class LoadedCluster:
    """What a file holds.

    Attributes:
        objects: the decoded objects by kind, each kind in the order of the file; Pods last, so
            that what they refer to comes before them.
        notes: what is left out or doubtful.
        runs_on: the node of the Pod that is judged as if it were pending; "" for none.
        loss: what was taken away of it; None for nothing.
        growth: what was added to it; None for nothing.
    """

    objects: dict[Kind[object], list[Any]]
    notes: Notes
    runs_on: str = ""
    loss: Loss | None = None
    growth: Growth | None = None

    def without_growth(self) -> LoadedCluster:
        """The same cluster before anything was added, with notes of its own."""
        added = frozenset() if self.growth is None else self.growth.uids
        objects = {
            kind: [one for one in those if one.uid not in added]
            for kind, those in self.objects.items()
        }
        return LoadedCluster(objects, Notes(), self.runs_on, self.loss)

    @property
    def pending(self) -> list[Pod]:
        """The Pods without a node that have not ended, in the order of the file."""
        pods: list[Pod] = self.objects[POD]
        return [pod for pod in pods if not pod.node_name and not pod.terminal]


def load_cluster(
    paths: Iterable[Path],
    scheduler_name: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    as_pending: str | None = None,
    kinds: Iterable[Kind[object]] = (),
    losing: tuple[str, str] | None = None,
    adding: tuple[int, str] | None = None,
    *,
    adopts_running: bool = False,
    listed: Iterable[tuple[Kind[object], msgspec.Raw]] = (),
) -> LoadedCluster:
    """Read cluster files.

    Args:
        paths: YAML documents or JSON; a folder stands for the files in it, ``-`` for the standard
            input.
        scheduler_name: give every pending Pod to this profile, whichever it asks for.
        namespace: of the objects that name none.
        as_pending: namespace/name of a Pod that is judged as if it had no node yet.
        kinds: the kinds that plugins declare, in addition to `KINDS`.
        losing: label and value of nodes that are taken away (`bayplan.simulation.loss`).
        adding: how many nodes are added, and like which one (`bayplan.simulation.growth`).
        adopts_running: give Pods that have a node to ``scheduler_name``, too.
        listed: the objects of an API server, beside which those of the files come to be.

    Raises:
        ClusterFileError: a file cannot be read, there are neither Nodes nor Pods, no Node is to be
            lost, or there is none to be like.
    """
    notes = Notes()
    watched = _watched(kinds)
    readable = Readable((*watched, *READABLE))
    with collector_paused():
        files = [file for path in paths for file in _files(path)]
        entries = [entry for file in files for entry in _read_file(file, readable, notes)]
        notes.file = str(files[0]) if len(files) == 1 else ""
        present = [Entry(kind, msgspec.json.decode(data)) for kind, data in listed]
        objects = by_kind(usable([*present, *expand(entries, notes)], notes, namespace))
        if not objects[NODE] and not objects[POD]:
            names = ", ".join(map(str, files))
            why = [*notes.lines(), f"{names}: there is neither a Node nor a Pod in it"]
            raise ClusterFileError("\n".join(why))
        if adopts_running and scheduler_name is not None:
            _adopt(objects[POD], scheduler_name)
        return _cluster(objects, notes, scheduler_name, as_pending, watched, losing, adding)


def listed_cluster(
    listed: Iterable[tuple[Kind[object], msgspec.Raw]],
    scheduler_name: str | None = None,
    as_pending: str | None = None,
    kinds: Iterable[Kind[object]] = (),
    losing: tuple[str, str] | None = None,
    adding: tuple[int, str] | None = None,
) -> LoadedCluster:
    """The cluster of these objects, which an API server has; else as `load_cluster`."""
    notes, watched = Notes(), _watched(kinds)
    with collector_paused():
        entries = (Entry(kind, msgspec.json.decode(data)) for kind, data in listed)
        objects = by_kind(usable(entries, notes))
        return _cluster(objects, notes, scheduler_name, as_pending, watched, losing, adding)


def manifest(
    paths: Iterable[Path],
    listed: Iterable[tuple[Kind[object], msgspec.Raw]],
    namespace: str = DEFAULT_NAMESPACE,
) -> tuple[list[Entry], Notes]:
    """The objects of files, as the API server and controllers would make them in a cluster.

    Args:
        paths: as of `load_cluster`.
        listed: what admission reads and the cluster has: classes and templates of claims.
        namespace: of the objects that name none.

    Raises:
        ClusterFileError: a file cannot be read, or no Pods come of it.
    """
    notes, paths = Notes(), list(paths)
    readable = Readable(READABLE)
    files = [file for path in paths for file in _files(path)]
    entries = [entry for file in files for entry in _read_file(file, readable, notes)]
    notes.file = str(files[0]) if len(files) == 1 else ""
    made = list(usable(expand(entries, notes), notes, namespace))
    present = [Entry(kind, msgspec.json.decode(data)) for kind, data in listed]
    objects = by_kind([*made, *present])
    if not objects[POD]:
        names = ", ".join(map(str, files))
        raise ClusterFileError("\n".join([*notes.lines(), f"{names}: no Pods come of it"]))
    claims = len(objects[RESOURCE_CLAIM])
    _admit(objects, notes)
    return [*made, *objects[RESOURCE_CLAIM][claims:]], notes


def _watched(kinds: Iterable[Kind[object]]) -> tuple[Kind[object], ...]:
    return tuple(dict.fromkeys((*kinds, *KINDS.values())))


def _cluster(
    objects: Objects,
    notes: Notes,
    scheduler_name: str | None,
    as_pending: str | None,
    watched: Iterable[Kind[object]],
    losing: tuple[str, str] | None,
    adding: tuple[int, str] | None,
) -> LoadedCluster:
    loss = None if losing is None else lose(objects, *losing)
    growth = None if adding is None else grow(objects, *adding)
    runs_on = _take_off_its_node(objects, as_pending)
    if scheduler_name is not None:
        pending = (pod for pod in objects[POD] if not pod.spec.get("nodeName"))
        _adopt(pending, scheduler_name)
    _admit(objects, notes)
    note_dangling(objects, notes)
    decoded = {kind: _decoded(objects[kind], notes) for kind in watched}
    return LoadedCluster(decoded, notes, runs_on, loss, growth)


def _files(path: Path) -> list[Path]:
    if path == STDIN or not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise ClusterFileError(f"{path}: there is no {', '.join(_SUFFIXES)} file in this folder")
    return files


def _read_file(path: Path, readable: Readable, notes: Notes) -> Iterator[Entry]:
    notes.file = str(path)
    yield from well_formed(read_entries(_read(path), readable, notes), notes)


def _read(path: Path) -> str:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read().decode()
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ClusterFileError(f"{path}: is no UTF-8 text") from None


def _decoded(entries: Iterable[Entry], notes: Notes) -> list[Any]:
    decoded = []
    for entry in entries:
        try:
            decoded.append(decode(entry))
        except UnusableError as problem:
            leave_out(entry, problem, notes)
    return decoded


def _take_off_its_node(objects: Objects, key: str | None) -> str:
    """Let the Pod ``key`` be pending, without what a kubelet says; returns where it was."""
    for pod in objects[POD]:
        if pod.key == key and pod.status.get("phase") not in ("Succeeded", "Failed"):
            for field in _SAID_BY_KUBELET:
                pod.status.pop(field, None)
            conditions = pod.status.get("conditions", [])
            conditions[:] = [c for c in conditions if c.get("type") not in _RESIZE_CONDITIONS]
            return str(pod.spec.pop("nodeName", ""))
    return ""


def _adopt(pods: Iterable[Entry], scheduler_name: str) -> None:
    for pod in pods:
        pod.spec["schedulerName"] = scheduler_name


def _admit(objects: Objects, notes: Notes) -> None:
    add_implied_namespaces(objects)
    make_claims(objects)
    entries: list[Entry] = [entry for kind in list(objects) for entry in objects[kind]]
    for entry in entries:
        set_defaults(entry)
    admit_claims(objects)
    admission = PodAdmission(objects, notes)
    for group in (*objects[KUBERNETES_POD_GROUP], *objects[COMPOSITE_POD_GROUP]):
        admission.admit_group(group)
    for pod in objects[POD]:
        admission.admit(pod)
