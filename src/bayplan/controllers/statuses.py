"""What the status of each object should be. Pure functions; statuses are JSON.

The phases of a PodGroup are those that scheduler-plugins' users know::

    Pending      fewer Pods than minMember
    Scheduling   enough Pods, fewer than minMember run or have succeeded
    Running      minMember run or have succeeded
    Finished     minMember have succeeded; final
    Failed       one has failed, and with the failed ones minMember have begun; final

Where the sub-groups of a PodGroup need more than minMember together, that counts instead.

Unlike there, only Pods of the PodGroup's own namespace are counted, and scheduleStartTime is set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from bayplan.api import quantity
from bayplan.api.kinds import NODE_KIND, QUEUE, Kind
from bayplan.api.meta import ObjectFault
from bayplan.api.pod import Pod
from bayplan.api.scheduling import ElasticQuota, PodGroup
from bayplan.cache.cache import Cache
from bayplan.cache.pod_groups import minimum_of
from bayplan.cache.queue_tree import QueueTree
from bayplan.cache.queue_tree.report import percent, reports
from bayplan.cache.queue_tree.structure import GUARANTEED_ABOVE_ROOM
from bayplan.cache.requests import pod_requests
from bayplan.plugins.fair_share.coverage import covered_amounts

StatusFields = Mapping[str, object]

FINAL = ("Finished", "Failed")
NO_FAULTS = ("Accepted", "the queue takes part")
KIND_ACCEPTED = ("Accepted", "queues can name the kind")
NODES_MISSING = "NodesMissing"
MOST_USERS = 64
"""In a status: those who have most of their limit."""


def pod_group_status(
    group: PodGroup, previous: StatusFields, pods: Collection[Pod], now: float
) -> StatusFields:
    """The status of a PodGroup with these ``pods``; a ``previous`` one that is final stays.

    ``now``, in seconds since the epoch, is for scheduleStartTime.
    """
    if previous.get("phase") in FINAL:
        return previous
    minimum = minimum_of(group)
    counts = {
        name: sum(pod.status.phase == name for pod in pods)
        for name in ("Running", "Succeeded", "Failed")
    }
    status: dict[str, object] = {name.lower(): count for name, count in counts.items()}
    status["phase"] = _phase(minimum, len(pods), counts)
    if status["phase"] != "Pending":
        owners = {f"{pod.namespace}/{pod.shape.owner[1]}" for pod in pods if pod.shape.owner[1]}
        status["scheduleStartTime"] = previous.get("scheduleStartTime") or _time(now)
        if owners:
            status["occupiedBy"] = previous.get("occupiedBy") or ",".join(sorted(owners))
    return status


def _phase(minimum: int, pods: int, counts: Mapping[str, int]) -> str:
    running, succeeded, failed = counts["Running"], counts["Succeeded"], counts["Failed"]
    if pods < minimum or not pods:
        return "Pending"
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    return "Running" if running + succeeded >= minimum else "Scheduling"


def elastic_quota_status(quota: ElasticQuota, pods: Iterable[Pod]) -> StatusFields:
    """The status of ``quota``: the sum of requests of ``pods``, for the resources of the quota."""
    used = dict.fromkeys([*(quota.spec.min or {}), *(quota.spec.max or {})], 0)
    for pod in pods:
        requests = {**pod_requests(pod).amounts, "pods": 1}
        for name in used:
            used[name] += requests.get(name, 0)
    amounts = {name: quantity.canonical(name, amount) for name, amount in sorted(used.items())}
    return {"used": amounts}


def queue_statuses(
    tree: QueueTree, cache: Cache, previous: Mapping[str, StatusFields], now: float
) -> dict[str, StatusFields]:
    """By name, the status of every Queue. All amounts are sums as the scheduler has them.

    ``cache`` has the Pods on nodes, ``previous`` the statuses by name; ``now`` is in seconds since
    the epoch.
    """
    covered = covered_amounts(tree, cache)
    faults = _faults(tree, QUEUE)
    statuses: dict[str, StatusFields] = {}
    for state in reports(tree, now):
        status: dict[str, object] = {
            field: _quantities({name: getattr(its, field) for name, its in state.amounts.items()})
            for field in ("used", "demand", "share", "borrowed")
        }
        others = {"covered": covered.get(state.name, {}), "neverEvicted": state.never_evicted}
        for field, its in others.items():
            status[field] = _quantities(its)
        status["saturation"] = {name: percent(full) for name, full in state.saturation.items()}
        if state.users:
            users = islice(state.users.items(), MOST_USERS)
            status["users"] = [{"name": user, "used": _quantities(its)} for user, its in users]
        status["state"] = state.state
        status["pending"] = state.pending
        if state.oldest is not None:
            status["oldest"] = _time(round(now - state.oldest))
        before = previous.get(state.name, {})
        status["conditions"] = _dated(_conditions(faults[state.name]), before, now)
        statuses[state.name] = status
    return statuses


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """As the API writes them; what is 0 is left out."""
    return {name: quantity.canonical(name, amount) for name, amount in amounts.items() if amount}


def node_kind_statuses(
    tree: QueueTree, previous: Mapping[str, StatusFields], now: float
) -> dict[str, StatusFields]:
    """By name, the status of every NodeKind; arguments as of `queue_statuses`."""
    kinds, faults = tree.kinds, _faults(tree, NODE_KIND)
    return {
        name: {
            "nodes": int((kinds.codes == code).sum()),
            "conditions": _dated(
                _conditions(faults[name], KIND_ACCEPTED), previous.get(name, {}), now
            ),
        }
        for code, name in enumerate(kinds.names)
    }


def _faults(tree: QueueTree, kind: Kind[Any]) -> Mapping[str, list[ObjectFault]]:
    """By name, what is wrong with the objects of a kind; nothing for other names."""
    faults: defaultdict[str, list[ObjectFault]] = defaultdict(list)
    for fault in tree.faults():
        if fault.regarding.kind == kind.name:
            faults[fault.regarding.name].append(fault)
    return faults


def _dated(
    conditions: Iterable[tuple[str, str, str, str]], previous: StatusFields, now: float
) -> list[StatusFields]:
    """The conditions, each with the time since when it is so."""
    said = _mappings(previous.get("conditions"))
    return [_condition(*fields, said, now) for fields in conditions]


def _conditions(
    faults: Sequence[ObjectFault], accepted: tuple[str, str] = NO_FAULTS
) -> Iterator[tuple[str, str, str, str]]:
    """Type, status, reason and message. That the room is too small is no fault of the Queue."""
    above = [fault for fault in faults if fault.reason == GUARANTEED_ABOVE_ROOM]
    wrong = [fault for fault in faults if fault not in above]
    if wrong:
        yield "Ready", "False", wrong[0].reason, _sentences(wrong)
    else:
        yield "Ready", "True", *accepted
    if above:
        yield GUARANTEED_ABOVE_ROOM, "True", NODES_MISSING, _sentences(above)


def _mappings(value: object) -> list[StatusFields]:
    """What of a list are mappings: anybody may have written a status."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _sentences(faults: Sequence[ObjectFault]) -> str:
    return "; ".join(fault.message for fault in faults)


def _condition(
    name: str, status: str, reason: str, message: str, previous: Iterable[StatusFields], now: float
) -> StatusFields:
    since = (
        old.get("lastTransitionTime")
        for old in previous
        if (old.get("type"), old.get("status")) == (name, status)
    )
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": next(since, None) or _time(now),
    }


def _time(seconds: float) -> str:
    """As the API writes times."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
