"""VirtualApiServer: agrees to every write, and does what controllers would do about it.

What the API server would send back (a Pod with its node, a victim that is gone, a claim with its
devices) is told as messages. Volumes that a scheduler has chosen or asked for are bound at once, as
by the PV controller and a provisioner that never fails.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from bayplan.api.kinds import (
    CSI_NODE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    RESOURCE_CLAIM,
    STORAGE_CLASS,
    Kind,
)
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.client.errors import NotFound
from bayplan.framework.handle import ClusterWriter, Done
from bayplan.inbox.messages import Changed, Removed, WatchMessage
from bayplan.plugins.volume_binding.binding import BIND_COMPLETED
from bayplan.plugins.volume_binding.finder import SELECTED_NODE
from bayplan.report.pods import StatusWriter

Json = dict[str, Any]

STORED: tuple[Kind[Any], ...] = (PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM)
"""What a scheduler patches, so that it is kept as JSON."""
_READ = (CSI_NODE, NODE, STORAGE_CLASS)
PROVISIONED = "replayed-"


class VirtualApiServer(ClusterWriter):
    """See the module's docstring. On the scheduling thread only: workers run in line.

    A claim whose devices the recorded scheduler has chosen for a Pod that is placed anew has none;
    a claim of a volume that it has bound keeps the volume.

    Args:
        tell: applies a message at once.
        places: whether the Pod with this uid is placed anew.

    Attributes:
        objects: the JSON of `STORED` kinds, and what volumes depend on, by path.
        on_bound: called with a Pod that is bound now, on its node.
        on_evicted: called with a Pod that is to be deleted.
        on_nominated: called with a Pod and its node; "" for none.
        written: paths that a scheduler has written; a recording does not change these any more.
    """

    def __init__(self, tell: Callable[[WatchMessage], None], places: Callable[[str], bool]) -> None:
        self._tell, self._places = tell, places
        self._claims: dict[str, set[str]] = {}
        """By the uid of a Pod, the paths of the ResourceClaims that are reserved for it."""
        self.objects: dict[str, Json] = {}
        self.written: set[str] = set()
        self.on_bound: Callable[[Pod], None] = lambda _: None
        self.on_evicted: Callable[[Pod], None] = lambda _: None
        self.on_nominated: Callable[[Pod, str], None] = lambda _pod, _node: None
        self._versions = count(1)

    def show(self, kind: Kind[Any], body: bytes) -> None:
        """An object of the recording is there, or has changed."""
        if kind in STORED or kind in _READ:
            data = msgspec.json.decode(body)
            path = _path(kind, data)
            if path in self.written:
                return
            if kind is RESOURCE_CLAIM and any(map(self._places, _users(data))):
                del data["status"]
                body = msgspec.json.encode(data)
            self._keep(path, data)
        self._tell(Changed(kind, kind.decode(body)))

    def hide(self, kind: Kind[Any], obj: Any) -> None:
        """An object of the recording is gone."""
        path = kind.path(obj.namespace, obj.name)
        self.objects.pop(path, None)
        self.written.discard(path)
        self._tell(Removed(kind, obj))

    # What a scheduler writes about Pods

    def bind(self, pod: Pod, node_name: str, on_done: Done) -> None:
        """See `ClusterWriter`."""
        self.on_bound(pod.on_node(node_name))
        on_done(None)

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """See `ClusterWriter`."""
        self.on_evicted(pod)
        on_done(None)

    def patch_pod_status(
        self,
        pod: Pod,
        condition: Condition | None,  # noqa: ARG002 - changes nothing that is decided
        nominated: str | None,
        on_done: Done,
    ) -> None:
        """See `ClusterWriter`."""
        if nominated is not None and nominated != pod.status.nominated_node_name:
            self.on_nominated(pod, nominated)
        on_done(None)

    # Other objects

    def read(self, path: str) -> bytes:
        """See `ClusterWriter`."""
        return msgspec.json.encode(self._object(path))

    def create(self, path: str, body: bytes) -> bytes:
        """See `ClusterWriter`: a claim for extended resources, which gets a name."""
        data: Json = msgspec.json.decode(body)
        meta, number = data.setdefault("metadata", {}), next(self._versions)
        name = meta.setdefault("name", f"{meta.get('generateName', '')}{number}")
        meta.setdefault("namespace", path.rsplit("/", 2)[-2])
        meta.setdefault("uid", f"replayed-{number}")
        return self._store(f"{path}/{name}", data)

    def delete_later(self, path: str, uid: str, on_done: Done) -> None:
        """See `ClusterWriter`."""
        data = self.objects.get(path)
        if data is not None and data["metadata"].get("uid") == uid:
            kind = _kind_of(path)
            self.objects.pop(path)
            if kind is not None:
                self._tell(Removed(kind, kind.decode(msgspec.json.encode(data))))
        on_done(None)

    def patch_later(self, path: str, body: bytes, content_type: str, on_done: Done) -> None:
        """See `ClusterWriter`."""
        try:
            self.patch(path, body, content_type)
        except NotFound as error:
            on_done(error)
        else:
            on_done(None)

    def patch(self, path: str, body: bytes, content_type: str) -> bytes:  # noqa: ARG002
        """See `ClusterWriter`; of objects that are not `STORED`, nothing is changed."""
        path = path.removesuffix("/status")
        if _kind_of(path) is None:
            return body
        data = self._object(path)
        change: Json = msgspec.json.decode(body)
        change.get("metadata", {}).pop("resourceVersion", None)
        merge(data, change)
        stored = self._store(path, data)
        if _kind_of(path) is PERSISTENT_VOLUME:
            self._bind_volume(data)
        elif _kind_of(path) is PERSISTENT_VOLUME_CLAIM:
            self._provision(path, data)
        return stored

    def _object(self, path: str) -> Json:
        try:
            return self.objects[path]
        except KeyError:
            raise NotFound(f"{path} not found", status=404, reason="NotFound") from None

    def _store(self, path: str, data: Json) -> bytes:
        self._keep(path, data)
        self.written.add(path)
        body = msgspec.json.encode(data)
        if (kind := _kind_of(path)) is not None:
            self._tell(Changed(kind, kind.decode(body)))
        return body

    # What controllers do about it

    def release(self, uid: str) -> None:
        """A Pod is gone: claims that nobody else uses give their devices back."""
        for path in sorted(self._claims.pop(uid, ())):
            data = self.objects.get(path)
            if data is None:
                continue
            status = data["status"]
            status["reservedFor"] = [one for one in status["reservedFor"] if one["uid"] != uid]
            if not status["reservedFor"]:
                del status["reservedFor"]
                status.pop("allocation", None)
            self._store(path, data)

    def _keep(self, path: str, data: Json) -> None:
        self.objects[path] = data
        if _kind_of(path) is RESOURCE_CLAIM:
            for uid in _users(data):
                self._claims.setdefault(uid, set()).add(path)

    def _bind_volume(self, volume: Json) -> None:
        ref = volume.get("spec", {}).get("claimRef")
        if ref:
            path = PERSISTENT_VOLUME_CLAIM.path(ref["namespace"], ref["name"])
            if (claim := self.objects.get(path)) is not None:
                self._bind_claim(path, claim, volume["metadata"]["name"])

    def _provision(self, path: str, claim: Json) -> None:
        """Make a volume for the node that was selected."""
        node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
        if not node or claim["spec"].get("volumeName"):
            return
        meta = claim["metadata"]
        name = f"{PROVISIONED}{meta['namespace']}-{meta['name']}"
        spec: Json = {
            "capacity": claim["spec"].get("resources", {}).get("requests", {}),
            "accessModes": claim["spec"].get("accessModes", []),
            "storageClassName": claim["spec"].get("storageClassName", ""),
            "claimRef": {k: meta.get(k, "") for k in ("namespace", "name", "uid")},
        }
        if provisioner := self._provisioner(spec["storageClassName"]):
            spec["csi"] = {"driver": provisioner, "volumeHandle": name}
            if terms := self._reach(node, provisioner):
                required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
                spec["nodeAffinity"] = {"required": required}
        volume = {"metadata": {"name": name, "uid": name}, "spec": spec}
        self._store(PERSISTENT_VOLUME.path(name=name), volume)
        self._bind_claim(path, claim, name)

    def _provisioner(self, storage_class: str) -> str:
        data = self.objects.get(STORAGE_CLASS.path(name=storage_class), {})
        provisioner: str = data.get("provisioner", "")
        return provisioner

    def _reach(self, node: str, driver: str) -> list[Json]:
        """The nodes in the same domain, by what the driver says on the node."""
        labels = self.objects.get(NODE.path(name=node), {}).get("metadata", {}).get("labels", {})
        drivers = self.objects.get(CSI_NODE.path(name=node), {}).get("spec", {}).get("drivers", ())
        keys = next((d.get("topologyKeys") for d in drivers if d.get("name") == driver), None) or ()
        return [
            {"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels
        ]

    def _bind_claim(self, path: str, claim: Json, volume: str) -> None:
        claim["spec"]["volumeName"] = volume
        claim["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"
        self._store(path, claim)


class VirtualStatuses(StatusWriter):
    """Keeps what is said of Pods.

    Attributes:
        messages: by uid, the latest one.
    """

    def __init__(self, server: VirtualApiServer) -> None:
        self._server = server
        self.messages: dict[str, str] = {}

    def patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        """See `StatusWriter`."""
        if condition is not None:
            self.messages[pod.uid] = condition.message
        self._server.patch_pod_status(pod, condition, nominated, lambda _: None)

    def patch_group(self, pod_group: KubernetesPodGroup, condition: Condition) -> None:
        """Conditions of PodGroups change nothing that is decided."""


def merge(target: Json, change: Json) -> None:
    """Merge ``change`` into ``target``: null deletes, users of a claim are merged by their uid."""
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif key == "reservedFor":
            users = {user["uid"]: user for user in target.get(key, ())}
            for user in value:
                if user.get("$patch") == "delete":
                    users.pop(user["uid"], None)
                else:
                    users[user["uid"]] = user
            target[key] = list(users.values())
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        elif not key.startswith("$"):
            target[key] = value


def _users(claim: Json) -> list[str]:
    """The uids of the Pods that a ResourceClaim is reserved for."""
    return [user["uid"] for user in claim.get("status", {}).get("reservedFor", ())]


def _path(kind: Kind[Any], data: Json) -> str:
    meta = data["metadata"]
    return kind.path(meta.get("namespace", ""), meta["name"])


def _kind_of(path: str) -> Kind[Any] | None:
    """The kind of `STORED` that is at ``path``."""
    return next((kind for kind in STORED if f"/{kind.plural}" in path), None)
