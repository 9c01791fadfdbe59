"""What the scheduler writes: bindings, Pod conditions and nominations, deletions, volume objects.

The first three go through the `Dispatcher` and report to a callback on its thread. Retry rules:

- A binding is retried after 5xx: if the first request took effect, the next answer says that the
  Pod is bound. If the result is still unknown (no connection, a broken one, no answer, 5xx, or a
  later try was refused for another reason), the Pod is looked up until there is an answer: the
  binding took effect if this Pod is on this node.
  Until then the Pod stays assumed. Otherwise another Pod could get its resources while the watch is
  broken, too. Bindings carry the Pod's uid, so a Pod that was deleted and created again with the
  same name is never bound by mistake.
- Status patches and deletions are idempotent and may be retried; both carry the uid. Deleting a Pod
  that is gone is success.
- A status patch that waits when a binding of the same Pod is put is not sent any more; a binding is
  not sent before a patch that has been sent has ended. Else the patch could take effect last: a
  nomination would be refused, and a condition would say that the Pod has no node.

Volume objects are written rarely, by blocking calls.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.api.kinds import KUBERNETES_POD_GROUP, POD
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.client.connection import JSON, STRATEGIC_MERGE_PATCH
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.errors import ApiError, Conflict, NotFound, Unreachable
from bayplan.client.http import Http
from bayplan.client.request import ApiOutcome, ApiRequest, Lane

Done = Callable[[ApiError | None], None]
"""Gets None on success; called on the dispatcher's thread, must be quick."""

_BINDING = (
    '{{"apiVersion":"v1","kind":"Binding",'
    '"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}"}},'
    '"target":{{"kind":"Node","name":"{node}"}}}}'
)


class Writer:
    """The verbs of a scheduler.

    Args:
        dispatcher: takes the hot writes.
        http: takes the rest.
        now: wall clock, for lastTransitionTime.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        http: Http,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._dispatcher = dispatcher
        self._http = http
        self._now = now
        self._lock = threading.Lock()
        self._status_patches: defaultdict[str, list[ApiRequest]] = defaultdict(list)
        """Those that have not ended, by uid of the Pod."""
        self._behind: dict[str, ApiRequest] = {}
        """Bindings that are put when these have ended, by uid of the Pod."""

    def bind(self, pod: Pod, node_name: str, on_done: Done) -> None:
        """Assign ``pod`` to the node; what DefaultBinder does."""
        path = f"{_pod_path(pod)}/binding"
        # The API has validated all four: none can hold a character that JSON would escape.
        body = _BINDING.format(
            name=pod.name, namespace=pod.namespace, uid=pod.uid, node=node_name
        ).encode()

        def done(outcome: ApiOutcome) -> None:
            if not isinstance(outcome, ApiError) or _is_bound_to(outcome, node_name):
                on_done(None)
            elif request.in_doubt or outcome.outcome_unknown or isinstance(outcome, Unreachable):
                # libcurl sends a request again by itself when a connection that it had used before
                # breaks, so the one that could not be sent may have been sent the first time.
                self._find_out(pod, node_name, outcome, on_done)
            else:
                on_done(outcome)

        request = ApiRequest("POST", path, done, body, Lane.BIND, repeatable=True)
        with self._lock:
            patches = self._status_patches.get(pod.uid, ())
            for patch in patches:
                patch.superseded = True
            # Whoever is not marked by now has counted its try.
            if any(patch.tries for patch in patches):
                self._behind[pod.uid] = request
                return
        self._dispatcher.submit(request)

    def patch_pod_status(
        self,
        pod: Pod,
        condition: Condition | None,
        nominated_node_name: str | None,
        on_done: Done,
    ) -> None:
        """Set a condition and the nominated node; nothing is sent where nothing would change.

        The condition comes without its transition time; None leaves all conditions as they are. An
        empty nominated node clears it, None leaves it as it is.
        """
        body = status_patch(pod, condition, nominated_node_name, self._now())
        if body is None:
            on_done(None)
            return

        def done(outcome: ApiOutcome) -> None:
            with self._lock:
                patches = self._status_patches[pod.uid]
                patches.remove(request)
                binding = None
                if not patches:
                    del self._status_patches[pod.uid]
                    binding = self._behind.pop(pod.uid, None)
            if binding is not None:
                self._dispatcher.submit(binding)
            on_done(_error(outcome))

        path = f"{_pod_path(pod)}/status"
        kind = STRATEGIC_MERGE_PATCH
        request = ApiRequest("PATCH", path, done, body, Lane.STATUS, kind, idempotent=True)
        with self._lock:
            self._status_patches[pod.uid].append(request)
        self._dispatcher.submit(request)

    def patch_group_status(
        self, pod_group: KubernetesPodGroup, condition: Condition, on_done: Done
    ) -> None:
        """Set a condition of a PodGroup of Kubernetes; the transition time is filled in here."""
        old = next((c for c in pod_group.status.conditions if c.type == condition.type), None)
        # A field that is left out would keep what it was.
        stamped = _with_transition(condition, old, self._now())
        names = {f.encode_name: f.name for f in msgspec.structs.fields(Condition)}
        fields = {wire: getattr(stamped, name) for wire, name in names.items()}
        body = {"metadata": {"uid": pod_group.uid}, "status": {"conditions": [fields]}}
        path = f"{KUBERNETES_POD_GROUP.path(pod_group.namespace, pod_group.name)}/status"
        self.patch_later(path, msgspec.json.encode(body), STRATEGIC_MERGE_PATCH, on_done)

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """Delete this very Pod, with its own grace period."""
        self.delete_later(_pod_path(pod), pod.uid, on_done)

    def delete_later(self, path: str, uid: str, on_done: Done) -> None:
        """Delete the object at ``path`` if the uid is still the same."""
        body = msgspec.json.encode(
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        )

        def done(outcome: ApiOutcome) -> None:
            # A conflict means that another object has the name: ours is gone, too.
            gone = isinstance(outcome, (NotFound, Conflict))
            on_done(None if gone else _error(outcome))

        self._dispatcher.submit(
            ApiRequest("DELETE", path, done, body, Lane.STATUS, idempotent=True)
        )

    def patch(self, path: str, body: bytes, content_type: str) -> bytes:
        """Patch the object at ``path`` and wait; returns the stored object.

        Raises:
            ApiError: it failed.
        """
        return self._http.patch(path, body, content_type)

    def read(self, path: str) -> bytes:
        """The object at ``path``; waits.

        Raises:
            ApiError: it failed.
        """
        return self._http.get(path)

    def create(self, path: str, body: bytes) -> bytes:
        """Create an object in the collection at ``path`` and wait; returns it.

        Raises:
            ApiError: it failed.
        """
        return self._http.post(path, body)

    def patch_later(self, path: str, body: bytes, content_type: str, on_done: Done) -> None:
        """Patch the object at ``path``; the patch must be idempotent."""

        def done(outcome: ApiOutcome) -> None:
            on_done(_error(outcome))

        self._dispatcher.submit(
            ApiRequest("PATCH", path, done, body, Lane.STATUS, content_type, idempotent=True)
        )

    def read_later(self, path: str, on_answer: Callable[[bytes | None], None]) -> None:
        """Look the object at ``path`` up; b"" where there is none, None where that is not known."""

        def done(outcome: ApiOutcome) -> None:
            if isinstance(outcome, ApiError):
                on_answer(b"" if isinstance(outcome, NotFound) else None)
            else:
                on_answer(outcome)

        self._dispatcher.submit(ApiRequest("GET", path, done, idempotent=True))

    def _find_out(self, pod: Pod, node_name: str, error: ApiError, on_done: Done) -> None:
        """Report success if the binding that ended in ``error`` took effect, else the error."""

        def done(outcome: ApiOutcome) -> None:
            bound = isinstance(outcome, bytes) and _binding_of(outcome) == (pod.uid, node_name)
            on_done(None if bound else error)

        self._dispatcher.submit(
            ApiRequest(
                "GET", _pod_path(pod), done, lane=Lane.BIND, content_type=JSON, must_know=True
            )
        )


def status_patch(
    pod: Pod, condition: Condition | None, nominated_node_name: str | None, now: datetime
) -> bytes | None:
    """The strategic merge patch that gives ``pod`` the condition and the nominated node.

    As kube-scheduler's updatePod and PatchPodStatus have it: the transition time moves only with
    the condition's status, conditions are merged by type, an empty nominated node is removed.

    Returns:
        The patch, or None if the Pod says all of it already.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        old = next((c for c in pod.status.conditions if c.type == condition.type), None)
        if old is None or _said(old) != _said(condition):
            status["conditions"] = [_with_transition(condition, old, now)]
    if nominated_node_name not in (None, pod.status.nominated_node_name):
        status["nominatedNodeName"] = nominated_node_name or None
    if not status:
        return None
    return msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})


def _said(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _with_transition(condition: Condition, old: Condition | None, now: datetime) -> Condition:
    stays = old is not None and old.status == condition.status
    since = old.last_transition_time if old is not None and stays else None
    return msgspec.structs.replace(
        condition, last_transition_time=since or now.replace(microsecond=0)
    )


class _BoundSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _BoundMeta(msgspec.Struct):
    uid: str = ""


class _BoundPod(msgspec.Struct):
    metadata: _BoundMeta
    spec: _BoundSpec


_decode_bound = msgspec.json.Decoder(_BoundPod).decode


def _binding_of(body: bytes) -> tuple[str, str] | None:
    """Uid and node; None for what is no Pod, as a proxy's page."""
    try:
        pod = _decode_bound(body)
    except msgspec.DecodeError:
        return None
    return pod.metadata.uid, pod.spec.node_name


def _is_bound_to(error: ApiError, node_name: str) -> bool:
    """Whether the conflict says that the Pod is on ``node_name`` already (by an earlier try)."""
    return isinstance(error, Conflict) and f'already assigned to node "{node_name}"' in str(error)


def _error(outcome: ApiOutcome) -> ApiError | None:
    return outcome if isinstance(outcome, ApiError) else None


def _pod_path(pod: Pod) -> str:
    return POD.path(pod.namespace, pod.name)
