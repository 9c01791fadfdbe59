"""The operator: kopf's handlers fill `Watched`, and what has changed is written once a second.

Any number of processes may run. They share a Lease, and the one that holds it writes. A status is
replaced as a whole, and only when it differs from what the watch has brought; however many Pods of
a group change, its status is written once a second at most. What was sent does not count: the
process that led before may have written later, and the API server may have kept something else.
(By server-side apply it keeps null where the last entry of a map is taken away.)

kopf watches; it adds no finalizer and no annotation, since all handlers are for events only. Three
things that it does not do are done here:

- It does not tell when it has brought all objects that were there at the start. Nothing is written
  before that (`_wait_for_all`).
- While its watch is cut, an object may be deleted, of which it then says nothing: the lists are
  compared after each new list, and every `RESYNC_SECONDS`.
- It may miss that a CRD is served, if it looks too early: we look ourselves, and restart kopf.

The reasons: docs/decisions/0022-controllers-on-kopf.md.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

import kopf
import msgspec
import structlog

from bayplan.api.kinds import Kind
from bayplan.api.lists import ObjectList, PartialObject
from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError, NotFound
from bayplan.client.http import Http
from bayplan.client.leader import LeaderElector, LeaseLock, new_identity
from bayplan.controllers.provisioner import Provisioner
from bayplan.controllers.provisioning import PROVISIONING_REQUEST, ProvisioningClass
from bayplan.controllers.statuses import StatusFields
from bayplan.controllers.watched import KINDS, Watched, Written
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("controllers")

FIELD_MANAGER = "bayplan-controllers"
JSON_PATCH = "application/json-patch+json"
WRITE_SECONDS = 1.0
RESYNC_SECONDS = 600.0
WRITERS = 8
"""Statuses that are written at the same time."""
LOOK_SECONDS = 10.0
"""How often a kind is looked for that was not served."""
STOP_SECONDS = 0.5
"""How late it notices that it should end."""
WATCH_SECONDS = 300
"""How long one watch lasts: a connection that is dead without a word is noticed after that."""


_decode_list = msgspec.json.Decoder(ObjectList[PartialObject]).decode


class _ConnectionInfo(kopf.ConnectionInfo):
    """Trusts the certificates that the scheduler and kubectl trust.

    From 3.13 on Python wants an Authority Key Identifier, which those of some API servers lack.
    """

    def as_ssl_context(self) -> ssl.SSLContext:
        context = super().as_ssl_context()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


class Operator:
    """One process of the controllers.

    Args:
        kubeconfig: how to reach the API server; None as `bayplan.client.kubeconfig.load` says.
        scheduler_names: whose Pods wait in queues.
        lock: the Lease; None to write without one.
        port: where ``/healthz`` answers; 0 for nowhere.
        provisioning: what ProvisioningRequests ask for; None to make none.

    Raises:
        KubeconfigError: there are no usable credentials.
    """

    def __init__(
        self,
        kubeconfig: str | None,
        scheduler_names: list[str],
        lock: LeaseLock | None,
        port: int,
        provisioning: ProvisioningClass | None = None,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._port = port
        self._scheduler_names = scheduler_names
        self._watched = Watched(scheduler_names)
        self._seen: set[str] | None = set()  # uids, until all objects have come
        self._relisted = asyncio.Event()
        self._http = Http(Connection.load(kubeconfig, Instrument()))
        self._kinds, self._provisioner = KINDS, None
        if provisioning is not None:
            self._kinds += (PROVISIONING_REQUEST,)
            self._provisioner = Provisioner(self._http, provisioning)
        self._identity = new_identity()
        self._stop = threading.Event()
        self._lost = False
        self._elector: LeaderElector | None = None
        if lock is not None:
            self._elector = LeaderElector(
                self._http,
                lock,
                self._identity,
                on_started=lambda: log.info("Leading"),
                on_stopped=self._on_lost,
            )

    def _on_lost(self) -> None:
        self._lost = not self._stop.is_set()
        self._stop.set()

    def stop(self) -> None:
        """End. Safe from a signal handler."""
        self._stop.set()

    def run(self) -> bool:
        """Work until `stop` is called; False when the Lease was lost."""
        if self._elector is not None:
            self._elector.start()
        try:
            # In the main thread kopf would take the handlers of signals from us.
            with ThreadPoolExecutor(1, "kopf") as thread:
                thread.submit(asyncio.run, self._operate()).result()
        finally:
            self._stop.set()
            if self._elector is not None:
                self._elector.stop()
        return not self._lost

    async def _operate(self) -> None:
        """Watch the kinds that are served; restart when one more is served."""
        while not self._stop.is_set():
            kinds = [kind for kind in self._kinds if await self._list(kind, "?limit=1") is not None]
            self._watched = Watched(self._scheduler_names)
            self._seen = set()
            self._relisted.clear()
            await self._watch(kinds)

    async def _watch(self, kinds: list[Kind[Any]]) -> None:
        end = asyncio.Event()
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.watching.server_timeout = WATCH_SECONDS
        settings.watching.client_timeout = WATCH_SECONDS + 60
        operator = kopf.operator(
            registry=self._registry(kinds),
            settings=settings,
            clusterwide=True,
            standalone=True,
            # Its own would have the name of the user, and in the image the user has none.
            identity=cast(Any, self._identity),
            stop_flag=end,
            liveness_endpoint=f"http://0.0.0.0:{self._port}/healthz" if self._port else None,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(operator)
            others = [
                tasks.create_task(work) for work in (self._write_always(kinds), self._resync(kinds))
            ]
            await self._until_more(kinds)
            end.set()
            for task in others:
                task.cancel()

    async def _until_more(self, kinds: list[Kind[Any]]) -> None:
        """Return when this process should end, or when a kind is served that was not."""
        missing = [kind for kind in self._kinds if kind not in kinds]
        look_at = time.monotonic() + LOOK_SECONDS
        while not self._stop.is_set():
            await asyncio.sleep(STOP_SECONDS)
            if missing and time.monotonic() >= look_at:
                look_at = time.monotonic() + LOOK_SECONDS
                for kind in missing:
                    if await self._list(kind, "?limit=1") is not None:
                        log.info("A kind is served from now on", kind=kind.name)
                        return

    async def _list(self, kind: Kind[Any], query: str = "") -> set[str] | None:
        """The uids of all objects of the kind; None where the kind is not served.

        Asked again until there is an answer.
        """
        while True:
            try:
                body = await asyncio.to_thread(self._http.get, kind.path() + query)
            except NotFound:
                return None
            except ApiError as error:
                log.warning("Cannot list", kind=kind.name, err=str(error))
                await asyncio.sleep(STOP_SECONDS)
                if self._stop.is_set():
                    return None
            else:
                return {item.metadata.uid for item in _decode_list(body).items or ()}

    def _registry(self, kinds: list[Kind[Any]]) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
        for kind in kinds:
            group, _, version = kind.api_version.rpartition("/")
            handle = self._handler(kind)
            name = f"{kind.plural}.{group}"
            kopf.on.event(group, version, kind.plural, id=name, registry=registry)(handle)
        return registry

    def _login(self, **_: Any) -> kopf.ConnectionInfo:
        """The credentials, read again whenever the API server refuses them."""
        configuration, token_file = credentials.load(self._kubeconfig)
        header: str | None = configuration.get_api_key_with_prefix("authorization")
        if header is None:
            header = configuration.get_api_key_with_prefix("BearerToken")
        token = header.split(" ", 1)[-1] if header else None
        if token_file is not None:
            token = token_file.read_text(encoding="utf-8").strip()
        return _ConnectionInfo(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
            token=token,
        )

    def _handler(self, kind: Kind[Any]) -> Callable[..., Awaitable[None]]:
        async def handle(event: kopf.RawEvent, **_: Any) -> None:
            raw = event["object"]
            meta = raw["metadata"]
            namespace, name = meta.get("namespace"), meta["name"]
            key = f"{namespace}/{name}" if namespace else name
            if self._seen is not None:
                self._seen.add(meta["uid"])
            elif event["type"] is None:  # of a list
                self._relisted.set()
            try:
                if event["type"] == "DELETED":
                    self._watched.remove(kind, meta["uid"], key)
                else:
                    self._watched.put(kind, dict(raw))
            except msgspec.ValidationError as error:
                log.warning("Cannot decode", kind=kind.name, object=key, err=str(error))

        return handle

    # Writing

    async def _write_always(self, kinds: list[Kind[Any]]) -> None:
        await self._wait_for_all(kinds)
        slots = asyncio.Semaphore(WRITERS)
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            if self._elector is not None and not self._elector.is_leader:
                continue
            changed, now = self._watched.changed, time.time()
            if changed:
                statuses = self._watched.statuses(now)
                await asyncio.gather(*(self._write(slots, *entry) for entry in statuses.items()))
            if PROVISIONING_REQUEST in kinds:
                await self._provision(now, changed=changed)

    async def _wait_for_all(self, kinds: list[Kind[Any]]) -> None:
        """Until kopf has brought every object: figures of a part would be wrong."""
        for kind in kinds:
            while self._seen is not None and not (await self._list(kind) or set()) <= self._seen:
                await asyncio.sleep(WRITE_SECONDS)
        self._seen = None

    async def _write(
        self, slots: asyncio.Semaphore, written: Written, status: StatusFields
    ) -> None:
        kind, key = written
        namespace, _, name = key.rpartition("/")
        body = msgspec.json.encode([{"op": "add", "path": "/status", "value": status}])
        path = f"{kind.path(namespace, name)}/status?fieldManager={FIELD_MANAGER}"
        async with slots:
            try:
                await asyncio.to_thread(self._http.patch, path, body, JSON_PATCH)
            except NotFound:
                pass  # deleted meanwhile
            except ApiError as error:
                log.warning("Cannot write a status", kind=kind.name, object=key, err=str(error))
                self._watched.changed = True

    async def _provision(self, now: float, *, changed: bool) -> None:
        provisioner = self._provisioner
        if provisioner is not None and (changed or provisioner.is_due(now)):
            gangs, requests = list(self._watched.gangs()), self._watched.requests()
            await asyncio.to_thread(provisioner.work, gangs, requests, now)

    async def _resync(self, kinds: list[Kind[Any]]) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._relisted.wait(), RESYNC_SECONDS)
                await asyncio.sleep(WRITE_SECONDS)  # for the rest of its list
            self._relisted.clear()
            for kind in kinds:
                keys = self._watched.keys(kind)
                listed = await self._list(kind)
                if listed is not None:
                    for uid in keys.keys() - listed:
                        self._watched.remove(kind, uid, keys[uid])
