"""Provisioner: carries out what `bayplan.controllers.provisioning` says. Calls wait for answers.

In this order: the Pods name the request, so that the autoscaler leaves them alone; the PodTemplates
are made; then the request. What is there already was made by a try that was interrupted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import msgspec
import structlog

from bayplan.api.kinds import POD
from bayplan.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from bayplan.client.http import Http
from bayplan.controllers import provisioning
from bayplan.controllers.provisioning import (
    PROVISIONING_REQUEST,
    Make,
    Members,
    ProvisioningClass,
    ProvisioningRequest,
    Steps,
)

log = structlog.get_logger("controllers")

MERGE_PATCH = "application/merge-patch+json"
PAUSE_SECONDS = 10.0
"""After something was written for a group: until then the watch has brought it, or it failed."""
_TEMPLATES = "/api/v1/namespaces/{namespace}/podtemplates"


class Provisioner:
    """Asks for nodes. One thread at a time.

    Args:
        http: how to reach the API server.
        class_: what is asked for.
    """

    def __init__(self, http: Http, class_: ProvisioningClass) -> None:
        self._http, self._class = http, class_
        self._pauses: dict[str, float] = {}
        """By the uid of a group, until when it is left alone."""
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Whether there may be something to do though nothing has changed."""
        return now >= self._due

    def work(
        self,
        gangs: Iterable[Members],
        requests: Mapping[str, Collection[ProvisioningRequest]],
        now: float,
    ) -> None:
        """Bring the requests of all groups in order. Never raises.

        Args:
            gangs: the groups.
            requests: by the uid of a group, its requests.
            now: seconds since the epoch.
        """
        self._pauses = {uid: until for uid, until in self._pauses.items() if until > now}
        dues = []
        for members in gangs:
            uid = members.group.uid
            if uid in self._pauses:
                continue
            steps = provisioning.steps(members, requests.get(uid, ()), now)
            if steps.due is not None:
                dues.append(steps.due)
            if self._carry_out(steps, members):
                self._pauses[uid] = now + PAUSE_SECONDS
        self._due = min((*dues, *self._pauses.values()), default=float("inf"))

    def _carry_out(self, steps: Steps, members: Members) -> bool:
        """Whether anything was written, or could not be."""
        try:
            return self._write(steps)
        except ApiError as error:
            group = members.group.key
            log.warning("Cannot ask for nodes", group=group, err=str(error))
            return True

    def _write(self, steps: Steps) -> bool:
        make, wrote = steps.make, bool(steps.drop)
        if make is not None:
            for pod in provisioning.unnamed(make, self._class):
                wrote = True
                patch = provisioning.annotation(make, self._class, pod.uid)
                with suppress(NotFound, Conflict):  # the Pod has gone
                    self._patch(POD.path(pod.namespace, pod.name), patch)
            if not steps.exists:
                wrote = True
                self._make(make)
        for request in steps.drop:
            self._drop(request)
        return wrote

    def _make(self, make: Make) -> None:
        namespace = make.members.group.namespace
        for number, (pod, _) in enumerate(make.demand.sets):
            body = msgspec.json.decode(self._http.get(POD.path(namespace, pod.name)))
            template = provisioning.template(make, number, body)
            self._create(_TEMPLATES.format(namespace=namespace), template)
        request = provisioning.request(make, self._class)
        self._create(PROVISIONING_REQUEST.path(namespace), request)
        log.info("Asked for nodes", group=make.members.group.key, request=make.name)

    def _drop(self, request: ProvisioningRequest) -> None:
        paths = [PROVISIONING_REQUEST.path(request.namespace, request.name)]
        templates = _TEMPLATES.format(namespace=request.namespace)
        paths += [f"{templates}/{one.pod_template_ref.name}" for one in request.spec.pod_sets]
        for path in paths:
            with suppress(NotFound):
                self._http.request("DELETE", path)
        log.info("Asks for these nodes no longer", request=request.key)

    def _patch(self, path: str, patch: provisioning.Json) -> None:
        self._http.patch(path, msgspec.json.encode(patch), MERGE_PATCH)

    def _create(self, path: str, body: provisioning.Json) -> None:
        with suppress(AlreadyExists):
            self._http.post(path, msgspec.json.encode(body))
