"""How a process is, for everybody who may know, also while its scheduling thread says nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.core_harness import Cluster

from bayplan.app.leadership import Leadership
from bayplan.app.pages import status_page
from bayplan.app.questions import SAVED_SECONDS, Questions
from bayplan.app.reload import Reloader
from bayplan.app.status import Status
from bayplan.app.watchdog import Watchdog
from bayplan.inbox.messages import Message
from bayplan.server.pages import Answer, Attributes, PageRequest
from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.recent import Recent
from bayplan.testing import make_node, make_pod

NODES, PODS = Attributes("list", "nodes"), Attributes("list", "pods")
IN_SHOP = Attributes("list", "pods", "shop")
ALL = (NODES, PODS)


class Process:
    """The parts that a status is made of, as a test sets them; the thread answers at once."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
        self.cluster.add(make_pod("mine").namespace("shop").req(cpu="5"))
        self.cluster.add(make_pod("theirs").namespace("bank").req(cpu="5"))
        self.cluster.run()
        self.cluster.core.scheduler.active = True
        self.leadership = SimpleNamespace(
            elects=True,
            identity="n1_a",
            leader="n1_a",
            since="2026-01-01T12:00:00.123456Z",
        )
        self.reloader = SimpleNamespace(
            at=0.0, problem="", counts={"success": 2, "failure": 0}, failing=False
        )
        self.watchdog = SimpleNamespace(late=False, culprit=None)
        self.metrics, self.wrong = Metrics(), list[str]()
        self.questions = Questions(self, lambda: 0.0)  # type: ignore[arg-type]
        self.status = Status(
            self.cluster.core,
            self.questions,
            cast(Leadership, self.leadership),
            cast(Reloader, self.reloader),
            cast(Watchdog, self.watchdog),
            Recent(self.metrics),
            lambda: self.wrong,
            lambda: 60.0,
        )

    def post(self, message: Message) -> None:
        """In place of the inbox."""
        message.run()  # type: ignore[union-attr]

    def get(self, *may: Attributes, **query: str) -> Answer:
        request = PageRequest("GET", "/status", query, b"", lambda a: a in may)
        return status_page(self.status).answer(request)

    def shown(self, *may: Attributes, **query: str) -> Any:
        answer = self.get(*(may or ALL), **query)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)


def test_all_is_well() -> None:
    answer = Process().shown()
    assert answer["sentence"] == "n1 leads since 2026-01-01T12:00:00Z; 2 Pods wait."
    assert (answer["kind"], answer["leads"], answer["ready"]) == ("StatusAnswer", True, True)
    configuration = {"read": "1970-01-01T00:00:00Z", "used": True, "reloads": 2, "failed": 0}
    assert answer["configuration"] == configuration
    assert answer["inFlight"]["bindings"] == 0
    assert not {"plugins", "notReady", "stuck", "unanswered"} & set(answer)


@pytest.mark.parametrize(
    ("may", "namespace", "status"),
    [
        (ALL, "", 200),
        ((*ALL, IN_SHOP), "shop", 200),
        ((IN_SHOP,), "shop", 200),
        ((IN_SHOP,), "", 403),
        ((IN_SHOP,), "bank", 403),
        ((NODES,), "", 403),
        ((), "shop", 403),
    ],
    ids=str,
)
def test_it_is_for_who_may_list_pods(
    may: tuple[Attributes, ...], namespace: str, status: int
) -> None:
    assert Process().get(*may, namespace=namespace).status == status


def test_of_a_namespace_nothing_else_is_named() -> None:
    process = Process()
    process.wrong, process.reloader.problem = ["Node n1 is odd"], "node n1 is odd"
    process.watchdog.late = True
    plugin = SimpleNamespace(plugin="Slow", where="Filter", pod=None)
    process.watchdog.culprit = lambda: plugin
    process.cluster.core.scheduler.pulse.step(make_pod("theirs").namespace("bank").obj())
    answer = process.shown(IN_SHOP, namespace="shop")
    raw = json.dumps(answer)
    assert "n1" not in raw
    assert "bank" not in raw
    assert answer["waiting"]["pods"] == 2
    assert answer["sentence"].startswith("the scheduler leads since 2026-01-01T12:00:00Z; plugin")
    everything = process.shown()
    assert everything["notReady"] == ["Node n1 is odd"]
    assert everything["configuration"]["problem"] == "node n1 is odd"
    assert everything["stuck"]["pod"] == "bank/theirs"


def test_what_is_wrong_stands_in_the_sentence() -> None:
    process = Process()
    process.wrong, process.reloader.problem = ["Pod: forbidden"], "profiles: none"
    process.metrics.plugin_failed("Bad", "Filter")
    assert process.shown()["sentence"] == (
        "n1 leads since 2026-01-01T12:00:00Z; not ready: Pod: forbidden; the files of the "
        "configuration have an error and are not what runs; Bad failed in the last minute; "
        "2 Pods wait."
    )


def test_a_scheduling_thread_that_says_nothing_is_told_beside_all_else() -> None:
    process = Process()
    process.questions.charge(SAVED_SECONDS + 0.05)
    process.watchdog.late = True
    process.watchdog.culprit = lambda: SimpleNamespace(plugin="", where="", pod=None)
    answer = process.shown()
    assert "ask again in 1.0 s" in answer["unanswered"]
    assert not {"waiting", "inFlight"} & set(answer)
    assert answer["stuck"]["seconds"] == 0.0
    assert answer["sentence"].endswith("; a step has not returned for 0 s.")


@pytest.mark.parametrize(
    ("active", "elects", "leader", "says"),
    [
        (False, True, "n2_b", "this is a standby; n2 leads since 2026"),
        (False, True, "", "this is a standby; nobody leads; 2"),
        (True, False, "", "the scheduler schedules, without a Lease; 2"),
    ],
    ids=["standby", "nobody leads", "without election"],
)
def test_who_leads(active: bool, elects: bool, leader: str, says: str) -> None:
    process = Process()
    process.cluster.core.scheduler.active = active
    process.leadership.elects, process.leadership.leader = elects, leader
    process.leadership.identity = "n1_a" if elects else ""
    process.leadership.since = "2026-01-01T12:00:00Z" if leader else ""
    assert process.shown()["sentence"].startswith(says)
