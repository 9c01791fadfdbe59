"""A cluster with devices for one plugin: objects, nodes, an API server that stores patches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from tests.handles import RefusingWriter
from tests.plugins.harness import PluginWorld

from bayplan.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.meta import ObjectMeta
from bayplan.api.pod import Pod
from bayplan.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from bayplan.client.errors import ApiError
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import Done
from bayplan.framework.interface import FilterFailure, PostFilterResult
from bayplan.framework.status import Status
from bayplan.plugins.dynamic_resources import DynamicResources
from bayplan.testing import make_pod


class ApiServer(RefusingWriter):
    """Stores claims; patches are merged as far as this plugin needs it.

    Attributes:
        stored: claims as JSON by path.
        log: paths that were patched, in order.
        failures: raised by the next patches, first come first served; None lets one pass.
        later: what `patch_later` was given, if it is to be carried out later; None if at once.
    """

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.log: list[str] = []
        self.failures: list[ApiError | None] = []
        self.later: list[Callable[[], None]] | None = None

    def store(self, claim: ResourceClaim) -> None:
        path = RESOURCE_CLAIM.path(claim.namespace, claim.name)
        self.stored[path] = json.loads(msgspec.json.encode(claim))

    def create(self, path: str, body: bytes) -> bytes:
        self.log.append(path)
        made = json.loads(body)
        name = f"{made['metadata'].pop('generateName')}x"
        made["metadata"] |= {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        self.stored[f"{path}/{name}"] = made
        return json.dumps(made).encode()

    def delete_later(self, path: str, uid: str, on_done: Done) -> None:
        assert self.stored.pop(path)["metadata"]["uid"] == uid
        on_done(None)

    def read(self, path: str) -> bytes:
        return json.dumps(self.stored[path]).encode()

    def patch(self, path: str, body: bytes, content_type: str) -> bytes:
        self.log.append(path)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        path = path.removesuffix("/status")
        if "/pods/" in path:
            self.stored[path] = json.loads(body)
            return body
        stored, change = self.stored[path], json.loads(body)
        metadata, status = stored["metadata"], stored.setdefault("status", {})
        metadata["resourceVersion"] = str(int(metadata.get("resourceVersion") or 0) + 1)
        if "finalizers" in change["metadata"]:
            metadata["finalizers"] = change["metadata"]["finalizers"]
        for name, value in change.get("status", {}).items():
            merge(status, name, value)
        return json.dumps(stored).encode()

    def patch_later(self, path: str, body: bytes, content_type: str, on_done: Done) -> None:
        def patch() -> None:
            self.patch(path, body, content_type)
            on_done(None)

        if self.later is None:
            patch()
        else:
            self.later.append(patch)


def merge(status: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        status.pop(name, None)
    elif name == "reservedFor":
        gone = {user["uid"] for user in value if user.get("$patch") == "delete"}
        users = [user for user in status.get(name, []) if user["uid"] not in gone]
        status[name] = users + [user for user in value if "$patch" not in user]
    elif name == "allocation":
        status[name] = status.get(name, {}) | value


class World(PluginWorld):
    """DynamicResources, the objects it watches, and an API server behind it."""

    def __init__(self, *slices: ResourceSlice, nodes: tuple[str, ...] = ("n1", "n2")) -> None:
        self.api = ApiServer()
        super().__init__(*nodes, writer=self.api)
        self.plugin: DynamicResources = self.make(DynamicResources)
        self.objects.set(DEVICE_CLASS, DeviceClass(ObjectMeta(name="any")))
        for piece in slices:
            self.objects.set(RESOURCE_SLICE, piece)

    def create(self, *claims: ResourceClaim) -> None:
        """Claims that the API server has and the scheduler has seen."""
        for claim in claims:
            self.api.store(claim)
            self.objects.set(RESOURCE_CLAIM, claim)

    def see(self, name: str = "c") -> ResourceClaim:
        """The scheduler sees the claim as the API server has it."""
        claim = self.stored(name)
        self.objects.set(RESOURCE_CLAIM, claim)
        return claim

    def stored(self, name: str = "c") -> ResourceClaim:
        body = json.dumps(self.api.stored[RESOURCE_CLAIM.path("ns", name)])
        return RESOURCE_CLAIM.decode(body.encode())

    def filter(self, pod: Pod, state: CycleState | None = None) -> dict[str, str]:
        """What each node says: the reason, or "" where the Pod fits."""
        state = state or CycleState()
        status = self.plugin.pre_filter(state, pod, self.nodes)
        assert status is None, status
        codes = self.plugin.filter_nodes(state, pod, self.nodes)
        return {
            name: self.plugin.reasons(state, pod, int(codes[row])).message if codes[row] else ""
            for row, name in enumerate(self.nodes.names)
            if name is not None
        }

    def reserve(self, pod: Pod, node: str = "n1") -> CycleState:
        """Filter and Reserve."""
        state = CycleState()
        self.filter(pod, state)
        assert self.plugin.reserve(state, pod, node) is None
        return state

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """PostFilter, and what it wants done."""
        result = self.plugin.post_filter(state, pod, failure)
        self.carry_out(state)
        return result

    def unreserve(self, state: CycleState, pod: Pod, node: str = "n1") -> None:
        """Unreserve at the end of a real attempt."""
        self.plugin.unreserve(state, pod, node)
        self.carry_out(state)

    def carry_out(self, state: CycleState) -> None:
        """Do what the plugin wants done."""
        for effect in state.effects:
            self.plugin.carry_out(effect)
        state.effects.clear()

    def pre_bind(self, state: CycleState, pod: Pod, node: str = "n1") -> Status | None:
        return self.plugin.pre_bind(state, pod, node)


def pod_with(*claims: str, name: str = "p", uid: str = "pod-uid") -> Pod:
    """A Pod that names existing claims."""
    entries = [{"name": f"e{i}", "resourceClaimName": c} for i, c in enumerate(claims)]
    return make_pod(name).meta(namespace="ns", uid=uid).spec(resourceClaims=entries).obj()


def allocated(
    claim: ResourceClaim, *devices: str, node: str = "n1", **status: Any
) -> ResourceClaim:
    """``claim`` with devices of pool ``p`` that only ``node`` can use."""
    key = {"key": "metadata.name", "operator": "In", "values": [node]}
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": d} for d in devices
    ]
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [key]}]},
    }
    body = json.loads(msgspec.json.encode(claim)) | {"status": {"allocation": allocation, **status}}
    return RESOURCE_CLAIM.decode(json.dumps(body).encode())
