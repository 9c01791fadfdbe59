"""Warns of others that may schedule the same Pods: kube-scheduler, or another bayplan.

Two schedulers with the same schedulerName schedule the same Pods. Only leader election on the same
Lease prevents that.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
import structlog

from bayplan.api.pod import Pod
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.client.leader import LeaseLock
from bayplan.config import EffectiveConfig

log = structlog.get_logger("rival")

NAME = "default-scheduler"
OTHER_PARTS = ("bayplan-api", "bayplan-controllers")
"""Label ``app`` of Deployments of bayplan that schedule nothing."""
NAME_LABEL, BAYPLAN = "app.kubernetes.io/name", "bayplan"
LOCK = LeaseLock("kube-scheduler", "kube-system")
"""The default Lease of kube-scheduler."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct):
    spec: _Spec


def is_possible(config: EffectiveConfig) -> bool:
    """Whether kube-scheduler may schedule Pods that one of our profiles schedules, too."""
    election = config.settings.leader_election
    shares_lease = (
        election.leader_elect
        and election.resource_name == LOCK.name
        and election.resource_namespace == LOCK.namespace
    )
    return not shares_lease and any(p.scheduler_name == NAME for p in config.profiles)


def warn_of_releases(pods: Iterable[Pod], host: str) -> list[str]:
    """Log a warning if Pods of another installation of bayplan run; which installations.

    Replicas have the same namespace and label ``app``. Nothing is said where we run in no Pod.

    Args:
        pods: all that are known.
        host: the name of the Pod that we run in, if it is one.
    """
    named = [pod for pod in pods if pod.labels.get(NAME_LABEL) == BAYPLAN and not pod.terminal]
    ours = [pod for pod in named if pod.labels.get("app") not in OTHER_PARTS]
    mine = {(pod.namespace, pod.labels.get("app")) for pod in ours if pod.name == host}
    others = [pod for pod in ours if (pod.namespace, pod.labels.get("app")) not in mine]
    found = sorted({f"{pod.namespace}/{pod.labels.get('app', '')}" for pod in others})
    if not mine or not found:
        return []
    log.warning(
        "Another bayplan is installed in this cluster: where it has a profile of the same "
        "schedulerName, both bind the same Pods. Give each a schedulerName of its own",
        installations=found,
    )
    return found


def warn(http: Http, now: datetime | None = None) -> bool:
    """Log a warning if another process holds and renews kube-scheduler's Lease; whether one does.

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
