"""What autoscalers say of a Pod: events on the Pod, and the status of cluster-autoscaler.

Causes 6 to 8 of docs/autoscalers.md, read with the credentials of the user.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
import yaml

from bayplan.cli.asking import Subject
from bayplan.client.errors import Forbidden, NotFound
from bayplan.client.http import Http

STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
NOT_TRIGGERED, TRIGGERED = "NotTriggerScaleUp", "TriggeredScaleUp"

Answer = dict[str, Any]


def said(api_server: Http, pod: Subject) -> Answer:
    """``cause`` and ``text``; what may not be read counts as not there.

    Raises:
        ApiError: the API server does not answer.
    """
    event = _newest(_read(api_server, _events_of(pod)).get("items") or ())
    if event is not None:
        at = event.get("lastTimestamp") or event.get("eventTime") or ""
        if event["reason"] == NOT_TRIGGERED:
            return {"cause": 6, "text": f"the autoscaler said at {at}: {event['message']}"}
        return {"cause": 7, "text": f"a node was asked for at {at}: {event['message']}"}
    groups = _groups_at_an_end(_read(api_server, STATUS))
    if groups:
        return {"cause": 8, "text": f"cluster-autoscaler's status: {'; '.join(groups)}"}
    return {}


def _events_of(pod: Subject) -> str:
    selector = f"involvedObject.kind=Pod,involvedObject.name={pod.name}"
    query = urlencode({"fieldSelector": selector})
    return f"/api/v1/namespaces/{pod.namespace}/events?{query}"


def _read(api_server: Http, path: str) -> Answer:
    try:
        answer: Answer = msgspec.json.decode(api_server.get(path))
    except (NotFound, Forbidden):
        return {}
    return answer


def _newest(events: Any) -> Answer | None:
    ours = [event for event in events if event.get("reason") in (NOT_TRIGGERED, TRIGGERED)]
    return max(ours, key=lambda e: e.get("lastTimestamp") or e.get("eventTime") or "", default=None)


def _groups_at_an_end(config_map: Answer) -> list[str]:
    """Node groups at their largest size, or in backoff, as the status of 1.30 and later has it."""
    try:
        status = yaml.safe_load((config_map.get("data") or {}).get("status", "")) or {}
        groups = status.get("nodeGroups") or ()
        said = []
        for group in groups:
            health, name = group.get("health") or {}, group.get("name", "")
            if health.get("cloudProviderTarget", 0) >= health.get("maxSize", float("inf")):
                said.append(f"{name} has its largest size {health['maxSize']}")
            elif (group.get("scaleUp") or {}).get("status") == "Backoff":
                said.append(f"{name} is in backoff")
    except (yaml.YAMLError, AttributeError, TypeError):
        return []
    return said
