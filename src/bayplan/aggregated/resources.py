"""Resources: the paths of the aggregated API, and the page of the scheduler's port for each.

| below ``/apis/view.bayplan.dev/v1alpha1`` | page |
|---|---|
| ``/namespaces/NS/pods/NAME/explanation`` | ``/why?namespace=NS&pod=NAME`` |
| ``/namespaces/NS/podgroups/NAME/explanation`` | ``/why?namespace=NS&group=NAME`` |
| ``/schedulers/leader/status``, ``bays``, ``queues`` | ``/status``, ``/bays``, ``/queues`` |
| ``/namespaces/NS/schedulers/leader/status``, ... | ``/status?namespace=NS``, ... |
| ``/namespaces/NS/schedulers/leader/plan`` | POST ``/plan`` |
| ``/schedulers/leader/improve`` | POST ``/improve`` |
| ``/schedulers/leader/page/``, and with a namespace | `bayplan.aggregated.page` |

Groups without a PodGroup are ``jobs``, ``jobsets`` and ``leaderworkersets``.
All are subresources, so that tools that list or delete everything of a cluster leave them alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from bayplan.api.kinds import JOB, JOB_SET, LEADER_WORKER_SET
from bayplan.server.pages import Attributes

GROUP, VERSION = "view.bayplan.dev", "v1alpha1"
PREFIX = f"/apis/{GROUP}/{VERSION}"
EXPLANATION, SCHEDULERS, LEADER = "explanation", "schedulers", "leader"
PLAN, PAGE, IMPROVE = "plan", "page", "improve"
POSTED = (PLAN, IMPROVE)
"""Questions that are too long for a path."""
WHOLE = "verdict"
"""The parameter of `EXPLANATION`, as of the page."""
GROUPS = {
    "podgroups": "",
    "jobs": f"{JOB.name}/",
    "jobsets": f"{JOB_SET.name}/",
    "leaderworkersets": f"{LEADER_WORKER_SET.name}/",
}
"""By resource, what stands before the name of a group."""
ANSWERS = {
    "status": "StatusAnswer",
    "bays": "Bays",
    "queues": "QueuesAnswer",
    PLAN: "PlanAnswer",
    IMPROVE: "ImprovePlan",
}
"""Kinds, by page and subresource of the scheduler."""


class Question(NamedTuple):
    """A request to the API: the page with the answer, and the right to ask."""

    method: str
    page: str
    wanted: Attributes


class Resource(NamedTuple):
    """A resource of the API.

    Attributes:
        name: with the subresource.
        kind: of the answer.
    """

    name: str
    kind: str
    verb: str


def resources() -> Iterator[Resource]:
    """All resources, all with a namespace; those of the scheduler but for `PLAN` also without."""
    yield Resource(f"pods/{EXPLANATION}", "PodAnswer", "get")
    for plural in GROUPS:
        yield Resource(f"{plural}/{EXPLANATION}", "GroupAnswer", "get")
    for page, kind in ANSWERS.items():
        yield Resource(f"{SCHEDULERS}/{page}", kind, "create" if page in POSTED else "get")
    yield Resource(f"{SCHEDULERS}/{PAGE}", "Page", "get")


def question(path: str) -> Question | None:
    """What a path of the API asks; None for a path that is none."""
    parts = [unquote(part) for part in path.removeprefix(f"{PREFIX}/").split("/")]
    if not path.startswith(f"{PREFIX}/") or any(not part or "/" in part for part in parts):
        return None
    match parts:
        case ["namespaces", namespace, plural, name, "explanation"]:
            return _about(namespace, plural, name)
        case ["namespaces", namespace, "schedulers", "leader", page] if page in ANSWERS:
            return _scheduler(page, namespace)
        case ["schedulers", "leader", page] if page in ANSWERS and page != PLAN:
            return _scheduler(page)
    return None


def _about(namespace: str, plural: str, name: str) -> Question | None:
    if plural == "pods":
        query = {"namespace": namespace, "pod": name}
    elif plural in GROUPS:
        query = {"namespace": namespace, "group": GROUPS[plural] + name}
    else:
        return None
    wanted = Attributes("get", plural, namespace, name, GROUP, EXPLANATION)
    return Question("GET", f"/why?{urlencode(query)}", wanted)


def _scheduler(page: str, namespace: str = "") -> Question:
    method, verb = ("POST", "create") if page in POSTED else ("GET", "get")
    query = f"?{urlencode({'namespace': namespace})}" if namespace else ""
    wanted = Attributes(verb, SCHEDULERS, namespace, LEADER, GROUP, page)
    return Question(method, f"/{page}{query}", wanted)


def path_of(page: str) -> str:
    """Where the API has a page of the port: the inverse of `question`."""
    parts = urlsplit(page)
    query = dict(parse_qsl(parts.query))
    more = f"?{urlencode({WHOLE: query[WHOLE]})}" if WHOLE in query else ""
    where = f"/namespaces/{_quoted(query['namespace'])}" if "namespace" in query else ""
    if parts.path != "/why":
        return f"{PREFIX}{where}/{SCHEDULERS}/{LEADER}{parts.path}"
    plural, name = "pods", query.get("pod", "")
    if group := query.get("group"):
        before, _, name = group.rpartition("/")
        plural = next(plural for plural, kind in GROUPS.items() if kind.rstrip("/") == before)
    return f"{PREFIX}{where}/{plural}/{_quoted(name)}/{EXPLANATION}{more}"


def _quoted(part: str) -> str:
    return quote(part, safe="")
