"""What a run makes in a cluster: looked for before, labelled, and removed at the end.

Invariants: nothing is made that is there already; only what carries the label `OURS` is deleted.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

OURS = "bayplan-e2e"
"""Label of all objects that a run makes in a cluster of somebody else, and of its nodes."""


class Belongings:
    """Objects of a run in a cluster.

    Args:
        kubectl: runs kubectl as the admin, and returns what it prints.
        folder: for files.
        objects: all that `make` may be asked for. Custom resources among them count with their
            CRD, which has to be here, too.
    """

    def __init__(self, kubectl: Callable[..., str], folder: Path, objects: Iterable[Json]) -> None:
        self._kubectl = kubectl
        self._path = folder / "belongings.yaml"
        all_of_them = list(objects)
        custom = {one["spec"]["group"] for one in all_of_them if _is_crd(one)}
        plain = (one for one in all_of_them if one["apiVersion"].partition("/")[0] not in custom)
        self._path.write_text(yaml.safe_dump_all(plain))

    def there(self) -> list[Json]:
        """Return the objects of that kind, name and namespace that the cluster has."""
        answer = self._kubectl("get", f"-f={self._path}", "--ignore-not-found", "-o=json")
        document: Json = json.loads(answer or '{"items": []}')
        there: list[Json] = document.get("items", [document])  # one alone comes without a list
        return there

    def make(self, objects: Iterable[Json]) -> None:
        """Create the objects, with the label.

        Raises:
            RuntimeError: one of them is there already.
        """
        path = self._path.with_name("made.yaml")
        labelled = list(objects)
        for one in labelled:
            one["metadata"].setdefault("labels", {})[OURS] = ""
        path.write_text(yaml.safe_dump_all(labelled))
        self._kubectl("create", f"-f={path}")
        crds = [f"crd/{one['metadata']['name']}" for one in labelled if _is_crd(one)]
        if crds:
            self._kubectl("wait", "--for=condition=Established", *crds)

    def remove(self) -> None:
        """Delete those objects that carry the label."""
        ours = [one for one in self.there() if OURS in one["metadata"].get("labels", {})]
        path = self._path.with_name("ours.yaml")
        path.write_text(yaml.safe_dump_all(ours))
        if ours:
            self._kubectl("delete", f"-f={path}", "--ignore-not-found")


def name_of(one: Json) -> str:
    """Return an object's kind, namespace and name, as one says them."""
    where = one["metadata"].get("namespace")
    inside = f" in {where}" if where else ""
    return f"{one['kind']} {one['metadata']['name']}{inside}"


def objects_of(*paths: Path) -> list[Json]:
    """Return the objects of YAML files; those of a List one by one."""
    documents = (one for path in paths for one in yaml.safe_load_all(path.read_text()))
    return [one for document in documents for one in document.get("items", [document])]


def _is_crd(one: Json) -> bool:
    return bool(one["kind"] == "CustomResourceDefinition")
