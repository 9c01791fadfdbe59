"""``bayplan explain`` of a running cluster: the running scheduler answers, or nobody does."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from rich.console import Console
from tests.client.fault_server import Exchange, FaultServer, running_server
from tests.core_harness import Cluster
from tests.groups import members, pod_group
from tests.kubeconfig import write_kubeconfig
from tests.queues import pod as tenant_pod
from tests.queues import queue, queue_cluster
from tests.scripted import scripted
from typer.testing import CliRunner, Result

from bayplan.cli.app import app
from bayplan.cli.explain_text import print_verdicts
from bayplan.explain.why import Why
from bayplan.framework import WAIT
from bayplan.testing import make_node, make_pod

GREEN = "32m"
Explain = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def explain(server: FaultServer, tmp_path: Path) -> Iterator[Explain]:
    """Runs the command; the server is the API server and the scheduler."""
    where = (f"--server={server.url}", f"--kubeconfig={write_kubeconfig(tmp_path, server.url)}")
    yield lambda *args: CliRunner().invoke(app, ["explain", *where, *args])
    structlog.reset_defaults()


def answers(server: FaultServer, cluster: Cluster) -> None:
    """Let the server answer as the scheduler of ``cluster``, and list its Pods."""
    core = cluster.core

    def script(exchange: Exchange) -> None:
        query = exchange.query
        if exchange.bare_path.endswith("/pods"):
            pods = core.world.handlers.pods.values()
            listed = [
                {
                    "metadata": {
                        "namespace": pod.namespace,
                        "name": pod.name,
                        "ownerReferences": [
                            {"kind": "ReplicaSet", "name": "web-1", "controller": True}
                        ],
                    }
                }
                for pod in pods
                if not pod.node_name
            ]
            exchange.answer(200, {"metadata": {}, "items": listed})
            return
        assert query["verdict"] == "whole"
        parts = core.world, core.profiles, core.placers, core.records
        who = Why(*parts, names=True, whole=True)
        if "group" in query:
            answer = who.of_group(query["namespace"], query["group"])
        else:
            answer = who.of_pod(query["namespace"], query["pod"])
        if answer is None:
            exchange.error(404, "NotFound", "there is none")
        else:
            exchange.answer(200, answer)

    server.script = script


def small_cluster(*plugins: Any) -> Cluster:
    cluster = Cluster(*plugins)
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    cluster.add(make_node("n2").capacity(cpu="2", memory="8Gi", pods=10))
    return cluster


def coloured(explain: Explain, name: str) -> str:
    """The text about the Pod as a terminal has it."""
    verdicts = json.loads(explain(name, "-o", "json").stdout)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=140)
    print_verdicts(console, verdicts, 5, owners={})
    return out.getvalue().splitlines()[0]


def test_a_pod_that_fits_goes_to_its_node_in_green_when_its_turn_comes(
    server: FaultServer, explain: Explain
) -> None:
    cluster = small_cluster()
    cluster.add(make_pod("p").req(cpu="3"))
    answers(server, cluster)
    assert explain("p").stdout.startswith("default/p goes to n1 when its turn comes\n")
    assert GREEN in coloured(explain, "p")
    assert json.loads(explain("pod/p", "-o", "json").stdout)[0]["best"] == ["n1"]


def test_another_context_is_asked_with_its_user_in_its_namespace(
    server: FaultServer, explain: Explain, tmp_path: Path
) -> None:
    cluster = small_cluster()
    cluster.add(make_pod("p").namespace("shop").req(cpu="3"), make_pod("p").req(cpu="5"))
    answers(server, cluster)
    path = Path(write_kubeconfig(tmp_path))  # the current context leads nowhere
    kubeconfig = yaml.safe_load(path.read_text())
    kubeconfig["clusters"].append({"name": "d", "cluster": {"server": server.url}})
    kubeconfig["users"].append({"name": "v", "user": {"token": "theirs"}})
    other = {"cluster": "d", "user": "v", "namespace": "shop"}
    kubeconfig["contexts"].append({"name": "other", "context": other})
    path.write_text(yaml.safe_dump(kubeconfig))
    assert explain("p", "--context", "other").stdout.startswith("shop/p goes to n1")
    server.requests.clear()
    assert explain("--context", "other").stdout.startswith("shop/p goes to n1")
    listed = server.requests[0]
    assert listed.path.startswith("/api/v1/namespaces/shop/pods")
    assert listed.headers["Authorization"] == "Bearer theirs"
    missing = explain("--context", "third")
    assert (missing.exit_code, "third" in missing.output) == (2, True)


def test_a_member_of_a_group_that_gathers_goes_nowhere(
    server: FaultServer, explain: Explain
) -> None:
    cluster = queue_cluster("Coscheduling")
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    cluster.add(pod_group("g", minMember=3), *members("g", 2))
    cluster.run()
    answers(server, cluster)
    first = explain("g-0").stdout.splitlines()[0]
    assert first.startswith("default/g-0 waits with the group default/g: WaitingForMembers")
    assert GREEN not in coloured(explain, "g-0")


def test_a_pod_above_the_limit_of_its_queue_goes_nowhere(
    server: FaultServer, explain: Explain
) -> None:
    cluster = queue_cluster()
    cluster.add(make_node("n0").capacity(cpu="8", memory="64Gi", pods=110))
    cluster.add(queue("a", "x", limit={"cpu": 1}))
    cluster.add(tenant_pod("one", "x"), tenant_pod("two", "x"))
    cluster.run()
    answers(server, cluster)
    waiting = "x/two" if cluster.bound[0][0] == "one" else "x/one"
    text = explain(waiting).stdout
    assert text.startswith(f"{waiting} stays pending")
    assert "QueueLimit" in text
    assert GREEN not in coloured(explain, waiting)


def test_a_pod_in_permit_waits_there(server: FaultServer, explain: Explain) -> None:
    cluster = small_cluster(scripted("Hold", permit=(WAIT, 60.0)))
    cluster.add(make_pod("p").req(cpu="3"))
    cluster.cycle()
    answers(server, cluster)
    first = explain("p").stdout.splitlines()[0]
    assert first == "default/p waits in Permit for Hold, at most 60 s more, to go to n1."
    assert GREEN not in coloured(explain, "p")


def test_what_the_scheduler_said_last_and_the_place_in_the_queue_are_shown(
    server: FaultServer, explain: Explain
) -> None:
    cluster = small_cluster()
    cluster.add(make_pod("big").req(cpu="5"))
    cluster.run()
    answers(server, cluster)
    text = explain("big").stdout
    assert "last attempt, " in text
    assert "queue: unschedulable, 1 attempts" in text
    running = json.loads(explain("big", "-o", "json").stdout)[0]["running"]
    assert running["queue"]["rejectedBy"] == ["NodeResourcesFit"]


def test_a_running_pod_is_judged_as_if_it_were_pending_and_keeps_what_it_reserved(
    server: FaultServer, explain: Explain
) -> None:
    calls: list[str] = []
    plugin = scripted(
        "Counts",
        reserve=lambda: calls.append("reserve"),
        unreserve=lambda: calls.append("unreserve"),
    )
    cluster = small_cluster(plugin)
    running = make_pod("p").req(cpu="3")
    cluster.add(running)
    cluster.run()
    cluster.add(running.node("n1"))
    assert calls == ["reserve"]
    answers(server, cluster)
    text = explain("p").stdout
    assert text.startswith("default/p (runs on n1; judged as if it were pending) goes to n1")
    assert "Scheduled on n1" in text
    assert calls == ["reserve"]
    assert cluster.nodes.requested("cpu").sum() == 3000


def test_equal_outcomes_of_one_owner_are_said_once(server: FaultServer, explain: Explain) -> None:
    cluster = small_cluster()
    cluster.add(*(make_pod(f"big-{i}").req(cpu="5") for i in range(4)), make_pod("small"))
    answers(server, cluster)
    text = explain("-A", "-l", "app=web").stdout
    assert "default/big-0 and 3 more of ReplicaSet web-1 stays pending" in text
    assert text.count("Insufficient cpu") <= 3
    assert "default/small goes to" in text
    (listed,) = [r.path for r in server.requests if r.path.startswith("/api/v1/pods?")]
    assert "labelSelector=app%3Dweb" in listed
    explain("-n", "shop")
    assert any(r.path.startswith("/api/v1/namespaces/shop/pods?") for r in server.requests)


def test_a_group_is_asked_about(server: FaultServer, explain: Explain) -> None:
    cluster = queue_cluster("Coscheduling")
    cluster.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods=10))
    cluster.add(pod_group("g", minMember=2), *members("g", 2))
    answers(server, cluster)
    for words in (("podgroup/g",), ("group", "g"), ("podgroup", "default/g")):
        verdict = json.loads(explain(*words, "-o", "json").stdout)
        assert set(verdict["plan"]) == {"default/g-0", "default/g-1"}
    assert "2 Pods wait" in explain("podgroup/g").stdout


def test_who_is_not_known_ends_with_1(server: FaultServer, explain: Explain) -> None:
    answers(server, small_cluster())
    run = explain("nobody")
    assert run.exit_code == 1
    assert "knows no Pod default/nobody" in run.output


def test_without_a_scheduler_or_the_right_it_refuses_and_says_what_to_do(
    server: FaultServer, explain: Explain
) -> None:
    server.script = lambda exchange: exchange.error(500, "InternalError", "no")
    run = explain("p")
    assert run.exit_code == 2
    assert "the running scheduler cannot be asked" in run.output
    assert "with --config FILE Pods are judged here" in run.output
    server.script = lambda exchange: exchange.error(403, "Forbidden", "may not list nodes")
    run = explain("p")
    assert run.exit_code == 2
    assert "bayplan why" in run.output


EVENTS = "/api/v1/namespaces/default/events"
STATUS = """
nodeGroups:
- name: pool-a
  health: {cloudProviderTarget: 5, maxSize: 5}
  scaleUp: {status: NoActivity}
- name: pool-b
  health: {cloudProviderTarget: 1, maxSize: 5}
  scaleUp: {status: Backoff}
"""


def event(reason: str, at: str, message: str) -> dict[str, Any]:
    return {"reason": reason, "lastTimestamp": at, "message": message}


@pytest.mark.parametrize(
    ("events", "number", "text"),
    [
        pytest.param(
            [
                event("TriggeredScaleUp", "2026-01-01T12:00:00Z", "pod triggered scale-up"),
                event("NotTriggerScaleUp", "2026-01-01T12:05:00Z", "2 Insufficient cpu"),
            ],
            6,
            "the autoscaler said at 2026-01-01T12:05:00Z: 2 Insufficient cpu",
            id="refused",
        ),
        pytest.param(
            [event("TriggeredScaleUp", "2026-01-01T12:00:00Z", "[{pool-a 1->2}]")],
            7,
            "a node was asked for at 2026-01-01T12:00:00Z: [{pool-a 1->2}]",
            id="asked for",
        ),
        pytest.param(
            [event("FailedScheduling", "2026-01-01T12:00:00Z", "no")],
            8,
            "cluster-autoscaler's status: pool-a has its largest size 5; pool-b is in backoff",
            id="status",
        ),
    ],
)
def test_what_the_autoscaler_says_comes_after_what_the_scheduler_knows(
    server: FaultServer, explain: Explain, events: list[Any], number: int, text: str
) -> None:
    cluster = small_cluster()
    cluster.add(*(make_pod(f"full-{n}").req(cpu="2").node(n) for n in ("n1", "n2")))
    cluster.add(make_pod("p").req(cpu="3"), make_pod("huge").req(cpu="9"))
    cluster.run()
    answers(server, cluster)
    scheduler = server.script

    def script(exchange: Exchange) -> None:
        if exchange.bare_path == EVENTS:
            assert "involvedObject.name=p" in exchange.query["fieldSelector"]
            exchange.answer(200, {"items": events})
        elif exchange.bare_path.endswith("/cluster-autoscaler-status"):
            exchange.answer(200, {"data": {"status": STATUS}})
        else:
            scheduler(exchange)

    server.script = script
    assert explain("p", "--autoscaler").stdout.strip() == f"default/p: {text}"
    (one,) = json.loads(explain("p", "--autoscaler", "-o", "json").stdout)
    assert one["autoscaler"]["cause"] == number
    assert "the largest has 4" in explain("huge", "--autoscaler").stdout


def test_an_autoscaler_that_is_not_there_has_said_nothing(
    server: FaultServer, explain: Explain
) -> None:
    cluster = small_cluster()
    cluster.add(*(make_pod(f"full-{n}").req(cpu="2").node(n) for n in ("n1", "n2")))
    cluster.add(make_pod("p").req(cpu="3"))
    cluster.run()
    answers(server, cluster)
    scheduler = server.script

    def script(exchange: Exchange) -> None:
        if exchange.bare_path == "/why":
            scheduler(exchange)
        else:
            exchange.error(403, "Forbidden", "no")

    server.script = script
    assert "nothing that is known stands against a new node" in explain("p", "--autoscaler").stdout
