"""Warns when kube-scheduler runs and a profile would schedule the same Pods.

Two schedulers of one schedulerName bind each other's Pods away. Leader election on one Lease
prevents that; without it nothing does.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import structlog

from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.client.leader import LeaseLock
from bayplan.config import EffectiveConfig

log = structlog.get_logger("rival")

NAME = "default-scheduler"
LOCK = LeaseLock("kube-scheduler", "kube-system")
"""Which Lease kube-scheduler holds unless it is told otherwise."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct):
    spec: _Spec


def is_possible(config: EffectiveConfig) -> bool:
    """Whether kube-scheduler may schedule Pods that one of our profiles schedules, too."""
    election = config.config.leader_election
    shares_lease = (
        election.leader_elect
        and election.resource_name == LOCK.name
        and election.resource_namespace == LOCK.namespace
    )
    return not shares_lease and any(p.scheduler_name == NAME for p in config.profiles)


def warn(http: Http, now: datetime | None = None) -> bool:
    """Log a warning if somebody holds kube-scheduler's Lease and renews it; whether it is so.

    Clocks are compared here, which a warning may do. Who may not read the Lease is not warned.
    """
    try:
        spec = msgspec.json.decode(http.get(LOCK.path), type=_Lease).spec
    except (ApiError, msgspec.DecodeError):
        return False
    age = (now or datetime.now(UTC)) - (spec.renew_time or datetime.min.replace(tzinfo=UTC))
    if not spec.holder_identity or age > timedelta(seconds=spec.lease_duration_seconds or 0):
        return False
    log.warning(
        "Another scheduler is running for the same Pods: both will bind them. Give the profile "
        "another schedulerName, or share the Lease by leader election",
        profile=NAME,
        lease=f"{LOCK.namespace}/{LOCK.name}",
        holder=spec.holder_identity,
    )
    return True
