"""Extenders: processes of their own that filter, prioritize, preempt and bind.

Each scenario runs under bayplan and under kube-scheduler, both with the same configuration: what is
expected holds for both, and so for any extender that was written for kube-scheduler.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from e2e.cluster import OTHER, SOON, Bayplan, Cluster, pod
from e2e.extender_server import Rules
from e2e.provider import NodeSpec, Part, wait_until
from e2e.provider.process import Endpoint, free_port
from e2e.provider.programs import OTHER_KUBE_SCHEDULER, is_reference

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

HOST = "kubernetes.io/hostname"
VERBS = {"filter": "filterVerb", "prioritize": "prioritizeVerb", "preempt": "preemptVerb"}
CACHED = pytest.mark.parametrize("cached", [False, True], ids=["whole objects", "names"])
"""nodeCacheCapable: whether the extender knows nodes and Pods by itself."""


class Server:
    """An extender process."""

    def __init__(
        self, cluster: Cluster, *options: Any, port: Any = 0, scheme: str = "http", **rules: Any
    ) -> None:
        self.port = port or free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        argv = [sys.executable, "-m", "e2e.extender_server", f"--port={self.port}"]
        argv += [f"--rules={json.dumps(vars(Rules(**rules)))}"]
        argv += [f"--kubeconfig={cluster.plane.kubeconfig}", *options]
        log = cluster.plane.folder / f"extender-{self.port}.log"
        self.part = Part("extender", argv, log, Endpoint(self.url, cluster.plane.context), "/calls")
        self.part.start()

    def calls(self, verb: str) -> Any:
        """What it was asked with that verb."""
        return [body for v, body in json.loads(self.part.endpoint.get("/calls")) if v == verb]

    def settings(self, *verbs: Any, cached: bool = False, **more: Any) -> Any:
        """What a configuration says of it."""
        return settings(self.url, *verbs, nodeCacheCapable=cached, **more)


def settings(url: str, *verbs: Any, **more: Any) -> Any:
    # Long, for on a busy machine an extender takes many seconds to load its client.
    limit = f"{SOON:g}s"
    names = VERBS | {"bind": "bindVerb"}
    return (
        {"urlPrefix": url, "weight": 1, "httpTimeout": limit} | {names[v]: v for v in verbs} | more
    )


@pytest.fixture
def serve(cluster: Cluster) -> Iterator[Callable[..., Any]]:
    """Start an extender with these rules: ``serve(reject={...})``; see `Rules`."""
    with ExitStack() as stack:

        def serving(*options: Any, **rules: Any) -> Any:
            made = Server(cluster, *options, **rules)
            stack.callback(made.part.kill)
            return made

        yield serving


@pytest.fixture(params=["bayplan", "kube-scheduler"])
def run(
    request: pytest.FixtureRequest, cluster: Cluster, start: Callable[..., Bayplan]
) -> Iterator[Callable[..., None]]:
    """Run the scheduler in question with these extenders."""
    if request.param == "kube-scheduler" and not is_reference():
        pytest.skip(OTHER_KUBE_SCHEDULER)
    with ExitStack() as stack:

        def running(*extenders: Any) -> None:
            config = cluster.config(OTHER, extenders=list(extenders))
            if request.param == "bayplan":
                start(config)
            else:
                part = cluster.plane.start_kube_scheduler(config)
                assert part is not None
                stack.callback(part.stop)

        yield running


def on(node: str) -> Any:
    return {"nodeSelector": {HOST: node}}


@CACHED
def test_an_extender_filters_and_is_told_of_what_it_is_to_judge(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any], cached: bool
) -> None:
    cluster.nodes(NodeSpec("a"), NodeSpec("b", labels={"disk": "ssd"}), NodeSpec("c", cpu="1"))
    extender = serve(reject={"a": "a is haunted"})
    run(extender.settings("filter", cached=cached))
    body = pod("p", OTHER, {"app": "web"}, cpu="2")
    body["spec"]["containers"][0]["env"] = [{"name": "GREETING", "value": "hello"}]
    cluster.create(body, pod("q", OTHER, **on("a")))
    assert cluster.wait_bound("p") == {"p": "b"}
    cluster.wait_condition(
        "q",
        text=(
            "0/3 nodes are available: 1 a is haunted, 2 node(s) didn't match Pod's node "
            "affinity/selector. preemption: 0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for "
            "scheduling."
        ),
    )
    asked = next(a for a in extender.calls("filter") if a["Pod"]["metadata"]["name"] == "p")
    assert asked["Pod"]["metadata"]["uid"] == cluster.pod("p")["metadata"]["uid"]
    assert asked["Pod"]["spec"]["containers"][0]["env"] == body["spec"]["containers"][0]["env"]
    if cached:
        assert asked.get("Nodes") is None
        assert sorted(asked["NodeNames"]) == ["a", "b"], "c is too small"
    else:
        assert asked.get("NodeNames") is None
        nodes = {node["metadata"]["name"]: node for node in asked["Nodes"]["items"]}
        assert sorted(nodes) == ["a", "b"], "c is too small"
        assert nodes["b"]["metadata"]["labels"]["disk"] == "ssd"
        assert nodes["b"]["status"]["nodeInfo"].keys() >= {"kubeletVersion", "osImage"}


@CACHED
def test_an_extender_has_its_preference(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any], cached: bool
) -> None:
    cluster.nodes(NodeSpec("large", cpu="64"), NodeSpec("small", cpu="4"), NodeSpec("other"))
    extender = serve(scores={"small": 10})
    run(extender.settings("prioritize", cached=cached, weight=10))
    cluster.create(pod("p", OTHER, cpu="1"))
    assert cluster.wait_bound("p") == {"p": "small"}


def test_the_first_that_rejects_a_node_keeps_it_from_the_next(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a"), NodeSpec("b"), NodeSpec("c"))
    first, second = serve(reject={"a": "too old"}), serve(reject={"b": "too noisy"})
    run(first.settings("filter"), second.settings("filter", cached=True))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "c"}
    assert sorted(second.calls("filter")[0]["NodeNames"]) == ["b", "c"]


def test_an_extender_binds(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a"), NodeSpec("b"))
    extender = serve(reject={"a": "no"})
    run(extender.settings("filter", "bind"))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "b"}
    cluster.wait_event("p", "Scheduled", f"Successfully assigned {cluster.namespace}/p to b")
    uid = cluster.pod("p")["metadata"]["uid"]
    (call,) = extender.calls("bind")
    expected = {"PodName": "p", "PodNamespace": cluster.namespace, "PodUID": uid, "Node": "b"}
    assert call == expected


def test_an_extender_that_fails_to_bind_costs_the_attempt(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a"))
    extender = serve(error={"bind": "the port is closed"})
    run(extender.settings("bind"))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_condition("p", "SchedulerError") == "the port is closed"
    wait_until(lambda: len(extender.calls("bind")) > 1, SOON, "another try")


def test_only_pods_with_a_managed_resource_are_asked_about(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """The extender alone counts the resource, which no node says that it has."""
    cluster.nodes(NodeSpec("a"), NodeSpec("b"))
    extender = serve(reject={"a": "no widgets"})
    managed = [{"name": "example.com/widget", "ignoredByScheduler": True}]
    run(extender.settings("filter", managedResources=managed))
    cluster.create(pod("plain", OTHER, **on("a")))
    wanting = pod("wanting", OTHER)
    widgets = {"example.com/widget": "1"}
    wanting["spec"]["containers"][0]["resources"] = {"requests": widgets, "limits": widgets}
    cluster.create(wanting)
    assert cluster.wait_bound("plain", "wanting") == {"plain": "a", "wanting": "b"}
    assert [c["Pod"]["metadata"]["name"] for c in extender.calls("filter")] == ["wanting"]


# Faults


def test_an_extender_that_is_down_is_passed_over_if_it_may_be(
    cluster: Cluster, run: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a"))
    away = f"http://127.0.0.1:{free_port()}"
    run(settings(away, "filter", "prioritize", "preempt", ignorable=True))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "a"}


def test_an_extender_that_is_down_is_waited_for_if_it_may_not_be_ignored(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a"), NodeSpec("b"))
    port = free_port()
    run(settings(f"http://127.0.0.1:{port}", "filter"))
    cluster.create(pod("p", OTHER))
    cluster.wait_condition("p", "SchedulerError", f"127.0.0.1:{port}")
    serve(port=port, reject={"a": "no"})
    assert cluster.wait_bound("p") == {"p": "b"}


def test_an_extender_that_never_answers_is_not_waited_for_longer_than_it_may_take(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a"))
    slow = serve(slow=["filter", "prioritize"])
    run(slow.settings("filter", "prioritize", httpTimeout="300ms", ignorable=True))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "a"}


def test_an_extender_that_says_that_it_failed_costs_the_attempt(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    cluster.nodes(NodeSpec("a"))
    run(serve(error={"filter": "out of order"}).settings("filter"))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_condition("p", "SchedulerError") == "out of order"


def test_an_extender_is_reached_by_tls_with_certificates_on_both_sides(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    authority = cluster.plane.authority
    server, client = authority.issue("extender", "extender"), authority.issue("caller", "bayplan")
    extender = serve(
        f"--cert={server.cert}",
        f"--key={server.key}",
        f"--client-ca={authority.cert}",
        scheme="https",
        reject={"a": "no"},
    )
    files = {
        "caFile": str(authority.cert),
        "certFile": str(client.cert),
        "keyFile": str(client.key),
    }
    cluster.nodes(NodeSpec("a"), NodeSpec("b"))
    run(extender.settings("filter", enableHTTPS=True, tlsConfig=files))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "b"}


# Preemption


@pytest.fixture
def full(cluster: Cluster) -> Callable[[], None]:
    """Two nodes, each full of one Pod of its own; what is on b matters more."""

    def make() -> None:
        cluster.nodes(NodeSpec("a", cpu="1"), NodeSpec("b", cpu="1"))
        low = pod("on-a", OTHER, cpu="1", **on("a"))
        mid = pod("on-b", OTHER, cpu="1", priorityClassName="e2e-mid", **on("b"))
        cluster.create(low, mid)
        cluster.wait_bound("on-a", "on-b")

    return make


@CACHED
def test_an_extender_saves_a_victim_and_another_is_taken(
    cluster: Cluster,
    serve: Callable[..., Any],
    run: Callable[..., Any],
    full: Callable[[], None],
    cached: bool,
) -> None:
    extender = serve(spare=["a"])
    run(extender.settings("preempt", cached=cached))
    full()
    victims = cluster.pods()
    cluster.create(pod("vip", OTHER, cpu="1", priorityClassName="e2e-vip"))
    assert cluster.wait_bound("vip") == {"vip": "b"}
    assert sorted(cluster.pods()) == ["on-a", "vip"]
    call = extender.calls("preempt")[0]
    assert call["Pod"]["metadata"]["name"] == "vip"
    sent, unset = ("NodeNameToMetaVictims", "NodeNameToVictims")[:: 1 if cached else -1]
    assert not call.get(unset)
    assert sorted(call[sent]) == ["a", "b"]
    (victim,) = call[sent]["a"]["Pods"]
    uid = victims["on-a"]["metadata"]["uid"]
    assert (victim["UID"] if cached else victim["metadata"]["uid"]) == uid
    assert call[sent]["a"]["NumPDBViolations"] == 0


def test_an_extender_saves_all_victims(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any], full: Callable[[], None]
) -> None:
    run(serve(spare=["a", "b"]).settings("preempt", cached=True))
    full()
    cluster.create(pod("vip", OTHER, cpu="1", priorityClassName="e2e-vip"))
    cluster.wait_condition(
        "vip",
        text="0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: no candidate node for preemption",
    )
    assert sorted(cluster.pods()) == ["on-a", "on-b", "vip"]


def test_nobody_is_evicted_where_an_extender_says_that_this_would_not_help(
    cluster: Cluster, serve: Callable[..., Any], run: Callable[..., Any]
) -> None:
    run(serve(hopeless={"a": "a is cursed"}, reject={"b": "b is busy"}).settings("filter"))
    cluster.nodes(NodeSpec("a"), NodeSpec("b"))
    cluster.create(pod("vip", OTHER, priorityClassName="e2e-vip"))
    cluster.wait_condition(
        "vip",
        text=(
            "0/2 nodes are available: 1 a is cursed, 1 b is busy. "
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling."
        ),
    )
