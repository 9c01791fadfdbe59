"""A provisioner as a storage vendor's is: makes volumes for claims that are given to it.

kube-controller-manager decides when a claim is (it annotates the claim: one whose class waits for
the first consumer once a scheduler has selected a node), and binds what is made.
"""

import json
import threading
from types import TracebackType
from typing import Any, Self

from e2e.storage import DRIVER, Storage

PROVISIONER = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
Json = dict[str, Any]


class Provisioner:
    """Watches claims from `__enter__` to `__exit__`.

    Args:
        storage: where it makes volumes; each is reachable from the selected node alone.
        refusals: how many times it first finds that it cannot, and wants another node selected.
    """

    def __init__(self, storage: Storage, refusals: int = 0) -> None:
        self._storage = storage
        self._refusals = refusals
        self._made: set[str] = set()
        self._over = threading.Event()
        self._go = threading.Event()
        self._go.set()
        self._thread = threading.Thread(target=self._watch)
        self.refused: list[str] = []
        """Nodes on which it could not make a volume, in order."""

    def pause(self) -> None:
        """Make nothing until `proceed`."""
        self._go.clear()

    def proceed(self) -> None:
        """Go on."""
        self._go.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._go.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            lines = self._storage.core.list_namespaced_persistent_volume_claim(
                self._storage.namespace, watch=True, timeout_seconds=1, _preload_content=False
            )
            for line in lines:
                event = json.loads(line)
                self._go.wait()
                if event["type"] in ("ADDED", "MODIFIED") and not self._over.is_set():
                    self._handle(event["object"])

    def _handle(self, claim: Json) -> None:
        meta = claim["metadata"]
        notes = meta.get("annotations", {})
        if notes.get(PROVISIONER) != DRIVER or meta["uid"] in self._made:
            return
        node = notes.get(SELECTED_NODE, "")
        if not node and self._storage.waits(claim["spec"]["storageClassName"]):
            return
        if len(self.refused) < self._refusals:
            self.refused.append(node)
            self._reject(meta["name"])
        else:
            self._made.add(meta["uid"])
            self._make(claim, node)

    def _make(self, claim: Json, node: str) -> None:
        meta, spec = claim["metadata"], claim["spec"]
        ref = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"]}
        ref |= {"name": meta["name"], "uid": meta["uid"]}
        self._storage.volume(
            f"made-for-{meta['name']}",
            node=node,
            accessModes=spec["accessModes"],
            storageClassName=spec["storageClassName"],
            claimRef=ref,
        )

    def _reject(self, name: str) -> None:
        """Ask for another node, as the library of CSI provisioners does when there is no room."""
        self._storage.core.patch_namespaced_persistent_volume_claim(
            name,
            self._storage.namespace,
            {"metadata": {"annotations": {SELECTED_NODE: None}}},
            _preload_content=False,
        )
