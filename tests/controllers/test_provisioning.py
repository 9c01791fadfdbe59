"""One ProvisioningRequest for each group that has no room."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.fault_server import Exchange, FaultServer, running_server
from tests.controllers.test_operator import KUBECONFIG
from tests.properties import length

from bayplan.api.kinds import KUBERNETES_POD_GROUP, POD, POD_GROUP
from bayplan.api.scheduling import CONSUMES_REQUEST
from bayplan.client.connection import Connection
from bayplan.client.http import Http
from bayplan.controllers.provisioner import PAUSE_SECONDS, Provisioner
from bayplan.controllers.provisioning import (
    BACKOFF_SECONDS,
    MOST_BACKOFF_SECONDS,
    PROVISIONING_REQUEST,
    Members,
    ProvisioningClass,
    ProvisioningRequest,
    backoff,
    demand_of,
    request,
    steps,
    template,
)
from bayplan.controllers.watched import Watched
from bayplan.testing import Json, make_object, make_pod
from bayplan.testing.pods import PodBuilder

NOW = 1_700_000_000.0
CLASS = ProvisioningClass("best-effort-atomic-scale-up.autoscaling.x-k8s.io", {"A": "1"})
NO_ROOM = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def member(number: int, **requests: str) -> PodBuilder:
    """A Pod of the group that has no room."""
    pod = make_pod(f"p{number}").label("scheduling.x-k8s.io/pod-group", "g")
    pod.spec(schedulerName="bayplan").status(conditions=[NO_ROOM])
    return pod.req(**(requests or {"cpu": "1"}))


def watched(pods: Sequence[PodBuilder], *requests: Json) -> Watched:
    """What the watch has brought: the group, its Pods, its requests."""
    made = Watched(["bayplan"])
    made.put(POD_GROUP, make_object(POD_GROUP, "g").meta(namespace="default", uid="u").json)
    for pod in pods:
        made.put(POD, pod.json)
    for one in requests:
        made.put(PROVISIONING_REQUEST, one)
    return made


def gang(*pods: PodBuilder) -> Members:
    [members] = watched(pods).gangs()
    return members


def made(pods: Sequence[PodBuilder], number: int = 1, *said: tuple[str, str, float]) -> Json:
    """A request as it was made, and what was said of it."""
    members = gang(*pods)
    make = steps(members, (), NOW).make
    assert make is not None
    body = request(make._replace(number=number), CLASS)
    conditions = [{"type": t, "status": s, "lastTransitionTime": _time(at)} for t, s, at in said]
    return body | {"status": {"conditions": conditions}}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def decoded(*bodies: Json) -> list[ProvisioningRequest]:
    return [PROVISIONING_REQUEST.decode(json.dumps(body).encode()) for body in bodies]


def test_equal_pods_are_one_set_and_the_request_is_gone_with_the_group() -> None:
    pods = [member(0), member(1), member(2, cpu="2")]
    body = made(pods)
    assert [one["count"] for one in body["spec"]["podSets"]] == [2, 1]
    assert body["spec"]["provisioningClassName"] == CLASS.name
    assert body["spec"]["parameters"] == {"A": "1"}
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("PodGroup", "g", "u")


def test_the_name_does_not_depend_on_who_looks_or_in_which_order() -> None:
    one, other = [member(0), member(1, cpu="2")], [member(1, cpu="2"), member(0)]
    assert made(one)["metadata"]["name"] == made(other)["metadata"]["name"]
    assert demand_of(gang(*one)).digest != demand_of(gang(member(0))).digest


WAITS_FOR_OTHER_THINGS = {
    "gathers": {"conditions": [NO_ROOM | {"reason": "WaitingForMembers"}]},
    "above-a-limit": {"conditions": [NO_ROOM | {"reason": "QueueLimit"}]},
    "not-tried": {"conditions": []},
    "others-leave-for-it": {"conditions": [NO_ROOM], "nominatedNodeName": "n"},
}


@pytest.mark.parametrize("status", WAITS_FOR_OTHER_THINGS.values(), ids=WAITS_FOR_OTHER_THINGS)
def test_a_group_of_which_one_pod_waits_for_something_else_asks_for_nothing(status: Json) -> None:
    members = gang(member(0), member(1).status(**status))
    assert steps(members, (), NOW) == steps(gang(), (), NOW)


def test_a_group_that_has_begun_asks_for_nothing_and_keeps_its_request_while_a_pod_waits() -> None:
    pods = [member(0), member(1)]
    requests = decoded(made(pods))
    begun = gang(pods[0].node("n"), member(1))
    assert (steps(begun, requests, NOW).make, steps(begun, requests, NOW).drop) == (None, ())
    placed = gang(pods[0].node("n"), pods[1].node("n"))
    assert steps(placed, requests, NOW).drop == tuple(requests)


def test_a_request_that_is_there_is_not_made_again() -> None:
    pods = [member(0), member(1)]
    for said in ((), [("Accepted", "True", NOW)], [("Provisioned", "True", NOW)]):
        what = steps(gang(*pods), decoded(made(pods, 1, *said)), NOW)
        assert (what.exists, what.drop) == (True, ())


@pytest.mark.parametrize("ended", ["Failed", "BookingExpired", "CapacityRevoked"])
def test_a_try_that_has_ended_is_followed_by_another_one_after_a_backoff(ended: str) -> None:
    pods = [member(0), member(1)]
    requests = decoded(made(pods, 2, ("Provisioned", "True", NOW - 50), (ended, "True", NOW)))
    assert backoff(2) == 2 * BACKOFF_SECONDS
    early = steps(gang(*pods), requests, NOW + 1)
    assert (early.make, early.due) == (None, NOW + backoff(2))
    late = steps(gang(*pods), requests, NOW + backoff(2))
    assert late.make is not None
    assert (late.make.number, late.exists, late.drop) == (3, False, tuple(requests))


def test_the_backoff_ends_somewhere() -> None:
    assert backoff(10_000) == MOST_BACKOFF_SECONDS


def test_another_demand_is_another_request() -> None:
    old = decoded(made([member(0)]))
    what = steps(gang(member(0), member(1)), old, NOW)
    assert what.make is not None
    assert (what.make.number, what.exists, what.drop) == (1, False, tuple(old))


def test_pods_for_which_somebody_else_asks_are_left_alone() -> None:
    members = gang(member(0).annotation(CONSUMES_REQUEST, "kueue-1"), member(1))
    assert steps(members, (), NOW).make is None


def test_more_kinds_of_pods_than_a_request_takes_are_left_to_the_autoscaler() -> None:
    pods = [member(number, cpu=f"{100 + number}m") for number in range(33)]
    assert steps(gang(*pods[:32]), (), NOW).make is not None
    assert steps(gang(*pods), (), NOW).make is None


def test_a_template_has_what_scheduling_reads_and_no_secrets() -> None:
    make = steps(gang(member(0)), (), NOW).make
    assert make is not None
    pod = member(0).spec(nodeSelector={"a": "b"}, serviceAccountName="s").json
    container = {"name": "c", "image": "i", "env": [{"name": "PASSWORD"}], "command": ["x"]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    volumes.append({"name": "t", "secret": {"secretName": "s"}})
    pod["spec"] |= {"containers": [container], "volumes": volumes, "nodeName": ""}
    spec = template(make, 0, pod)["template"]["spec"]
    assert spec["containers"] == [{"name": "c", "image": "i"}]
    assert spec["volumes"] == volumes[:1]
    assert spec.keys() == {"containers", "volumes", "nodeSelector", "schedulerName"}


def test_gangs_of_kubernetes_ask_too_but_not_those_below_a_composite() -> None:
    for parent, count in (("", 1), ("tree", 0)):
        there = Watched(["bayplan"])
        spec: Any = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        if parent:
            spec["parentCompositePodGroupName"] = parent
        there.put(KUBERNETES_POD_GROUP, make_object(KUBERNETES_POD_GROUP, "k").spec(**spec).json)
        pod = make_pod("k-0").spec(schedulerName="bayplan").status(conditions=[NO_ROOM])
        pod.spec(schedulingGroup={"podGroupName": "k"})
        there.put(POD, pod.json)
        assert len([one for one in there.gangs() if one.has_no_room]) == count


class Autoscaled:
    """A group, its requests as the API server would have them, and processes that see them late."""

    def __init__(self) -> None:
        self.pods = [member(number) for number in range(2)]
        self.there: dict[str, Json] = {}
        self.ever: list[str] = []

    def look(self, now: float, seen: Sequence[Json]) -> None:
        what = steps(gang(*self.pods), decoded(*seen), now)
        if what.make is not None and not what.exists and what.make.name not in self.there:
            self.there[what.make.name] = request(what.make, CLASS)
            self.ever.append(what.make.name)
        for one in what.drop:
            self.there.pop(one.name, None)


@given(st.lists(st.tuples(st.sampled_from(["look", "late", "fail", "wait"]), st.integers(1, 60))))
@length(200)
def test_never_two_requests_once_all_have_looked(happens: list[tuple[str, int]]) -> None:
    """Processes may act on what was there before, as two leaders do for a moment."""
    cluster, now, before = Autoscaled(), NOW, list[Json]()
    for what, seconds in happens:
        now += seconds
        if what == "look":
            before = list(cluster.there.values())
            cluster.look(now, before)
        elif what == "late":
            cluster.look(now, before)
        elif what == "fail":
            for body in cluster.there.values():
                condition = {"type": "Failed", "status": "True", "lastTransitionTime": _time(now)}
                body["status"] = {"conditions": [condition]}
    cluster.look(now, list(cluster.there.values()))
    cluster.look(now, list(cluster.there.values()))
    assert len(cluster.there) == 1


# What is written


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def provisioner(server: FaultServer, tmp_path: Path) -> Provisioner:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.format(url=server.url))
    return Provisioner(Http(Connection.load(str(path))), CLASS)


def writes(server: FaultServer) -> list[tuple[str, str]]:
    return [(r.command, r.path.rpartition("/")[2]) for r in server.requests if r.command != "GET"]


def test_the_pods_are_named_first_then_come_the_templates_then_the_request(
    server: FaultServer, provisioner: Provisioner
) -> None:
    pods = [member(0), member(1, cpu="2")]
    server.script = lambda exchange: exchange.answer(body=member(0).json)
    there = watched(pods)
    provisioner.work(there.gangs(), there.requests(), NOW)
    order = [("PATCH", "p0"), ("PATCH", "p1"), ("POST", "podtemplates"), ("POST", "podtemplates")]
    assert writes(server) == [*order, ("POST", "provisioningrequests")]
    first, *_, last = (json.loads(r.body) for r in server.requests if r.body)
    assert first["metadata"]["annotations"][CONSUMES_REQUEST] == last["metadata"]["name"]
    assert first["metadata"]["uid"] == pods[0].obj().uid


def test_what_was_made_by_a_try_that_was_interrupted_is_no_error(
    server: FaultServer, provisioner: Provisioner
) -> None:
    def answer(exchange: Exchange) -> None:
        if exchange.command == "POST":
            exchange.error(409, "AlreadyExists")
        else:
            exchange.answer(body=member(0).json)

    server.script = answer
    there = watched([member(0)])
    provisioner.work(there.gangs(), there.requests(), NOW)
    assert writes(server)[-1] == ("POST", "provisioningrequests")


def test_after_a_failure_nothing_is_asked_for_a_moment(
    server: FaultServer, provisioner: Provisioner
) -> None:
    server.script = lambda exchange: exchange.error(403, "Forbidden")
    there = watched([member(0)])
    for at in (NOW, NOW + 1):
        provisioner.work(there.gangs(), there.requests(), at)
    assert len(server.requests) == 1
    assert not provisioner.is_due(NOW + 1)
    assert provisioner.is_due(NOW + PAUSE_SECONDS)
    provisioner.work(there.gangs(), there.requests(), NOW + PAUSE_SECONDS)
    assert len(server.requests) == 2


def test_a_request_is_deleted_with_its_templates_once_all_pods_have_nodes(
    server: FaultServer, provisioner: Provisioner
) -> None:
    pods = [member(0), member(1)]
    body = made(pods)
    there = watched([pod.node("n") for pod in pods], body)
    provisioner.work(there.gangs(), there.requests(), NOW)
    name = body["metadata"]["name"]
    assert writes(server) == [("DELETE", name), ("DELETE", f"{name}-0")]


def test_where_nothing_is_to_be_done_nothing_is_asked(
    server: FaultServer, provisioner: Provisioner
) -> None:
    pods = [member(0)]
    body = made(pods)
    for key in (CONSUMES_REQUEST, "autoscaling.x-k8s.io/provisioning-class-name"):
        pods[0].annotation(key, body["metadata"]["name"] if key == CONSUMES_REQUEST else CLASS.name)
    there = watched(pods, body)
    provisioner.work(there.gangs(), there.requests(), NOW)
    assert server.requests == []
    assert not provisioner.is_due(NOW + 10**6)
