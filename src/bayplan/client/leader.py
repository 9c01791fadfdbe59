"""Leader election by a Lease (coordination.k8s.io/v1), with the semantics of client-go.

A candidate writes its identity into the Lease if there is no holder, or if the record has not
changed for leaseDuration. Only our own monotonic clock counts: clocks of different machines are
never compared. The leader renews every retryPeriod. If it could not renew for renewDeadline, it
stops leading at once, before another candidate may take over. A request times out after half of
renewDeadline and no later than at its end, so the leader also stops in time if the server hangs.

    candidate --acquired--> leader --not renewed in time, or another holder--> stopped
"""

from __future__ import annotations

import math
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from bayplan.api.kinds import LEASE
from bayplan.client.errors import ApiError, Conflict, NotFound
from bayplan.client.http import Http

log = structlog.get_logger(__name__)

JITTER = 1.2
"""A candidate waits retryPeriod times 1 to 2.2 (client-go's JitterFactor)."""


Lease = dict[str, Any]
"""As JSON, not as a struct: what others keep in it must survive our updates."""

_decode = msgspec.json.Decoder(Lease).decode
_FAILURES = (ApiError, msgspec.DecodeError)
"""What comes of a request that fails; an answer that is no Lease may come from a proxy."""


@dataclass(frozen=True)
class LeaseLock:
    """Where the Lease is, and the times of leaderElection in the config, in seconds."""

    name: str
    namespace: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def collection(self) -> str:
        """API path of the namespace's Leases."""
        return LEASE.path(self.namespace)

    @property
    def path(self) -> str:
        """API path of the Lease."""
        return f"{self.collection}/{self.name}"


def new_identity() -> str:
    """A name that no other candidate has, not even one on the same host."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """One candidate.

    Args:
        on_started: we lead now; called on the elector's thread, must return.
        on_stopped: we led and do not any more.
        on_new_leader: gets the identity of a new leader, which may be this process.
        record: gets the Lease and a note ("ID became leader") for a Kubernetes event, as
            client-go's resource lock writes them.
        release: give the Lease up when stopped, so that another can take over at once.
        clock: monotonic seconds.
        now: wall clock, written into the Lease for people to read.

    Attributes:
        identity: what we write into the Lease.
        problem: why the Lease could not be read or written the last time; "" if it could.
    """

    def __init__(
        self,
        http: Http,
        lock: LeaseLock,
        identity: str,
        *,
        on_started: Callable[[], None],
        on_stopped: Callable[[], None],
        on_new_leader: Callable[[str], None] = lambda _: None,
        release: bool = True,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
        record: Callable[[Lease, str], None] = lambda _lease, _note: None,
    ) -> None:
        self.identity = identity
        self.problem = ""
        self._record = record
        self._http = http
        self._lock = lock
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._on_new_leader = on_new_leader
        self._release = release
        self._clock = clock
        self._now = now
        self._jitter = jitter
        self._stop = threading.Event()
        self._lease: Lease = {}
        self._observed_at = float("-inf")
        self._reported = ""
        self._leading = False
        self._thread = threading.Thread(target=self.run, name="leader-elector", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Whether we lead; false as soon as leading is no longer certain."""
        return self._leading and not self._expired()

    @property
    def leader(self) -> str:
        """Identity of the leader as last seen; empty if there is none."""
        return _spec(self._lease).get("holderIdentity") or ""

    @property
    def lease(self) -> Lease:
        """The Lease as last seen; empty before that."""
        return self._lease

    @property
    def lease_name(self) -> str:
        """Name of the Lease."""
        return self._lock.name

    def start(self) -> None:
        """`run` in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, release the Lease if this process holds it, and wait for the release."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._lock.renew_deadline)

    def run(self) -> None:
        """Wait until we lead, then lead until that is lost or `stop` is called."""
        if not self._acquire():
            return
        self._leading = True
        self._record(self._lease, f"{self.identity} became leader")
        self._on_started()
        try:
            self._renew()
        finally:
            self._leading = False
            self._record(self._lease, f"{self.identity} stopped leading")
            # Notify first, then release: no other replica may start before we have stopped.
            self._on_stopped()
            if self._release and self.leader == self.identity:
                self._give_up()

    def _acquire(self) -> bool:
        while not self._stop.is_set():
            if self._try(self._lock.renew_deadline):
                return True
            self._stop.wait(self._lock.retry_period * (1 + JITTER * self._jitter()))
        return False

    def _renew(self) -> None:
        """Returns when leading is lost or `stop` was called."""
        deadline = self._clock() + self._lock.renew_deadline
        while not self._stop.wait(min(self._lock.retry_period, max(0, deadline - self._clock()))):
            began = self._clock()
            if self._try(deadline - began):
                deadline = began + self._lock.renew_deadline
            elif self._clock() >= deadline or self.leader != self.identity:
                log.error("leadership was lost", leader=self.leader, identity=self.identity)
                return

    def _try(self, within: float) -> bool:
        """Acquire or renew once, in so many seconds; whether we hold the Lease now."""
        try:
            held = self._try_to_hold(self._clock() + within)
        except _FAILURES as error:
            self.problem = str(error)
            log.warning("cannot get or renew the lease", lease=self._lock.path, error=str(error))
            return False
        else:
            self.problem = ""
            return held
        finally:
            self._report()

    def _timeout(self, until: float) -> float:
        """Of one request: a server that hangs is asked once more, as by client-go."""
        return max(0.001, min(self._lock.renew_deadline / 2, until - self._clock()))

    def _try_to_hold(self, until: float) -> bool:
        if self.is_leader:
            try:
                return self._write(self._lease, until)
            except (Conflict, NotFound):
                pass  # Changed by another candidate: look at the new record.
        try:
            self._observe(_decode(self._http.get(self._lock.path, self._timeout(until))))
        except NotFound:
            return self._create(until)
        if self.leader not in ("", self.identity) and not self._expired():
            return False
        return self._write(self._lease, until)

    def _expired(self) -> bool:
        """Whether the record has been unchanged for the holder's lease duration."""
        duration = _spec(self._lease).get("leaseDurationSeconds") or 0
        return self._clock() - self._observed_at >= duration

    def _create(self, until: float) -> bool:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._lock.name, "namespace": self._lock.namespace},
            "spec": self._held({}, transitions=0),
        }
        began = self._clock()
        created = self._http.post(self._lock.collection, _encode(lease), self._timeout(until))
        self._observe(_decode(created), began)
        return True

    def _write(self, lease: Lease, until: float) -> bool:
        spec = _spec(lease)
        taken_over = self.leader != self.identity
        transitions = (spec.get("leaseTransitions") or 0) + taken_over
        self._put(lease, self._held({} if taken_over else spec, transitions), until)
        return True

    def _held(self, old: Lease, transitions: int) -> Lease:
        """The spec of a Lease held by this process; keeps the times of ``old``, if held then."""
        now = self._micro_time()
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._lock.lease_duration),
            "acquireTime": old.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _put(self, lease: Lease, changes: Lease, until: float) -> None:
        body = lease | {"spec": _spec(lease) | changes}
        began = self._clock()
        written = self._http.put(self._lock.path, _encode(body), self._timeout(until))
        self._observe(_decode(written), began)

    def _observe(self, lease: Lease, written_at: float | None = None) -> None:
        """Remember the record, and when we first saw it like this.

        What we have written counts from before that: others may have seen it long before we had
        the answer, and it is for their sake that we stop.
        """
        if _spec(self._lease) != _spec(lease):
            self._observed_at = self._clock() if written_at is None else written_at
        self._lease = lease

    def _report(self) -> None:
        if self.leader != self._reported:
            self._reported = self.leader
            self._on_new_leader(self.leader)

    def _give_up(self) -> None:
        now = self._micro_time()
        free = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
        }
        try:
            self._put(self._lease, free, self._clock() + self._lock.renew_deadline / 2)
        except _FAILURES as error:
            log.warning("cannot release the lease", lease=self._lock.path, error=str(error))

    def _micro_time(self) -> str:
        return f"{self._now():%Y-%m-%dT%H:%M:%S.%f}Z"


_encode = msgspec.json.encode


def _spec(lease: Lease) -> Lease:
    return lease.get("spec") or {}
