"""Hold: the Lease of one process, which applies a plan, and the annotations there.

One process at a time: a second one is refused while the Lease is renewed. A Lease that somebody
left behind is taken over when it has not changed for its duration by this process's own clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.api.kinds import LEASE
from bayplan.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from bayplan.client.http import Http

DURATION = 15
"""Seconds for which the Lease counts without being renewed."""
RENEW_SECONDS = 3.0
_LOOK_SECONDS = 1.0
_TRIES = 10
"""Of a write, where another writer changes the Lease at the same time."""

Lease = dict[str, Any]


class HeldError(Exception):
    """Another process has the Lease, or has taken it; the text says who."""


class Hold:
    """See the module's docstring. The thread that renews begins with `acquire`.

    Args:
        http: to the API server.
        namespace: of the Lease.
        name: of the Lease.
        identity: what this process writes into it.
        keeps: the annotation that stays from one process to the next; "" for none.

    Attributes:
        where: ``namespace/name`` of the Lease.
    """

    def __init__(
        self,
        http: Http,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], object] = time.sleep,
        keeps: str = "",
    ) -> None:
        self._http, self._identity, self._keeps = http, identity, keeps
        self._namespace, self._name = namespace, name
        self._path, self.where = LEASE.path(namespace, name), f"{namespace}/{name}"
        self._clock, self._now, self._sleep = clock, now, sleep
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="hold", daemon=True)

    def acquire(self, annotations: Mapping[str, str]) -> None:
        """Take the Lease, with these annotations and what is kept; waits for one left behind.

        Raises:
            HeldError: another process has it.
            ApiError: it can be neither read nor written.
        """
        began = self._micro_time()
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION}
        spec |= {"acquireTime": began, "renewTime": began}
        meta: Lease = {"name": self._name, "namespace": self._namespace}
        lease: Lease = {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": meta}
        lease["spec"] = spec
        try:
            previous = self._free()
            meta["annotations"] = {**self._kept(previous), **annotations}
            if previous is None:
                self._http.post(LEASE.path(self._namespace), msgspec.json.encode(lease))
            else:
                meta["resourceVersion"] = previous["metadata"]["resourceVersion"]
                self._http.put(self._path, msgspec.json.encode(lease))
        except (AlreadyExists, Conflict):
            raise HeldError("another process has begun to apply a plan at the same time") from None
        self._thread.start()

    def annotate(self, name: str, text: str) -> None:
        """Change an annotation.

        Raises:
            HeldError: the Lease was lost.
            ApiError: it cannot be written.
        """

        def change(lease: Lease) -> None:
            lease["metadata"].setdefault("annotations", {})[name] = text
            lease["spec"]["renewTime"] = self._micro_time()

        self._update(change)

    def annotations(self) -> Mapping[str, str]:
        """The annotations now.

        Raises:
            HeldError: the Lease was lost.
            ApiError: it cannot be read.
        """
        annotations: Mapping[str, str] = self._read()["metadata"].get("annotations") or {}
        return annotations

    def give_up(self) -> None:
        """Nobody has the Lease any more; where the API server does not answer, it runs out."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(RENEW_SECONDS)

        def change(lease: Lease) -> None:
            lease["metadata"]["annotations"] = self._kept(lease)
            lease["spec"] |= {"holderIdentity": "", "renewTime": self._micro_time()}

        with suppress(ApiError, HeldError):  # it runs out by itself
            self._update(change)

    def _kept(self, lease: Lease | None) -> dict[str, str]:
        annotations = {} if lease is None else lease["metadata"].get("annotations") or {}
        return {name: text for name, text in annotations.items() if name == self._keeps}

    def _free(self) -> Lease | None:
        """The Lease once nobody has it; None where there is none."""
        lease = self._get()
        seen_at = self._clock()
        while lease is not None and (holder := _spec(lease).get("holderIdentity")):
            if not self._is_stale(lease):
                raise HeldError(f"{holder} applies a plan, since {_spec(lease)['acquireTime']}")
            if self._clock() - seen_at >= (_spec(lease).get("leaseDurationSeconds") or 0):
                break
            self._sleep(_LOOK_SECONDS)
            again = self._get()
            if again is not None and _spec(again) != _spec(lease):
                seen_at = self._clock()
            lease = again
        return lease

    def _is_stale(self, lease: Lease) -> bool:
        """Whether the Lease has run out, if the clocks of both machines agree."""
        spec = _spec(lease)
        try:
            renewed = datetime.fromisoformat(spec["renewTime"])
        except (KeyError, TypeError, ValueError):
            return True
        return (self._now() - renewed).total_seconds() >= (spec.get("leaseDurationSeconds") or 0)

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            try:
                self._update(lambda lease: lease["spec"].update(renewTime=self._micro_time()))
            except HeldError:
                return  # the next read says so
            except ApiError:
                continue

    def _update(self, change: Callable[[Lease], object]) -> None:
        with self._lock:
            for last in [False] * (_TRIES - 1) + [True]:
                lease = self._read()
                change(lease)
                try:
                    self._http.put(self._path, msgspec.json.encode(lease))
                except Conflict:
                    if last:
                        raise
                else:
                    return

    def _read(self) -> Lease:
        lease = self._get()
        holder = "" if lease is None else _spec(lease).get("holderIdentity")
        if lease is None or holder != self._identity:
            raise HeldError(f"the Lease was lost{f' to {holder}' if holder else ''}")
        return lease

    def _get(self) -> Lease | None:
        try:
            lease: Lease = msgspec.json.decode(self._http.get(self._path))
        except NotFound:
            return None
        return lease

    def _micro_time(self) -> str:
        return f"{self._now():%Y-%m-%dT%H:%M:%S.%f}Z"


def _spec(lease: Lease) -> dict[str, Any]:
    return lease.get("spec") or {}
