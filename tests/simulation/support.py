"""Clusters as text, for tests of what is read of them."""

import json
from pathlib import Path
from typing import Any

import yaml

from bayplan.simulation.file_kinds import READABLE
from bayplan.simulation.files import Entry, Notes, Readable, read_entries

Json = dict[str, Any]


def entry(text: str) -> Entry:
    """The object that the YAML in ``text`` stands for."""
    data = yaml.safe_load(text)
    return Entry(next(k for k in READABLE if k.name == data["kind"]), data)


def read(text: str) -> tuple[list[Entry], list[str]]:
    """The entries in ``text`` and the notes about it."""
    notes = Notes("f")
    entries = list(read_entries(text, Readable(READABLE), notes))
    return entries, notes.lines()


def write(folder: Path, *objects: Json) -> Path:
    """A cluster file with ``objects``, as a JSON List."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


def node(name: str, **status: Any) -> Json:
    """A node of 4 CPUs."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable, **status},
    }


def pod(name: str, **spec: Any) -> Json:
    """A pending Pod in the namespace default."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
