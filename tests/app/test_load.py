"""Sources of measured load: real HTTP servers that answer as metrics-server and Prometheus do."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from structlog.testing import capture_logs
from tests.core_harness import profile

from bayplan.api.kinds import NAMESPACE
from bayplan.app import load as module
from bayplan.app.exposition import expose_load
from bayplan.app.load import LoadFeeds, PriceFeed
from bayplan.cache.node_load import STALE_SECONDS, NodeLoad, NodeLoads
from bayplan.cache.node_price import NodePrices, PriceRule
from bayplan.client.connection import Connection
from bayplan.client.http import Http
from bayplan.config import ConfigError
from bayplan.config.args import PriceSource
from bayplan.queue.states import QueueState
from bayplan.testing import Cluster, Json, make_node, make_object, make_pod

SOON = 20.0
Answer = Callable[[str], tuple[int, Any]]


class Source(ThreadingHTTPServer):
    """Answers by a function of the path; a float in place of a body is a delay."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Answer = lambda _: (200, {})
        self.paths: list[str] = []
        self.tokens: set[str] = set()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: Source

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.server.tokens.add(self.headers.get("Authorization", ""))
        status, body = self.server.answer(self.path)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Source]:
    source = Source()
    yield source
    source.shutdown()
    source.server_close()


class Rig:
    """A scheduler with a plugin, and the feeds of its source."""

    def __init__(self, server: Source, plugin: str = "TargetLoadPacking", **args: Any) -> None:
        chosen = profile("NodeResourcesFit", plugin, bare=True, args={plugin: args})
        self.cluster = Cluster(config={"profiles": [chosen]})
        for name in ("a", "b", "c"):
            amounts = {"cpu": 10, "memory": "10Gi", "pods": 110}
            self.cluster.add(make_node(name).capacity(amounts).status(capacity=amounts))
        core = self.cluster.core
        (self.source,) = core.profiles.sources()
        http = Http(Connection.to(server.url), max_tries=1)
        self.feeds = LoadFeeds(http, self.cluster.inbox, core.world.cache.nodes, interval=0.05)
        expose_load(self.cluster.metrics, self.feeds)

    def start(self) -> None:
        self.feeds.watch(self.cluster.core.profiles.sources())

    def until(self, condition: Callable[[], bool]) -> None:
        """Take in what comes until it holds."""
        deadline = time.monotonic() + SOON
        while not condition():
            assert time.monotonic() < deadline, "in vain"
            self.cluster.take_in()
            time.sleep(0.01)

    @property
    def load(self) -> NodeLoad:
        return self.cluster.core.world.cache.nodes.ensure_column(NodeLoads)[self.source]

    def of(self, node: str, resource: str = "cpu") -> tuple[float, float]:
        row = self.cluster.core.world.cache.nodes.row(node)
        assert row is not None
        load = self.load
        return load.mean[resource].item(row), load.deviation[resource].item(row)

    def metric(self, name: str, *labels: str) -> float:
        wanted = f"{name}{{"
        for line in self.cluster.metrics.render().decode().splitlines():
            if line.startswith(wanted) and all(f'"{label}"' in line for label in labels):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no {name} of {labels}")

    def place(self, name: str = "p") -> str:
        self.cluster.add(make_pod(name).req(cpu="100m"))
        self.cluster.run()
        return self.cluster.node_of(name)


@pytest.fixture
def rig(server: Source) -> Iterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def make(**args: Any) -> Rig:
        rigs.append(Rig(server, **args))
        return rigs[-1]

    yield make
    for each in rigs:
        each.feeds.watch(())


def stamp(ago: float = 0) -> str:
    return datetime.fromtimestamp(time.time() - ago, UTC).isoformat().replace("+00:00", "Z")


def node_metrics(name: str, cpu: str, memory: str = "1Gi", ago: float = 5) -> Json:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "timestamp": stamp(ago),
        "window": "20.046s",
        "usage": {"cpu": cpu, "memory": memory},
    }


def metrics_list(*items: Json) -> Answer:
    version = {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
    body = {**version, "metadata": {}, "items": items}
    return lambda path: (200, body) if path == "/apis/metrics.k8s.io/v1beta1/nodes" else (404, {})


def vector(values: dict[str, str], label: str = "instance") -> Json:
    result = [{"metric": {label: n}, "value": [time.time(), v]} for n, v in values.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


# metrics.k8s.io


def test_usage_is_read_from_the_metrics_api(server: Source, rig: Callable[..., Rig]) -> None:
    server.answer = metrics_list(
        node_metrics("a", "2500000000n", "5242880Ki"),
        node_metrics("b", "9", "1Gi"),
        node_metrics("elsewhere", "1"),
    )
    it = rig()
    it.start()
    it.until(lambda: not math.isnan(it.of("b")[0]))
    assert it.of("a") == (0.25, 0.0)
    assert it.of("a", "memory") == (0.5, 0.0)
    assert it.of("b") == (0.9, 0.0)
    assert math.isnan(it.of("c")[0])
    # a is at 25 %: the best below 40; c has the median of a and b, which is b's.
    assert it.place() == "a"
    assert it.metric("bayplan_load_nodes", "metrics.k8s.io") == 2
    assert it.metric("bayplan_load_samples_total", "unknown node") >= 1
    assert 4 < it.metric("bayplan_load_sample_age_seconds", "metrics.k8s.io") < 60


def test_kept_scores_follow_the_load(server: Source, rig: Callable[..., Rig]) -> None:
    server.answer = metrics_list(*(node_metrics(n, c) for n, c in zip("abc", "190", strict=True)))
    it = rig()
    it.start()
    it.until(lambda: not math.isnan(it.of("a")[0]))
    assert it.place("first") == "a"
    server.answer = metrics_list(*(node_metrics(n, c) for n, c in zip("abc", "913", strict=True)))
    it.until(lambda: it.of("c")[0] == 0.3)
    assert it.place("second") == "c"


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (node_metrics("a", "-1"), "invalid"),
        (node_metrics("a", "much"), "invalid"),
        (node_metrics("a", "1e999"), "invalid"),
        (node_metrics("a", "100"), "invalid"),
        (node_metrics("a", "3", ago=3e7), "stale"),
        ({"metadata": {"name": "a"}, "usage": {"cpu": "3"}}, "stale"),
        (node_metrics("other", "3"), "unknown node"),
    ],
)
def test_samples_that_cannot_be_true_are_counted_and_told_once(
    server: Source, rig: Callable[..., Rig], lie: Json, why: str
) -> None:
    server.answer = metrics_list(lie, node_metrics("b", "3"), node_metrics("c", "9"))
    it = rig()
    with capture_logs() as logs:
        it.start()
        it.until(lambda: it.feeds.all()[0].samples[why] > 2)
    assert math.isnan(it.of("a")[0])
    told = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [(entry["why"], entry["count"]) for entry in told] == [(why, 1)]
    assert it.place() == "b", "the node that lies does not win"


# Prometheus


def test_mean_and_deviation_are_read_by_promql(server: Source, rig: Callable[..., Rig]) -> None:
    def answer(path: str) -> tuple[int, Any]:
        (query,) = parse_qs(urlsplit(path).query)["query"]
        deviation = "stddev" in query
        if "memory" in query:
            return 200, vector({"a": "0.02" if deviation else "0.5"}, "node")
        if deviation:
            return 200, vector({"a": "0.1", "b": "NaN"}, "node")
        return 200, vector({"a": "0.25", "b": "0.3", "c": "+Inf"}, "node")

    server.answer = answer
    provider = {"type": "Prometheus", "address": server.url, "token": "t0k", "nodeLabel": "node"}
    it = rig(plugin="LoadVariationRiskBalancing", metricProvider=provider)
    it.start()
    it.until(lambda: it.feeds.all()[0].samples["invalid"] > 0)
    assert it.of("a") == (0.25, 0.1)
    assert it.of("a", "memory") == (0.5, 0.02)
    assert math.isnan(it.of("b")[0])
    assert math.isnan(it.of("c")[0])
    assert server.tokens == {"Bearer t0k"}
    queries = {parse_qs(urlsplit(path).query)["query"][0] for path in server.paths}
    assert queries == {
        f"{what}_over_time({rule}[15m]) and {rule}"
        for what in ("avg", "stddev")
        for rule in ("instance:node_cpu:ratio", "instance:node_memory_utilisation:ratio")
    }


def test_own_queries_are_asked_as_they_are(server: Source, rig: Callable[..., Rig]) -> None:
    server.answer = lambda _: (200, vector({"a": "0.5"}))
    queries = {"cpu": {"mean": "x + y"}, "memory": {}}
    it = rig(metricProvider={"type": "Prometheus", "address": server.url, "queries": queries})
    it.start()
    it.until(lambda: it.of("a") == (0.5, 0.0))
    assert set(server.paths) == {"/api/v1/query?query=x%20%2B%20y"}


# load-watcher


def test_a_load_watcher_is_asked(server: Source, rig: Callable[..., Rig]) -> None:
    def metric(type_: str, operator: str, value: float) -> Json:
        return {"name": "x", "type": type_, "operator": operator, "rollup": "15m", "value": value}

    metrics = [metric("CPU", "Latest", 90), metric("CPU", "AVG", 25), metric("CPU", "STD", 10)]
    metrics += [metric("Memory", "Latest", 50), metric("Bandwidth", "AVG", 3)]
    window = {"duration": "15m", "start": int(time.time()) - 900, "end": int(time.time())}
    nodes = {"a": {"metrics": metrics}, "b": {"metrics": None}}
    body = {"timestamp": 1, "window": window, "data": {"NodeMetricsMap": nodes}}
    server.answer = lambda path: (200, body) if path == "/watcher" else (404, b"no")
    it = rig(watcherAddress=server.url)
    it.start()
    it.until(lambda: not math.isnan(it.of("a")[0]))
    assert it.of("a") == (0.25, 0.1)
    assert it.of("a", "memory") == (0.5, 0.0)
    assert math.isnan(it.of("b")[0])


# Faults


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, {"kind": "Status", "message": "nodes.metrics.k8s.io is forbidden", "code": 403}),
        (404, b"404 page not found"),
        (503, b"service unavailable"),
        (200, b"<html>"),
        (200, {"items": [{"usage": 3}]}),
    ],
    ids=["forbidden", "not served", "unavailable", "html", "another shape"],
)
def test_a_source_that_fails_is_told_once_and_pods_are_placed(
    server: Source, rig: Callable[..., Rig], status: int, body: Any
) -> None:
    server.answer = lambda _: (status, body)
    it = rig()
    with capture_logs() as logs:
        it.start()
        it.until(lambda: it.feeds.all()[0].polls["failure"] > 2)
        assert it.place() == "a"
        server.answer = metrics_list(node_metrics("b", "3"))
        it.until(lambda: not math.isnan(it.of("b")[0]))
    events = [entry["event"] for entry in logs if "Load" in entry["event"]]
    assert events == ["Load of nodes cannot be read", "Load of nodes can be read again"]
    assert it.metric("bayplan_load_polls_total", "failure") > 2


@pytest.mark.parametrize(
    "body",
    [
        {"status": "error", "error": "parse error: unexpected end of input"},
        {"status": "success", "data": {"resultType": "scalar", "result": []}},
        {"status": "success", "data": {"resultType": "vector", "result": [{"value": "x"}]}},
    ],
)
def test_an_answer_that_is_no_vector_is_a_failure(
    server: Source, rig: Callable[..., Rig], body: Json
) -> None:
    server.answer = lambda _: (200, body)
    it = rig(metricProvider={"type": "Prometheus", "address": server.url})
    it.start()
    it.until(lambda: it.feeds.all()[0].polls["failure"] > 0)
    assert it.place() == "a"


def test_a_source_that_does_not_answer_is_not_waited_for(
    server: Source, rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.3)
    answered = threading.Event()

    def wait(_: str) -> tuple[int, Any]:
        answered.wait(SOON)
        return 200, {}

    server.answer = wait
    it = rig()
    it.start()
    assert it.place() == "a"
    it.until(lambda: it.feeds.all()[0].polls["failure"] > 1)
    answered.set()


def test_equal_sources_are_asked_once_and_those_of_nobody_not_at_all(
    server: Source, rig: Callable[..., Rig]
) -> None:
    server.answer = metrics_list(node_metrics("a", "3"))
    it = rig()
    sources = it.cluster.core.profiles.sources()
    it.feeds.watch([*sources, *sources])
    (feed,) = it.feeds.all()
    it.feeds.watch(sources)
    assert it.feeds.all() == [feed]
    it.until(lambda: not math.isnan(it.of("a")[0]))
    it.feeds.watch([])
    assert it.feeds.all() == []
    it.until(lambda: math.isnan(it.of("a")[0]))


def test_without_a_plugin_that_reads_it_nothing_is_asked() -> None:
    assert Cluster().core.profiles.sources() == []


# Prices


def prices_of(it: Rig) -> dict[str, float]:
    nodes = it.cluster.core.world.cache.nodes
    price = nodes.ensure_column(NodePrices)[PriceRule(source=it.source)]
    return {i.name: v for i in nodes if not math.isnan(v := price.values.item(i.row))}


def test_prices_are_read_by_promql(server: Source, rig: Callable[..., Rig]) -> None:
    server.answer = lambda _: (200, vector({"a": "0.4", "b": "0.1", "x": "0.01"}, "node"))
    it = rig(plugin="DomainCost", price={"promql": {"address": server.url, "token": "t0k"}})
    it.start()
    it.until(lambda: prices_of(it) == {"a": 0.4, "b": 0.1})
    assert it.place("first") == "b"
    assert it.metric("bayplan_load_samples_total", "unknown node") >= 1
    assert it.metric("bayplan_load_nodes", f"prices of {server.url}") == 2
    assert server.tokens == {"Bearer t0k"}
    assert "max%20by%20%28node%29%20%28node_total_hourly_cost%29" in server.paths[0]
    server.answer = lambda _: (200, vector({"a": "0.4", "b": "0.9", "c": "0.3"}, "node"))
    it.until(lambda: len(prices_of(it)) == 3)
    assert it.place("second") == "c"


@pytest.mark.parametrize("lie", ["-1", "NaN", "+Inf", "cheap"])
def test_a_node_does_not_win_by_a_price_that_is_none(
    server: Source, rig: Callable[..., Rig], lie: str
) -> None:
    server.answer = lambda _: (200, vector({"a": lie, "b": "0.3", "c": "0.4"}, "node"))
    it = rig(plugin="DomainCost", price={"promql": {"address": server.url}})
    it.start()
    it.until(lambda: it.feeds.all()[0].samples["invalid"] > 0)
    assert prices_of(it) == {"b": 0.3, "c": 0.4}
    assert it.place() == "b"


def test_what_prometheus_says_of_a_wrong_query_is_in_the_log(server: Source) -> None:
    said = {"status": "error", "errorType": "bad_data", "error": "1:13: parse error: unclosed"}
    server.answer = lambda _: (400, said)
    it = Rig(server, plugin="DomainCost", price={"promql": {"address": server.url}})
    with capture_logs() as lines:
        it.start()
        it.until(lambda: bool(it.feeds.all()[0].polls["failure"]))
        it.feeds.watch(())
    errors = [line["error"] for line in lines if line["event"] == "Prices of nodes cannot be read"]
    assert errors == ["Invalid: 1:13: parse error: unclosed"]


def test_prices_count_until_they_are_too_old_and_then_are_not_known(server: Source) -> None:
    it = Rig(server, plugin="DomainCost", price={"promql": {"address": server.url}}, budget={})
    nodes, now = it.cluster.core.world.cache.nodes, [1e9]
    assert isinstance(it.source, PriceSource)
    ended = PriceFeed(it.source, it.feeds._shared[0], it.cluster.inbox, nodes, lambda: now[0], 1e6)
    ended.close()
    ended.arrive({"a": 0.2})
    now[0] += STALE_SECONDS
    ended.arrive(None)
    assert prices_of(it) == {"a": 0.2}
    now[0] += 1
    ended.arrive(None)
    assert prices_of(it) == {}
    ended.arrive({"b": 0.2})
    ended.end()
    assert prices_of(it) == {}
    assert it.place() in {"a", "b", "c"}


def test_pods_that_wait_for_a_price_go_when_a_source_says_one(server: Source) -> None:
    it = Rig(server, plugin="DomainCost", price={"promql": {"address": server.url}}, budget={})
    cluster = it.cluster
    cluster.add(make_object(NAMESPACE, "default").annotation("bayplan.dev/hourly-budget", "0.3"))
    pod = make_pod("p").req(cpu=1)
    cluster.add(pod)
    cluster.run()
    assert "no price is known" in cluster.message(pod)
    column = cluster.core.world.cache.nodes.ensure_column(NodePrices)
    rule = PriceRule(source=it.source)
    nodes = cluster.core.world.cache.nodes
    column.write(rule, dict.fromkeys("abc", 5.0), nodes)
    cluster.wait(20)
    cluster.run()
    assert "hourly budget of Namespace default: 0.5000 or more of 0.3000" in cluster.message(pod)
    column.write(rule, dict.fromkeys("abc", 6.0), nodes)
    cluster.wait(20)
    assert cluster.state(pod) is QueueState.UNSCHEDULABLE
    column.write(rule, {"b": 2.0}, nodes)
    cluster.wait(20)
    cluster.run()
    assert cluster.node_of(pod) in {"a", "b", "c"}


def test_arguments_of_promql_are_checked(server: Source) -> None:
    wrong = {"promql": {"address": "prometheus:9090", "query": ""}, "label": "price"}
    with pytest.raises(ConfigError) as error:
        Rig(server, plugin="DomainCost", price=wrong)
    text = str(error.value)
    assert "must name one of annotation, label, perDomain and promql" in text
    assert "price.promql.address" in text
    assert "price.promql.query" in text
