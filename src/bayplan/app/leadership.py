"""Leadership: whether this process may schedule.

Without leader election it always may. With leader election it may while it holds the Lease. If it
loses the Lease it ends at once: two leaders could bind a Pod twice.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from bayplan.api.meta import ObjectReference
from bayplan.app.api_client import ApiClient
from bayplan.client.leader import LeaderElector, Lease, LeaseLock, new_identity
from bayplan.config import EffectiveConfig
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Lead

log = structlog.get_logger("leadership")


class Leadership:
    """The right to schedule.

    Args:
        on_lost: called at once when we led and do not any more; on another thread.

    Attributes:
        elector: None where leader election is off.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        api: ApiClient,
        inbox: Inbox,
        on_lost: Callable[[], None],
    ) -> None:
        settings = config.settings.leader_election
        self._events = api.events
        self._inbox = inbox
        self.elector: LeaderElector | None = None
        if settings.leader_elect:
            lock = LeaseLock(
                settings.resource_name,
                settings.resource_namespace,
                settings.lease_duration,
                settings.renew_deadline,
                settings.retry_period,
            )
            self.elector = LeaderElector(
                api.http,
                lock,
                new_identity(),
                on_started=lambda: inbox.post(Lead()),
                on_stopped=on_lost,
                on_new_leader=lambda who: log.info("New leader", leader=who),
                record=self._record,
            )

    def seek(self) -> None:
        """Lead as soon as possible; `Lead` comes into the inbox then."""
        if self.elector is None:
            self._inbox.post(Lead())
        else:
            self.elector.start()

    def give_up(self) -> None:
        """Let another process lead, at once."""
        if self.elector is not None:
            self.elector.stop()

    @property
    def may_write(self) -> bool:
        """False if the Lease has expired and this is not yet noticed, as after a long sleep."""
        return self.elector is None or self.elector.is_leader

    @property
    def leader(self) -> str:
        """Who leads, as last seen; "" for nobody, or without leader election."""
        return self.elector.leader if self.elector is not None else ""

    @property
    def elects(self) -> bool:
        """Whether a Lease says who schedules."""
        return self.elector is not None

    @property
    def identity(self) -> str:
        """What this process is called in the Lease; "" without leader election."""
        return self.elector.identity if self.elector is not None else ""

    @property
    def since(self) -> str:
        """When the leader took the Lease, as it stands there; "" for nobody."""
        spec = self.elector.lease.get("spec") if self.elector is not None else None
        return (spec or {}).get("acquireTime") or "" if self.leader else ""

    @property
    def problem(self) -> str:
        """Why the Lease can be neither read nor written; "" while it can."""
        return self.elector.problem if self.elector is not None else ""

    def event(self, type_: str, reason: str, note: str) -> None:
        """Record an event about the Lease, if we hold it."""
        if self.elector is not None and self.elector.is_leader:
            about = _reference(self.elector.lease)
            self._events.event(about, None, type_, reason, reason, note)

    def _record(self, lease: Lease, note: str) -> None:
        about = _reference(lease)
        self._events.event(about, None, "Normal", "LeaderElection", "LeaderElection", note)


def _reference(lease: Lease) -> ObjectReference:
    meta = lease["metadata"]
    return ObjectReference(
        "Lease",
        meta["namespace"],
        meta["name"],
        meta["uid"],
        "coordination.k8s.io/v1",
        meta["resourceVersion"],
    )
