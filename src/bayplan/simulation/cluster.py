"""Cluster: the content of a file as the scheduler would find it on the API server."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayplan.api.kinds import KINDS
from bayplan.api.pod import Pod
from bayplan.simulation.admission import (
    Objects,
    PodAdmission,
    add_implied_namespaces,
    admit_claims,
    by_kind,
)
from bayplan.simulation.checks import decode, note_dangling, usable
from bayplan.simulation.defaults import set_defaults
from bayplan.simulation.files import ClusterFileError, Entry, Notes, read_entries

STDIN = Path("-")


@dataclass
class Cluster:
    """What a file holds.

    Attributes:
        objects: the decoded objects by kind, each kind in the order of the file.
        notes: what is left out or doubtful.
    """

    objects: dict[str, list[Any]]
    notes: Notes

    @property
    def pending(self) -> list[Pod]:
        """The Pods without a node that have not ended, in the order of the file."""
        pods: list[Pod] = self.objects["Pod"]
        return [pod for pod in pods if not pod.node_name and not pod.terminal]


def load_cluster(path: Path, scheduler_name: str | None = None) -> Cluster:
    """Read a cluster file; ``-`` is the standard input.

    Args:
        path: YAML documents or JSON.
        scheduler_name: give every pending Pod to this profile, whichever it asks for.

    Raises:
        ClusterFileError: the file cannot be read, or has neither Nodes nor Pods.
    """
    notes = Notes(str(path))
    objects = by_kind(usable(read_entries(_read(path), notes), notes))
    if not objects["Node"] and not objects["Pod"]:
        why = [*notes.lines(), f"{path}: there is neither a Node nor a Pod in it"]
        raise ClusterFileError("\n".join(why))
    if scheduler_name is not None:
        _adopt_pending(objects, scheduler_name)
    _admit(objects, notes)
    note_dangling(objects, notes)
    return Cluster({kind: [decode(entry) for entry in objects[kind]] for kind in KINDS}, notes)


def _read(path: Path) -> str:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read().decode()
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ClusterFileError(f"{path}: is no UTF-8 text") from None


def _adopt_pending(objects: Objects, scheduler_name: str) -> None:
    for pod in objects["Pod"]:
        if not pod.spec.get("nodeName"):
            pod.spec["schedulerName"] = scheduler_name


def _admit(objects: Objects, notes: Notes) -> None:
    add_implied_namespaces(objects)
    entries: list[Entry] = [entry for kind in list(objects) for entry in objects[kind]]
    for entry in entries:
        set_defaults(entry)
    admit_claims(objects)
    admission = PodAdmission(objects, notes)
    for pod in objects["Pod"]:
        admission.admit(pod)
