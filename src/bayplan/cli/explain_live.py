"""What the running scheduler says of Pods and groups, each with every node's answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import msgspec

from bayplan.api.kinds import POD
from bayplan.api.lists import ObjectList
from bayplan.cli.asking import Subject
from bayplan.cli.live import PAGE
from bayplan.client.errors import NotFound
from bayplan.client.http import Http

Verdict = dict[str, Any]

_decode = msgspec.json.Decoder(ObjectList[dict[str, Any]]).decode
_SAID_ELSEWHERE = ("apiVersion", "kind", "pod", "now")


def verdict(scheduler: Http, about: Subject) -> Verdict | None:
    """What is said of a Pod or a group, in the format of ``bayplan explain``; None for nothing.

    ``running`` has what the scheduler knows beside the decision as it would be made now.

    Raises:
        ApiError: it does not answer, or not to this user.
    """
    kind = "group" if about.is_group else "pod"
    query = {"namespace": about.namespace, kind: about.name, "verdict": "whole"}
    try:
        answer = msgspec.json.decode(scheduler.get(f"/why?{urlencode(query)}"))
    except NotFound:
        return None
    whole: Verdict = answer.pop("verdict", {})
    if answer.get("state") == "Running":
        whole["runsOn"] = answer["node"]
    running = {key: value for key, value in answer.items() if key not in _SAID_ELSEWHERE}
    return {kind: about.key, **whole, "running": running}


def pending(api_server: Http, namespace: str, selector: str) -> Iterator[tuple[Subject, str]]:
    """Pods without a node that have not ended, each with kind and name of the owner.

    Args:
        api_server: where they are listed.
        namespace: "" for all.
        selector: of labels, as of ``kubectl -l``.

    Raises:
        ApiError: they may not be listed.
    """
    query: dict[str, str | int] = {"limit": PAGE}
    query["fieldSelector"] = "spec.nodeName=,status.phase=Pending"
    if selector:
        query["labelSelector"] = selector
    while True:
        page = _decode(api_server.get(f"{POD.path(namespace)}?{urlencode(query)}"))
        for pod in page.items or ():
            meta = pod["metadata"]
            refs = meta.get("ownerReferences") or ()
            owners = [f"{ref['kind']} {ref['name']}" for ref in refs if ref.get("controller")]
            yield Subject(meta["namespace"], meta["name"], is_group=False), "".join(owners)
        if not page.metadata.continue_:
            return
        query["continue"] = page.metadata.continue_
