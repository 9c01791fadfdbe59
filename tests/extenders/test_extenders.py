"""Extenders, against a server that answers what the test says."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.certificates import Authority
from tests.client.fault_server import Exchange, FaultServer, one_after_another, running_server
from tests.core_harness import Cluster
from tests.plugins.harness import table_of

from bayplan.support import logs
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.client.errors import Forbidden
from bayplan.config.types import Extender
from bayplan.engine.extenders import ExtenderError
from bayplan.engine.faults import AttemptFault
from bayplan.engine.search import Fit
from bayplan.extenders.extenders import Extenders
from bayplan.extenders.full_objects import FullObjects
from bayplan.extenders.http_extender import HttpExtender
from bayplan.framework.status import SUCCESS, Status
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

NO_FILTER: dict[str, Any] = {"nodes": {"items": []}}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        yield running


class Whole(FullObjects):
    """Stands for the API server that has the whole objects."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def pod(self, pod: Pod) -> msgspec.Raw:
        """The Pod's JSON."""
        if self.error is not None:
            raise self.error
        return msgspec.Raw(msgspec.json.encode({"kind": "Pod", "metadata": {"name": pod.name}}))

    def nodes(self, nodes: Iterable[Node]) -> list[msgspec.Raw]:
        """The nodes' JSON."""
        return [msgspec.Raw(msgspec.json.encode({"metadata": {"name": n.name}})) for n in nodes]


def extender(server: FaultServer, error: Exception | None = None, **fields: Any) -> HttpExtender:
    """An extender at the server, with these API fields."""
    config = {"urlPrefix": f"{server.url}/api/", "weight": 1, "httpTimeout": "5s"} | fields
    return HttpExtender(Extender.model_validate(config), Whole(error))


def answers(body: Any, status: int = 200) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.answer(status, body)


def world(*names: str) -> tuple[Any, Fit]:
    nodes = table_of(*(make_node(name) for name in names))
    return nodes, Fit(nodes.exists.copy(), len(names), len(names))


def kept(nodes: Any, fit: Fit) -> list[str]:
    assert fit.count == np.count_nonzero(fit.feasible)
    return sorted(nodes.names[row] for row in np.flatnonzero(fit.feasible))


POD = make_pod("p").uid("u1").obj()


# Filter


@pytest.mark.parametrize("capable", [True, False], ids=["names", "whole nodes"])
def test_filter_is_asked_with_pod_and_nodes(server: FaultServer, capable: bool) -> None:
    names = {"NodeNames": ["b"]}
    whole = {"nodes": {"items": [{"metadata": {"name": "b", "labels": {"Zone": "X"}}}]}}
    server.script = answers(names if capable else whole)
    nodes, fit = world("a", "b")
    asked = extender(server, filterVerb="filter", nodeCacheCapable=capable)
    rejected = Extenders([asked]).filter(POD, nodes, fit)
    assert rejected == {}
    assert kept(nodes, fit) == ["b"]
    (request,) = server.requests
    assert (request.command, request.path) == ("POST", "/api/filter")
    assert request.headers["Content-Type"] == "application/json"
    body = msgspec.json.decode(request.body)
    assert body["Pod"]["metadata"]["name"] == "p"
    if capable:
        assert body["NodeNames"] == ["a", "b"]
        assert "Nodes" not in body
    else:
        assert [n["metadata"]["name"] for n in body["Nodes"]["items"]] == ["a", "b"]
        assert "NodeNames" not in body


def test_what_it_rejects_has_a_status(server: FaultServer) -> None:
    server.script = answers(
        {
            "nodenames": ["a"],
            "FailedNodes": {"b": "no licence", "c": "full", "unknown": "x"},
            "failedAndUnresolvableNodes": {"c": "wrong rack"},
            "error": None,
        }
    )
    nodes, fit = world("a", "b", "c", "d")
    asked = extender(server, filterVerb="filter", nodeCacheCapable=True)
    rejected = Extenders([asked]).filter(POD, nodes, fit)
    assert kept(nodes, fit) == ["a"]
    assert rejected == {
        nodes.row("b"): Status.unschedulable("no licence").by("Extender"),
        nodes.row("c"): Status.unresolvable("wrong rack").by("Extender"),
    }


def test_each_extender_sees_what_the_one_before_left(server: FaultServer) -> None:
    server.script = one_after_another(
        answers({"nodeNames": ["a", "b"]}), answers({"nodeNames": []}), answers({})
    )
    nodes, fit = world("a", "b", "c")
    three = [extender(server, filterVerb=f"f{i}", nodeCacheCapable=True) for i in range(3)]
    Extenders(three).filter(POD, nodes, fit)
    assert fit.count == 0
    assert [r.path for r in server.requests] == ["/api/f0", "/api/f1"], "nothing is left for more"
    assert msgspec.json.decode(server.requests[1].body)["NodeNames"] == ["a", "b"]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        pytest.param(answers({"error": "no database"}), "no database", id="it says so"),
        pytest.param(
            answers({}, 500),
            r"failed filter with extender at URL http://.*/api/filter, code 500",
            id="status",
        ),
        pytest.param(
            answers({"nodeNames": ["z"]}),
            'extender ".*/api/" claims a filtered node "z" which is not found in the input node',
            id="a node that was not asked about",
        ),
        pytest.param(answers(b"oops"), "extender .*, filter: JSON is malformed", id="no JSON"),
        pytest.param(answers({"nodeNames": "a"}), "extender .*, filter: Expected", id="wrong type"),
        pytest.param(lambda e: e.hang_up(), "extender at URL .*/api/filter: ", id="hangs up"),
    ],
)
@pytest.mark.parametrize("ignorable", [True, False])
def test_an_extender_that_fails_ends_the_attempt_unless_it_may_be_ignored(
    server: FaultServer, script: Any, text: str, ignorable: bool
) -> None:
    server.script = script
    nodes, fit = world("a")
    fields: dict[str, Any] = {
        "filterVerb": "filter",
        "nodeCacheCapable": True,
        "ignorable": ignorable,
    }
    extenders = Extenders([extender(server, **fields)])
    if ignorable:
        assert extenders.filter(POD, nodes, fit) == {}
        assert kept(nodes, fit) == ["a"]
    else:
        with pytest.raises(AttemptFault, match=text):
            extenders.filter(POD, nodes, fit)


def test_an_extender_that_is_silent_is_waited_for_as_long_as_it_says(server: FaultServer) -> None:
    server.script = lambda exchange: exchange.wait_until_the_end()
    slow = extender(server, filterVerb="filter", nodeCacheCapable=True, httpTimeout="50ms")
    with pytest.raises(ExtenderError, match="timed out"):
        slow.filter(POD, [])


def test_a_pod_that_cannot_be_read_counts_as_a_failure_of_the_extender(
    server: FaultServer,
) -> None:
    forbidden = Forbidden("may not get pods")
    asked = extender(server, error=forbidden, filterVerb="f", preemptVerb="p")
    for call in (lambda: asked.filter(POD, []), lambda: asked.preempt(POD, {})):
        with pytest.raises(ExtenderError, match="may not get pods"):
            call()
    assert server.requests == []


@pytest.mark.parametrize(
    ("pod", "interested"),
    [
        pytest.param(make_pod().req(cpu="1"), False, id="asks for none of them"),
        pytest.param(make_pod().req({"x.com/a": 1}), True, id="requests"),
        pytest.param(
            make_pod().container(resources={"limits": {"x.com/b": "1"}}), True, id="limits"
        ),
        pytest.param(make_pod().init_req({"x.com/a": 1}), True, id="init container"),
    ],
)
def test_an_extender_of_some_resources_cares_about_pods_that_ask_for_them(
    server: FaultServer, pod: PodBuilder, interested: bool
) -> None:
    some = [{"name": "x.com/a"}, {"name": "x.com/b"}]
    asked = extender(server, filterVerb="filter", bindVerb="bind", managedResources=some)
    assert asked.interested(pod.obj()) is interested
    assert extender(server, filterVerb="filter").interested(pod.obj())
    extenders = Extenders([asked])
    assert extenders.binds(pod.obj()) is interested
    if not interested:
        nodes, fit = world("a")
        assert extenders.filter(pod.obj(), nodes, fit) == {}
        assert server.requests == []


def test_only_extenders_with_a_verb_are_asked_for_it(server: FaultServer) -> None:
    idle = Extenders([extender(server, prioritizeVerb="")])
    nodes, fit = world("a")
    totals = np.zeros(len(nodes), np.int64)
    assert idle.filter(POD, nodes, fit) == {}
    assert idle.add_scores(POD, nodes, fit, totals)[0] == 0
    assert not idle.binds(POD)
    assert idle.bind(POD, "a") is None
    assert idle.preemptors(POD) == []
    assert bool(idle)
    assert not Extenders()
    assert server.requests == []


# Prioritize


def test_scores_are_scaled_weighted_and_added(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_level", 10)
    server.script = one_after_another(
        answers([{"Host": "a", "Score": 10}, {"host": "gone", "score": 9}, {"host": "c"}]),
        answers({"not": "a list"}),
        answers([{"host": "b", "score": -200}]),
    )
    nodes, fit = world("a", "b", "c", "d")
    fit.feasible[nodes.row("d")] = False
    totals = np.full(len(nodes), 5, np.int64)
    three = [extender(server, prioritizeVerb="rank", weight=w) for w in (3, 1, 1)]
    result = Extenders(three).add_scores(POD, nodes, fit, totals)
    assert [int(result[nodes.row(n)]) for n in "abc"] == [5 + 10 * 3 * 10, 5 - 2000, 5]
    assert result[nodes.row("d")] < -2000, "a node that is not feasible never comes first"
    assert totals[0] == 5
    asked = [msgspec.json.decode(r.body)["Nodes"]["items"] for r in server.requests]
    assert [len(nodes) for nodes in asked] == [3, 3, 3]


# Preempt


def victims() -> dict[str, tuple[list[Pod], int]]:
    return {"a": ([make_pod("v").uid("v1").obj()], 1), "b": ([], 0)}


@pytest.mark.parametrize("capable", [True, False])
def test_preempt_is_asked_about_victims_and_answers_by_uid(
    server: FaultServer, capable: bool
) -> None:
    server.script = answers(
        {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 1}}}
    )
    asked = extender(server, preemptVerb="preempt", nodeCacheCapable=capable)
    answer = asked.preempt(POD, victims())
    assert list(answer) == ["a"]
    assert [v.uid for v in answer["a"].pods or ()] == ["v1"]
    assert answer["a"].pdb_violations == 1
    body = msgspec.json.decode(server.requests[0].body)
    key, pod = (
        ("NodeNameToMetaVictims", {"UID": "v1"})
        if capable
        else ("NodeNameToVictims", {"kind": "Pod", "metadata": {"name": "v"}})
    )
    assert body[key] == {
        "a": {"Pods": [pod], "NumPDBViolations": 1},
        "b": {"Pods": [], "NumPDBViolations": 0},
    }


def test_an_empty_answer_agrees_to_no_node(server: FaultServer) -> None:
    server.script = answers({"NodeNameToMetaVictims": None})
    asked = extender(server, preemptVerb="preempt", nodeCacheCapable=True)
    assert asked.preempt(POD, victims()) == {}
    assert Extenders([asked]).preemptors(POD) == [asked]


# Bind


def test_the_first_interested_extender_binds(server: FaultServer) -> None:
    server.script = answers({})
    cares_not = extender(server, bindVerb="other", managedResources=[{"name": "x/y"}])
    extenders = Extenders([cares_not, extender(server, bindVerb="bind")])
    assert extenders.binds(POD)
    assert extenders.bind(POD, "n1") == SUCCESS
    (request,) = server.requests
    assert request.path == "/api/bind"
    assert msgspec.json.decode(request.body) == {
        "PodName": "p",
        "PodNamespace": "default",
        "PodUID": "u1",
        "Node": "n1",
    }


@pytest.mark.parametrize(
    ("ignorable", "outcome"),
    [(False, Status.error("no")), (True, None)],
    ids=["an error", "ignored: a plugin binds"],
)
def test_an_extender_that_cannot_bind(
    server: FaultServer, ignorable: bool, outcome: Status | None
) -> None:
    server.script = answers({"Error": "no"})
    extenders = Extenders([extender(server, bindVerb="bind", ignorable=ignorable)])
    assert extenders.bind(POD, "n1") == outcome


# TLS


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[tuple[FaultServer, Authority]]:
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.files("extender.example", tmp_path))
    context.load_verify_locations(cadata=authority.ca.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    with running_server() as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        running.script = answers({"nodeNames": []})
        yield running, authority


def over_tls(server: FaultServer, tls: dict[str, Any] | None, **fields: Any) -> HttpExtender:
    url = server.url.replace("http:", "https:")
    config = {"urlPrefix": url, "filterVerb": "f", "nodeCacheCapable": True, "tlsConfig": tls}
    return HttpExtender(Extender.model_validate(config | fields), Whole())


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_the_server_is_verified_by_its_authority_and_name(
    tls_server: tuple[FaultServer, Authority], tmp_path: Path
) -> None:
    server, authority = tls_server
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.ca)
    named = {"serverName": "extender.example"}
    over_tls(server, named | {"caData": encoded(authority.ca)}).filter(POD, [])
    over_tls(server, named | {"caFile": str(ca)}, enableHTTPS=True).filter(POD, [])
    for wrong in (
        {"caData": encoded(authority.ca)},
        {"caData": encoded(authority.ca), "serverName": "other.example"},
        {"caData": encoded(Authority().ca), "serverName": "extender.example"},
        None,
    ):
        with pytest.raises(ExtenderError, match=r"SSL|certificate"):
            over_tls(server, wrong).filter(POD, [])


@pytest.mark.parametrize(
    ("tls", "https"),
    [({"insecure": True}, False), (None, True), ({"serverName": "x"}, True)],
    ids=["insecure", "HTTPS without TLS settings", "HTTPS without an authority"],
)
def test_the_server_is_not_verified_where_nothing_says_by_whom(
    tls_server: tuple[FaultServer, Authority], tls: Any, https: bool
) -> None:
    over_tls(tls_server[0], tls, enableHTTPS=https).filter(POD, [])


@pytest.mark.parametrize("as_files", [True, False])
def test_a_client_certificate_is_shown(
    tls_server: tuple[FaultServer, Authority], tmp_path: Path, as_files: bool
) -> None:
    server, authority = tls_server
    seen: list[Any] = []

    def script(exchange: Exchange) -> None:
        seen.append(exchange.connection.getpeercert())
        exchange.answer(200, {})

    server.script = script
    if as_files:
        cert, key = authority.files("scheduler", tmp_path)
        tls = {"certFile": str(cert), "keyFile": str(key)}
    else:
        cert_pem, key_pem = authority.issue("scheduler")
        tls = {"certData": encoded(cert_pem), "keyData": encoded(key_pem)}
    over_tls(server, tls | {"insecure": True}).filter(POD, [])
    assert seen[0]["subject"] == ((("commonName", "scheduler"),),)


def test_connections_are_kept(server: FaultServer) -> None:
    server.script = answers({"nodeNames": []})
    asked = extender(server, filterVerb="filter", nodeCacheCapable=True)
    for _ in range(3):
        asked.filter(POD, [])
    assert len({request.client_address for request in server.requests}) == 1


# In a scheduler


def ready(name: str) -> NodeBuilder:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods=10, **{"x.com/lic": 0})


def test_an_extender_filters_ranks_and_binds_in_the_cycle(server: FaultServer) -> None:
    def script(exchange: Exchange) -> None:
        asked = exchange.json()
        match exchange.bare_path:
            case "/api/filter":
                exchange.answer(200, {"nodeNames": [n for n in asked["NodeNames"] if n != "a"]})
            case "/api/rank":
                exchange.answer(200, [{"host": n, "score": int(n == "c") * 10} for n in "bc"])
            case _:
                exchange.answer(200, {})

    server.script = script
    verbs: dict[str, Any] = {"filterVerb": "filter", "prioritizeVerb": "rank", "bindVerb": "bind"}
    cluster = Cluster(extenders=Extenders([extender(server, nodeCacheCapable=True, **verbs)]))
    cluster.add(ready("a"), ready("b"), ready("c"), make_pod("p").req(cpu="1"))
    cluster.run()
    assert not cluster.bound, "no plugin bound it"
    assert cluster.notes == [("Scheduled", "Successfully assigned default/p to c")]
    assert [r.path for r in server.requests] == ["/api/filter", "/api/rank", "/api/bind"]
    assert cluster.is_at_rest()


def test_a_bind_that_the_extender_refuses_is_undone(server: FaultServer) -> None:
    server.script = answers({"error": "already bound"})
    cluster = Cluster(extenders=Extenders([extender(server, bindVerb="bind")]))
    pod = make_pod("p").req(cpu="1")
    cluster.add(ready("a"), pod)
    cluster.run()
    assert cluster.verdict == ("SchedulerError", "already bound")
    assert cluster.counted_on(pod) == ""
    assert cluster.is_at_rest()


def test_a_resource_that_the_extender_manages_alone_is_not_counted(server: FaultServer) -> None:
    server.script = answers({"nodeNames": ["a"]})
    managed: list[Any] = [{"name": "x.com/lic", "ignoredByScheduler": True}]
    fields: dict[str, Any] = {
        "filterVerb": "filter",
        "nodeCacheCapable": True,
        "managedResources": managed,
    }
    config = {"urlPrefix": f"{server.url}/api", "weight": 1} | fields
    cluster = Cluster(extenders=Extenders([extender(server, **fields)]), extender_config=config)
    cluster.add(ready("a"), make_pod("p").req({"x.com/lic": 5}))
    cluster.run()
    assert cluster.bound == [("p", "a")]
