"""What the status of PodGroups, ElasticQuotas and Queues should be."""

from collections.abc import Sequence
from typing import Any

import pytest

from bayplan.api.kinds import (
    ELASTIC_QUOTA,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    Kind,
)
from bayplan.api.scheduling import ElasticQuota, PodGroup
from bayplan.cache.sub_groups import SUB_GROUPS
from bayplan.controllers.statuses import MOST_USERS, elastic_quota_status, pod_group_status
from bayplan.controllers.watched import Watched
from bayplan.testing import Json, make_node, make_object, make_pod

NOW = 1_700_000_000.0
BEGAN = "2023-11-14T22:13:20Z"


def group(minimum: int = 2) -> PodGroup:
    """A PodGroup."""
    return make_object(POD_GROUP, "g").meta(namespace="default").spec(minMember=minimum).obj()


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ([], "Pending"),
        (["Pending"], "Pending"),
        (["Pending", "Pending"], "Scheduling"),
        (["Running", "Pending"], "Scheduling"),
        (["Running", "Running"], "Running"),
        (["Running", "Succeeded"], "Running"),
        (["Succeeded", "Succeeded", "Failed"], "Finished"),
        (["Running", "Failed"], "Failed"),
        (["Pending", "Failed"], "Scheduling"),
    ],
)
def test_the_phase_of_a_group_follows_from_its_pods(phases: list[str], phase: str) -> None:
    pods = [make_pod(f"p{i}").status(phase=name).obj() for i, name in enumerate(phases)]
    status = pod_group_status(group(), {}, pods, NOW)
    assert status["phase"] == phase
    assert status["running"] == phases.count("Running")
    assert status.get("scheduleStartTime") == (None if phase == "Pending" else BEGAN)


def test_a_group_whose_sub_groups_need_more_is_pending_until_they_are_there() -> None:
    built = make_object(POD_GROUP, "g").meta(namespace="default")
    built.annotation(SUB_GROUPS, '[{"name": "a", "minMember": 2}, {"name": "b"}]')
    pods = [make_pod(f"p{i}").status(phase="Running").obj() for i in range(3)]
    for number, phase in ((0, "Pending"), (2, "Pending"), (3, "Running")):
        assert pod_group_status(built.obj(), {}, pods[:number], NOW)["phase"] == phase


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_a_final_phase_stays(phase: str) -> None:
    previous = {"phase": phase, "succeeded": 2}
    assert pod_group_status(group(), previous, [], NOW) == previous


def test_the_time_when_a_group_began_stays() -> None:
    pods = [make_pod(f"p{i}").status(phase="Running").obj() for i in range(2)]
    first = pod_group_status(group(), {}, pods, NOW)
    assert pod_group_status(group(), first, pods, NOW + 60) == first


def test_a_quota_shows_what_its_namespace_requests_of_what_it_names() -> None:
    quota: ElasticQuota = (
        make_object(ELASTIC_QUOTA, "q")
        .meta(namespace="default")
        .spec(min={"cpu": "1"}, max={"cpu": "4", "pods": "9"})
        .obj()
    )
    pods = [make_pod(f"p{i}").req(cpu="500m", memory="1Gi").obj() for i in range(3)]
    assert elastic_quota_status(quota, pods) == {"used": {"cpu": "1500m", "pods": "3"}}


class Objects:
    """What is watched, and the objects by JSON."""

    def __init__(self) -> None:
        self.watched = Watched(["bayplan"])

    def queue(self, conditions: Sequence[Json] = (), **spec: object) -> None:
        """A Queue of the namespace default, whose status has these conditions."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
        queue = make_object(QUEUE, "team").spec(namespaceSelector=selector, **spec)
        self.watched.put(QUEUE, queue.json | {"status": {"conditions": list(conditions)}})

    def conditions(self, now: float = NOW) -> list[Json]:
        """Those that the Queue should have."""
        found = self.watched.statuses(now)[QUEUE, "team"]["conditions"]
        assert isinstance(found, list)
        return found


def test_a_queue_shows_its_state_and_what_is_covered_and_never_evicted() -> None:
    objects = Objects()
    objects.queue(guaranteed={"cpu": "3"}, state="Draining")
    watched = objects.watched
    watched.put(NODE, make_node("n").capacity(cpu="8", pods="9").json)
    never = make_object(PRIORITY_CLASS, "build").label("bayplan.dev/preemptible", "false")
    watched.put(PRIORITY_CLASS, never.json)
    for name, cpu, priority_class in (("a", "2", ""), ("b", "2", ""), ("c", "1", "build")):
        pod = make_pod(name).req(cpu=cpu).node("n").spec(priorityClassName=priority_class)
        watched.put(POD, pod.json)
    status = watched.statuses(NOW)[QUEUE, "team"]
    shown = [status[name] for name in ("state", "used", "covered", "neverEvicted")]
    assert shown == ["Draining", {"cpu": "5"}, {"cpu": "3"}, {"cpu": "1"}]


def test_a_queue_shows_what_its_users_have_who_have_most_of_their_limit_first() -> None:
    objects = Objects()
    objects.queue(userLimit={"cpu": "4"})
    objects.watched.put(NODE, make_node("n").capacity(cpu="500", pods="500").json)
    for number in range(MOST_USERS):
        of_one = make_pod(f"of-{number:02}").label("bayplan.dev/user", f"user-{number:02}")
        objects.watched.put(POD, of_one.req(cpu="1").node("n").json)
    without_user = make_pod("more").req(cpu="1500m").node("n")
    objects.watched.put(POD, without_user.json)
    users = objects.watched.statuses(NOW)[QUEUE, "team"]["users"]
    assert isinstance(users, list)
    assert users[:2] == [
        {"name": "", "used": {"cpu": "1500m"}},
        {"name": "user-00", "used": {"cpu": "1"}},
    ]
    assert users[-1]["name"] == f"user-{MOST_USERS - 2:02}"


def test_a_status_that_the_object_has_is_not_written_again() -> None:
    objects = Objects()
    raw = make_object(POD_GROUP, "g").meta(namespace="default").spec(minMember=1).json
    objects.watched.put(POD_GROUP, raw)
    (status,) = objects.watched.statuses(NOW).values()
    assert not objects.watched.changed
    objects.watched.put(POD_GROUP, raw | {"status": status})
    assert objects.watched.statuses(NOW + 1) == {}


@pytest.mark.parametrize("kind", [NODE, NAMESPACE, QUEUE], ids=lambda kind: kind.name)
def test_what_was_replaced_under_its_name_stays_when_the_old_one_goes(kind: Kind[Any]) -> None:
    watched = Watched(["bayplan"])
    for uid in ("old", "new"):
        raw = make_object(kind, "one").json
        raw["metadata"]["uid"] = uid
        watched.put(kind, raw)
    watched.remove(kind, "old", "one")
    assert watched.keys(kind) == {"new": "one"}
    watched.remove(kind, "new", "one")
    assert watched.keys(kind) == {}


def test_a_queue_that_is_wrong_says_all_that_is_wrong() -> None:
    objects = Objects()
    objects.queue(parent="nobody", limit={"cpu": "-4"})
    (ready,) = objects.conditions()
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "InvalidAmount")
    assert ready["message"] == (
        "spec.limit.cpu: must not be negative; spec.parent: there is no queue nobody"
    )


def test_a_queue_says_that_guarantees_exceed_the_room_until_there_is_room_again() -> None:
    objects = Objects()
    objects.queue(guaranteed={"cpu": "10"})
    node = make_node("n").capacity(cpu="16")
    objects.watched.put(NODE, node.json)
    assert [c["type"] for c in objects.conditions()] == ["Ready"]
    for _ in range(2):
        objects.watched.put(NODE, make_node("n").capacity(cpu="4").json)
        ready, above = objects.conditions()
        assert ready["status"] == "True"
        assert (above["type"], above["status"]) == ("GuaranteedAboveRoom", "True")
        assert str(above["message"]).startswith(
            "spec.guaranteed.cpu: guaranteed to all: 10, there is: 4. "
        )
        objects.watched.put(NODE, node.json)
        assert [c["type"] for c in objects.conditions()] == ["Ready"]


@pytest.mark.parametrize(
    "conditions", [["x"], [{}], [{"type": "Ready", "status": "True"}], {"a": 1}]
)
def test_conditions_that_others_have_written_stop_nobody(conditions: Any) -> None:
    objects = Objects()
    objects.queue()
    raw = make_object(QUEUE, "team").json | {"status": {"conditions": conditions}}
    objects.watched.put(QUEUE, raw)
    assert [c["lastTransitionTime"] for c in objects.conditions()] == [BEGAN]


def test_a_condition_is_of_the_time_when_it_changed() -> None:
    objects = Objects()
    objects.queue(guaranteed={"cpu": "10"})
    first = objects.conditions()
    objects.queue(first, guaranteed={"cpu": "11"})
    assert [c["lastTransitionTime"] for c in objects.conditions(NOW + 60)] == [BEGAN, BEGAN]
